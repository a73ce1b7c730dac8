"""Scenarios: reading, changes, the same numbers for the same seed, sweeps."""

from __future__ import annotations

import itertools
import tracemalloc
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType

import polars
import pytest
import txweir


def test_the_same_seed_gives_the_same_numbers(uplink: txweir.Scenario) -> None:
    one, same, other = uplink.run(seed=1), uplink.run(seed=1), uplink.run(seed=2)
    assert one.to_json() == same.to_json() and one.samples.to_dict() == same.samples.to_dict()
    assert one.to_json() != other.to_json()
    assert uplink.run().seed == uplink.seed == 1 and uplink.duration_ns == 2_000_000_000


def test_changes_make_another_scenario(uplink: txweir.Scenario) -> None:
    policy = "qdisc replace root handle 1: fq_codel\n# a, comment = 1..5 @x"
    other = uplink.with_({"link.home.server.policy": policy, "traffic.bulk.count": 5}, seed=9, delay="1ms")
    assert uplink.run().traffic["count"] == [2, 1], "the first one is as it was"
    result = other.run()
    assert result.traffic["count"] == [5, 1] and result.seed == 9
    assert result.queues["qdisc"][0] == "fq_codel"
    assert other.text != uplink.text and other.name == uplink.name
    assert txweir.Scenario.from_text(other.text, other.name) == other


def test_a_file(tmp_path: Path, uplink: txweir.Scenario) -> None:
    path = tmp_path / "uplink.toml"
    path.write_text(uplink.text)
    read = txweir.Scenario.from_file(path)
    assert read.text == uplink.text and read.name == str(path) and read.title == "a home uplink"
    with pytest.raises(FileNotFoundError):
        txweir.Scenario.from_file(tmp_path / "other.toml")


@pytest.mark.parametrize(
    ("changes", "key", "expected", "given"),
    [
        ({"rate": 5}, "rate", "a value of type string", "5"),
        ({"count": "two"}, "count", "a value of type integer", "two"),
        ({"seed": True}, "seed", None, "true"),
        (
            {"seed": 2**63},
            "seed",
            "-9223372036854775808 to 9223372036854775807",
            "9223372036854775808",
        ),
        ({"nosuch": 1}, "nosuch: the file has no such place", None, None),
        ({"link.home.server.rate": "1parsec"}, None, None, None),
        ({"kind": "stream"}, "kind", "one place", "traffic.bulk.kind, traffic.requests.kind"),
    ],
)
def test_changes_that_are_refused(
    uplink: txweir.Scenario,
    changes: dict[str, str | int],
    key: str | None,
    expected: str | None,
    given: str | None,
) -> None:
    with pytest.raises(txweir.Error) as refused:
        uplink.with_(changes)
    error = refused.value
    assert isinstance(error, ValueError) and error.object == "uplink.toml"
    assert key is None or error.key in (key, None) and key in str(error), str(error)
    assert expected is None or error.expected == expected
    assert given is None or error.given == given


def test_values_of_a_wrong_type(uplink: txweir.Scenario) -> None:
    with pytest.raises(TypeError, match="rate: expected str, int, float or bool, given list"):
        uplink.with_({"rate": ["1mbit"]})  # type: ignore[dict-item]
    with pytest.raises(txweir.Error, match="seed: given twice"):
        uplink.with_({"seed": 1}, seed=2)


def test_a_seed_beyond_its_range_is_refused(uplink: txweir.Scenario) -> None:
    for seed in [-1, 2**64]:
        with pytest.raises(txweir.Error) as refused:
            uplink.run(seed=seed)
        error = refused.value
        assert (error.object, error.key, error.given) == ("uplink.toml", "seed", str(seed))
    with pytest.raises(TypeError):
        uplink.run(seed="1")  # type: ignore[arg-type]


def test_changes_are_any_mapping(uplink: txweir.Scenario) -> None:
    changes = MappingProxyType({"seed": 9, "traffic.bulk.count": 5})
    assert uplink.with_(changes) == uplink.with_(dict(changes))
    with pytest.raises(txweir.Error, match="seed: given twice"):
        uplink.with_(changes, seed=2)


def test_an_error_of_a_file_has_its_place() -> None:
    text = 'title = "t"\nduration = "2s"\n[[host]]\nname = "a"\n[[link]]\nfrom = "a"\nto = "b"\nrate = "1mbit"\n[[traffic]]\nname = "x"\nfrom = "a"\nto = "b"\nkind = "stream"\n'
    with pytest.raises(txweir.Error) as refused:
        txweir.Scenario.from_text(text, "s.toml")
    (finding,) = refused.value.findings
    assert (finding.line, finding.column, finding.text) == (12, 6, '"b"')
    assert (refused.value.key, refused.value.expected, refused.value.given) == ("host", "one of a", "b")


OVER = {
    "link.home.server.rate": ["10mbit", "20mbit"],
    "seed": range(1, 4),
    "link.home.server.bql": [True, False],
}


@pytest.mark.parametrize("kind", ["none", "threads", "processes"])
def test_a_sweep_is_its_runs(uplink: txweir.Scenario, kind: str) -> None:
    short = uplink.with_(duration="400ms", warmup="100ms")
    # A fork would copy the locks of threads that are not there.
    pools: dict[str, Executor | None] = {
        "none": None,
        "threads": ThreadPoolExecutor(3),
        "processes": ProcessPoolExecutor(2, get_context("spawn")) if kind == "processes" else None,
    }
    pool = pools[kind]
    told: list[tuple[int, int]] = []
    sweep = txweir.sweep(short, OVER, executor=pool, progress=lambda done, whole: told.append((done, whole)))
    if pool is not None:
        pool.shutdown()
    assert told == [(n, 12) for n in range(1, 13)] and len(sweep) == 12
    assert list(sweep.values) == list(itertools.product(*OVER.values())), "the last place changes fastest"
    for values, result in itertools.islice(sweep, 0, None, 5):
        assert short.with_(values).run().to_json() == result.to_json()
    frame = polars.DataFrame(sweep.table())
    assert frame.columns == ["run", *OVER, "section", "object", "metric", "value"]
    rates = (
        frame.filter(metric="rate_bit_s", object="home.server")
        .select("link.home.server.rate", "value")
        .unique()
    )
    assert sorted(rates.rows()) == [("10mbit", 1e7), ("20mbit", 2e7)]
    assert polars.DataFrame(sweep.table("queues"))["link.home.server.bql"].dtype == polars.Boolean


def test_a_sweep_that_is_refused(uplink: txweir.Scenario) -> None:
    for over, said in [
        ({"seed": []}, "seed: expected a list of values, given []"),
        ({"rate": "10mbit"}, "rate: expected a list of values, given '10mbit'"),
        ({"seed": range(10_001)}, "runs: expected at most 10000, given 10001"),
        ({"rate": ["10mbit", "ten"]}, "expected a rate"),
    ]:
        with pytest.raises(txweir.Error) as refused:
            txweir.sweep(uplink, over)
        assert said in str(refused.value)


def test_runs_are_counted_before_they_are_made(uplink: txweir.Scenario) -> None:
    over = {"seed": range(300), "link.home.server.rate": ["1mbit"] * 100, "delay": ["1ms"] * 10}
    tracemalloc.start()
    try:
        with pytest.raises(txweir.Error, match="at most 10000, given 300000"):
            txweir.sweep(uplink, over)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
