"""Tables: what other libraries make of them, and that they copy nothing."""

from __future__ import annotations

import json
import pickle

import altair
import pandas
import polars
import pyarrow
import pytest
import txweir

TABLES = [
    "traffic",
    "links",
    "queues",
    "drops",
    "measurements",
    "samples",
    "flows",
    "latency",
    "stages",
    "classes",
]


@pytest.fixture(scope="module")
def result(uplink: txweir.Scenario) -> txweir.Result:
    return uplink.run(seed=3, packets=True)


@pytest.mark.parametrize("name", [*TABLES, "packets"])
def test_libraries_read_the_same_values(result: txweir.Result, name: str) -> None:
    table: txweir.Table = getattr(result, name)
    own = table.to_dict()
    assert list(own) == table.columns and len(table) > 0
    assert polars.DataFrame(table).to_dict(as_series=False) == own
    assert pyarrow.table(table).to_pydict() == own
    frame = pandas.DataFrame.from_arrow(table)
    assert list(frame.columns) == table.columns and len(frame) == len(table)
    # A count is no float and no unsigned number: a difference of two does not wrap.
    kinds = {str(field.type) for field in pyarrow.table(table).schema}
    assert kinds <= {"int64", "double", "string", "bool"}, kinds


def addresses(table: pyarrow.Table) -> list[int]:
    arrays = [chunk for column in table.columns for chunk in column.chunks]
    return [buffer.address for array in arrays for buffer in array.buffers() if buffer is not None]


def test_nothing_is_copied(result: txweir.Result) -> None:
    one, other = pyarrow.table(result.samples), pyarrow.table(result.samples)
    assert len(addresses(one)) > 6 and addresses(one) == addresses(other)
    # The columns outlive the objects that made them.
    del other
    values = pyarrow.table(txweir.Scenario.from_text(result_text()).run().samples).column("value")
    assert values.combine_chunks().to_pylist()[0] is not None


def result_text() -> str:
    from conftest import UPLINK

    return UPLINK.replace("2s", "500ms")


def test_a_chart_takes_a_table(result: txweir.Result) -> None:
    chart = (
        altair.Chart(polars.DataFrame(result.latency))
        .mark_line()
        .encode(x="percent:Q", y="latency_ns:Q", color="object:N")
    )
    data = next(iter(chart.to_dict()["datasets"].values()))
    assert len(data) == len(result.latency)


def test_a_column_for_each_number(uplink: txweir.Scenario) -> None:
    """Each number of a report is in a column, under its own keys: of every kind of traffic."""
    groups = {
        "stream": "",
        "rr": 'size = "100b"',
        "cbr": 'rate = "1mbit"\nsize = "200b"',
        "voice": "",
        "quic": "",
        "video": 'rate = "1mbit"',
        "dns": "arrivals = 50",
        "udprr": "",
        "short": 'arrivals = 50\nsize = "9kb"',
    }
    head = result_text().split("[[traffic]]")[0]
    group = '[[traffic]]\nname = "{0}"\nfrom = "home"\nto = "server"\nkind = "{0}"\n{1}\n'
    text = head + "".join(group.format(*one) for one in groups.items())
    result = txweir.Scenario.from_text(text).with_(duration="3s").run()
    own = {"name", "from", "to", "kind"}
    renamed = {"flows.completion": "completion", "video.frame_delay": "frame_delay", "flows.by_size": None}
    for section, names in [("traffic", result.traffic), ("links", result.links), ("queues", result.queues)]:
        rows = result.measurements.to_dict()
        for number, object in enumerate(json.loads(result.to_json())[section]):
            key = object.get("name") or f"{object['from']}.{object['to']}"
            mine = [
                (metric, value)
                for s, o, metric, value in zip(rows["section"], rows["object"], rows["metric"], rows["value"])
                if (s, o) == (section, key)
            ]
            assert len(mine) > 2
            for metric, value in mine:
                if metric.startswith(("flows.by_size", "drops.", "marks.")):
                    continue
                for old, new in renamed.items():
                    metric = metric.replace(old, new) if new else metric
                column = metric.replace(".", "_")
                for end in ["mean", "max"]:
                    column = column.replace(f"_bytes_{end}", f"_{end}_bytes")
                column = {"bql_limit": "bql_limit_bytes"}.get(column, column)
                assert names[column][number] == value, (metric, column)
    assert own <= set(result.traffic.columns)
    lost = dict(zip(result.drops["reason"], result.drops["packets"]))
    assert all(packets > 0 for packets in lost.values())


def test_one_number_by_its_names(result: txweir.Result) -> None:
    assert result.value("traffic", "bulk", "count") == 2
    assert result.value("links", "home.server", "rate_bit_s") == 20e6
    assert 0.9 < result.value("links", "home.server", "utilisation") <= 1
    with pytest.raises(txweir.Error) as refused:
        result.value("traffic", "bluk", "count")
    assert (refused.value.key, refused.value.expected, refused.value.given) == (
        "object",
        "one of bulk, requests",
        "bluk",
    )
    with pytest.raises(KeyError, match="expected one of name, from"):
        result.traffic["nmae"]
    with pytest.raises(AttributeError, match=r"run\(packets=True\)"):
        txweir.Scenario.from_text(result_text()).run().packets


def test_packets_are_those_of_the_link(result: txweir.Result) -> None:
    packets = polars.DataFrame(result.packets)
    up = packets.filter(polars.col("object") == "home.server")
    assert packets["fate"].unique().to_list() == ["arrives"] and up["packet"].n_unique() == len(up)
    assert (up["time_ns"] - up["sent_ns"]).min() > 0
    # What left in the measured time is what the line was busy with: each packet has 24 bytes on the line beside its own.
    measured = up.filter(polars.col("time_ns") > 200_000_000)
    busy = (measured["length_bytes"] + 24).sum() * 8 / 1.8 / 20e6
    assert busy == pytest.approx(result.value("links", "home.server", "utilisation"), abs=0.002)


def test_results_go_through_pickle(result: txweir.Result, uplink: txweir.Scenario) -> None:
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result) and again.seed == result.seed == 3
    for name in [*TABLES, "packets"]:
        assert getattr(again, name).to_dict() == getattr(result, name).to_dict()
    assert pickle.loads(pickle.dumps(uplink)) == uplink


def test_what_a_notebook_shows(result: txweir.Result) -> None:
    assert result._repr_html_().startswith("<pre>a home uplink\n")
    assert "<th>utilisation</th>" in result.links._repr_html_()
    assert repr(result.links).startswith("<txweir.Table of 2 rows: from, to")


def test_what_is_left_out_is_said() -> None:
    assert txweir.Scenario.from_text(result_text()).run().notes == ""
    hosts = "".join(f'[[host]]\nname = "h{n}"\n' for n in range(18))
    links = "".join(f'[[link]]\nfrom = "h{n}"\nto = "h{n + 1}"\nrate = "1gbit"\n' for n in range(17))
    traffic = '[[traffic]]\nname = "x"\nfrom = "h0"\nto = "h17"\nkind = "stream"\n'
    result = txweir.Scenario.from_text(f'title = "long"\nduration = "100ms"\n{hosts}{links}{traffic}').run()
    assert result.notes == "The first 32 directions of links; 2 more are not shown."
    assert len(result.links) == 34 and len(set(result.stages["object"])) == 32
