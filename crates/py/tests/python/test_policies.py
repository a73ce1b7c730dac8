"""Trials and checks of policies."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import MappingProxyType

import polars
import pytest
import txweir

SHAPED = "qdisc replace root handle 1: tbf rate 19mbit burst 16kb limit 1500kb\n"
FAIR = (
    "qdisc replace root handle 1: tbf rate 19mbit burst 16kb latency 300ms\nqdisc add parent 1:1 fq_codel\n"
)
HOME = {"link": "20mbit", "rtt": "30ms", "bql": False, "time": "3s", "runs": 4}


@pytest.fixture(scope="module")
def trial() -> txweir.Trial:
    return txweir.try_({"default": "default", "fair": FAIR}, **HOME)  # type: ignore[arg-type]


def test_a_fair_queue_is_faster(trial: txweir.Trial) -> None:
    before, after = (trial.value(policy, "rr", "latency_p99_ns") for policy in trial.policies)
    assert before / after > 4, (before, after)
    assert trial.policies == ["default", "fair"] and "times lower" in trial.verdict[0]
    measures = polars.DataFrame(trial.measures)
    row = measures.row(
        by_predicate=(polars.col("policy") == "fair") & (polars.col("label") == "latency p99"), named=True
    )
    assert (row["section"], row["object"], row["unit"], row["better"]) == ("traffic", "rr", "ns", "less")
    assert row["low"] <= row["median"] == after <= row["high"] and row["mark"] == "best"
    runs = polars.DataFrame(trial.runs).filter(policy="fair", object="rr", measure="latency_p99_ns")
    assert runs["seed"].to_list() == [1, 2, 3, 4] and runs["value"].min() == row["low"]


def test_the_tables_agree(trial: txweir.Trial) -> None:
    latency = polars.DataFrame(trial.latency).filter(policy="fair", object="rr")
    assert latency["percent"].to_list() == list(range(101)) and latency["latency_ns"].is_sorted()
    assert set(trial.samples["policy"]) == {"default", "fair"}
    steps = polars.DataFrame(trial.samples).filter(policy="fair", object="bulk", metric="throughput_bit_s")
    assert steps["time_ns"].to_list() == [n * 30_000_000 for n in range(100)]
    assert polars.DataFrame(trial.classes).filter(policy="fair")["kind"].to_list() == ["tbf", "fq_codel"]
    assert polars.DataFrame(trial.flows).filter(policy="fair")["flow"].unique().sort().to_list() == [
        0,
        1,
        2,
        3,
    ]
    assert trial.to_json().startswith("{") and trial.to_html().startswith("<!doctype html>")
    assert "rr x4" in str(trial) and trial._repr_html_().startswith("<pre>")


def test_trials_and_errors_go_through_pickle(trial: txweir.Trial) -> None:
    again = pickle.loads(pickle.dumps(trial))
    assert (str(again), again.title, again.verdict) == (str(trial), trial.title, trial.verdict)
    assert trial.fidelity and trial.fidelity == again.fidelity and "recorded range" in trial.fidelity
    for name in ["measures", "runs", "samples", "flows", "latency", "stages", "classes"]:
        assert getattr(again, name).to_dict() == getattr(trial, name).to_dict()
    with pytest.raises(txweir.Error) as refused:
        txweir.try_("qdisc add root pfifo limt 100")
    other = pickle.loads(pickle.dumps(refused.value))
    assert str(other) == str(refused.value) and other.findings == refused.value.findings
    (wait,) = waits = txweir.explain("qdisc add root pfifo", link="1mbit")
    assert pickle.loads(pickle.dumps(waits)) == [wait]


def test_the_same_options_give_the_same_numbers() -> None:
    one, other = (txweir.try_(FAIR, link="20mbit", time="1s", runs=2).to_json() for _ in range(2))
    assert one == other and '"name": "policy"' in one


def test_files_and_options(tmp_path: Path) -> None:
    path = tmp_path / "fair.tc"
    path.write_text(FAIR)
    short = {"link": "20mbit", "time": "500ms", "runs": 1}
    trial = txweir.try_(
        path, **short, traffic="voip", dscp={"calls up": "ef"}, mark=7, ipv6=True, down="50mbit", cc="bbr"
    )  # type: ignore[arg-type]
    assert trial.policies == ["fair.tc"] and "50Mbit down and 20Mbit up" in trial.title
    traffic = tmp_path / "calls.toml"
    traffic.write_text('[[traffic]]\nname = "calls"\nfrom = "a"\nto = "b"\nkind = "voice"\ncount = 3\n')
    trial = txweir.try_("distro", **short, traffic=traffic)  # type: ignore[arg-type]
    assert trial.policies == ["distro"] and set(trial.measures["object"]) == {"calls", "bottleneck"}
    assert trial.classes["kind"] == ["fq_codel"]
    # A script whose lines need no run, with deletions of nothing.
    script = "#!/bin/sh\ntc qdisc del dev eth0 root 2>/dev/null\nRATE=19mbit\ntc qdisc add dev eth0 root tbf rate $RATE burst 16kb latency 50ms\n"
    assert txweir.try_({"script": script}, **short).classes["kind"][0] == "tbf"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "key", "expected", "given"),
    [
        ({"link": "20"}, "link", "a rate with its unit (20mbit, 1gbit)", "20"),
        ({"link": 20}, "link", 'a rate with its unit ("20mbit")', "20"),
        ({"link": "8bit"}, "link", "64kbit to 100gbit", "8bit"),
        ({"rtt": "20"}, "rtt", "a time with its unit (20ms)", "20"),
        ({"runs": 65}, "runs", "1 to 64", "65"),
        ({"runs": 2.5}, "runs", "a number of runs, 1 to 64", "2.5"),
        ({"seed": -1}, "seed", "a whole number, 0 to 18446744073709551615", "-1"),
        ({"bql": "off"}, "bql", "True or False", "'off'"),
        ({"queues": 300}, "queues", "1 to 256", "300"),
        ({"cc": "vegas"}, "cc", "one of cubic, reno, bbr, bbr3, dctcp, prague, cubic+", "vegas"),
        (
            {"traffic": "movies"},
            "traffic",
            "one of bulk+rr, rrul, voip, web, incast, many-flows, or a path",
            "movies",
        ),
        ({"dscp": "loud"}, "dscp", "the name of a code point (ef, cs1, af41, le), or 0 to 63", "loud"),
        ({"mark": True}, "mark", "a marking", "True"),
        ({"policies": {}}, "policies", "1 to 32", "0"),
        (
            {"policies": "fair.tc"},
            "policy",
            "default, distro, tc lines, or a pathlib.Path of a file of tc lines",
            "fair.tc",
        ),
    ],
)
def test_an_error_names_key_expected_and_given(
    options: dict[str, object], key: str, expected: str, given: str
) -> None:
    with pytest.raises(txweir.Error) as refused:
        txweir.try_(**options)  # type: ignore[arg-type]
    error = refused.value
    assert (error.object, error.key, error.expected, error.given) == ("try_", key, expected, given), str(
        error
    )
    assert str(error).startswith(f"try_: {key}: expected ")


def test_an_error_of_a_policy_has_its_words() -> None:
    with pytest.raises(txweir.Error) as refused:
        txweir.try_({"mine": "# x\nqdisc add root pfifo limt 100"})
    error = refused.value
    assert (error.object, error.expected, error.given) == ("mine", "one of limit", "limt")
    (finding,) = error.findings
    assert (finding.line, finding.text, finding.suggestion) == (2, "limt", "limit")
    assert "^^^^" in str(error)


def test_findings_of_a_check() -> None:
    text = "qdisc add dev eth0 root handle 1: htb default 30\nclass add dev eth0 parent 1: classid 1:1 htb rate 10mbit\n"
    findings = txweir.check(text, link="20mbit")
    assert [(finding.severity, finding.code) for finding in findings] == [
        ("error", "unknown-default"),
        ("warning", "unreachable-class"),
    ]
    assert [(finding.line, finding.text) for finding in findings] == [(1, "30"), (2, "1:1")]
    assert "class 1:30 is never made" in findings[0].message and findings[0].message in str(findings[0])
    link = MappingProxyType({"eth0": "20mbit"})
    assert txweir.check(text, link=link, ignore=[finding.code for finding in findings]) == []
    assert len(txweir.check(text, link={"eth0": "20mbit"})) == 2
    assert txweir.check("qdisc add dev eth0 root fq_codel\n") == []
    (typo,) = txweir.check("qdisc add dev eth0 root fq_codl\n", name="x.tc")
    assert (typo.severity, typo.source, typo.suggestion) == ("error", "x.tc", "fq_codel")
    with pytest.raises(txweir.Error, match="did you mean unknown-default"):
        txweir.check(text, ignore=["unknown-defalt"])
    with pytest.raises(txweir.Error, match="expected a rate with its unit"):
        txweir.check(text, link="20")
    with pytest.raises(txweir.Error, match="mtu: expected 68 to 65535 bytes, given 3"):
        txweir.check(text, mtu=3)


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("mtu", -1, "68 to 65535 bytes"),
        ("mtu", 2**64, "68 to 65535 bytes"),
        ("txqueuelen", -1, "0 to 4294967295 packets"),
        ("txqueuelen", 2**32, "0 to 4294967295 packets"),
        ("hz", -1, "1 to 10000"),
        ("hz", 10_001, "1 to 10000"),
    ],
)
def test_a_number_beyond_its_range_is_refused(key: str, given: int, expected: str) -> None:
    for ask in (txweir.check, txweir.explain):
        with pytest.raises(txweir.Error) as refused:
            ask("qdisc add dev eth0 root pfifo\n", **{key: given})  # type: ignore[arg-type]
        error = refused.value
        assert (error.object, error.key, error.expected, error.given) == ("check", key, expected, str(given))
        with pytest.raises(TypeError):
            ask("qdisc add dev eth0 root pfifo\n", **{key: "1"})  # type: ignore[arg-type]


def test_waits_of_a_policy() -> None:
    (wait,) = txweir.explain("qdisc add dev eth0 root pfifo limit 1000\n", link="10mbit")
    assert (wait.device, wait.leaf, wait.kind, wait.rate_bit_s) == ("eth0", "root", "pfifo", 10_000_000)
    assert wait.bound_ns == 1514 * 8 * 1000 * 100 and wait.target_ns is None
    (short,) = txweir.explain(FAIR.replace("root", "dev eth0 root").replace("parent", "dev eth0 parent"))
    assert short.target_ns == 5_000_000 and "its target" in short.text
