"""Policies side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from txweir import _native
from txweir._error import Error
from txweir._progress import Progress

Policy = str | os.PathLike[str]
"""tc lines, the word ``default`` or ``distro``, or the path of a file of tc lines."""
Marks = str | int | Mapping[str, str | int] | None
"""A marking of all traffic, or of groups of it by their names."""


def _named(policies: Policy | Mapping[str, Policy]) -> list[tuple[str, str]]:
    """Return the names and texts of policies."""
    if isinstance(policies, Mapping):
        return [(name, _text(policy)) for name, policy in policies.items()]
    if isinstance(policies, str):
        alone = policies in ("default", "distro")
        return [(policies if alone else "policy", policies)]
    return [(Path(policies).name, _text(policies))]


def _text(policy: Policy) -> str:
    return policy if isinstance(policy, str) else Path(policy).read_text(encoding="utf-8")


def _marks(key: str, given: Marks) -> list[str]:
    """Return markings as ``[GROUP=]VALUE``."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [f"{group}={value}" for group, value in given.items()]
    if isinstance(given, bool):
        raise Error(
            f"try_: {key}: expected a marking, given {given}",
            object="try_",
            key=key,
            expected="a marking",
            given=str(given),
        )
    return [str(given)]


def try_(
    policies: Policy | Mapping[str, Policy] = "default",
    *,
    link: str = "1gbit",
    down: str | None = None,
    queues: int = 1,
    ring: int = 1024,
    bql: bool = True,
    rtt: str = "20ms",
    traffic: str | os.PathLike[str] = "bulk+rr",
    ipv6: bool = False,
    dscp: Marks = None,
    mark: Marks = None,
    time: str = "10s",
    runs: int = 5,
    seed: int = 1,
    cc: str = "cubic",
    ecn: bool = False,
    progress: Progress = True,
) -> _native.Trial:
    """Run policies on the same traffic in virtual time, each several times with other seeds.

    ``policies`` is one policy, or several by their names: the first is what the others are compared
    with. A policy is tc lines, the path of a file of them, or the word ``default`` (pfifo_fast) or
    ``distro`` (fq_codel). The options have the names and meanings of ``txweir try``; rates and
    times are text with their unit. ``traffic`` is the name of a mix, or the path of a scenario or a
    capture. Nothing on this machine changes. The same options give the same numbers.
    """
    words: dict[str, object] = {
        "link": link,
        "down": down,
        "queues": queues,
        "ring": ring,
        "bql": bql,
        "rtt": rtt,
        "traffic": (traffic, None)
        if isinstance(traffic, str)
        else (Path(traffic).name, Path(traffic).read_bytes()),
        "ipv6": ipv6,
        "dscp": _marks("dscp", dscp),
        "mark": _marks("mark", mark),
        "time": time,
        "runs": runs,
        "seed": seed,
        "cc": cc,
        "ecn": ecn,
    }
    return _native.trial(_named(policies), words, progress)
