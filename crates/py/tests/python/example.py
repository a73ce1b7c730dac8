"""A program with types: each of them is what a checker takes it for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import txweir

SCENARIO = """
title = "two hosts"
duration = "300ms"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
from = "a"
to = "b"
rate = "10mbit"
[[traffic]]
name = "bulk"
from = "a"
to = "b"
kind = "stream"
"""


def told(done: int, whole: int) -> None:
    assert 0 <= done <= whole


def main() -> None:
    finding: txweir.Finding = txweir.check("qdisc add root pfifo limt 100")[0]
    suggestion: str | None = finding.suggestion
    print(suggestion)
    waits: list[txweir.Wait] = txweir.explain("qdisc add root pfifo", link={"eth0": "1gbit"})
    assert all(wait.bound_ns is None for wait in waits)
    policies: dict[str, str | Path] = {"default": "default", "mine": "qdisc add root cake bandwidth 19mbit"}
    trial: txweir.Trial = txweir.try_(policies, link="20mbit", bql=False, time="2s", progress=told)
    worst: float = max(trial.value(policy, "rr", "latency_p99_ns") for policy in trial.policies)
    assert worst > 0
    print("; ".join(trial.verdict))
    scenario: txweir.Scenario = txweir.Scenario.from_text(SCENARIO).with_(seed=2)
    result: txweir.Result = scenario.run(seed=3, packets=True, progress=False)
    names: list[str] = result.packets.columns
    assert "time_ns" in names
    with ThreadPoolExecutor(2) as pool:
        sweep: txweir.Sweep = txweir.sweep(scenario, {"rate": ["1mbit", "2mbit"]}, executor=pool)
    table: txweir.Table = sweep.table("queues")
    assert len(table) == 4
    try:
        txweir.try_(link="20")
    except txweir.Error as error:
        key: str | None = error.key
        assert key == "link"


if __name__ == "__main__":
    main()
