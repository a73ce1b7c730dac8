"""Arrivals and departures whose order a trace does not tell: the process reads the clock, and then sends."""

import bisect
import json
import re

# Most arrivals that are moved.
MOVES_MAX = 8


def explained(text, replay, span):
    """Whether the replay equals Linux once arrivals, at most `MOVES_MAX`, stand behind a departure that the trace has within `span` ns
    of them: the packet met the qdisc after it. Each move must let the replay be equal for longer. The number of `overlimits` may
    stay different: a shaper counts each look at a queue that is not ready, and so where in a burst the looks are.

    `replay(text)` gives whether all is equal, and what was printed."""
    lines = [json.loads(line) for line in text.splitlines()]
    left = sorted(departure[0] for line in lines for departure in line.get("depart", []))
    arrivals = [arrival for line in lines for arrival in line.get("send", [])]
    open_order = {}
    for number, arrival in enumerate(arrivals):
        at = bisect.bisect_left(left, arrival[0])
        if at < len(left) and left[at] <= arrival[0] + span:
            open_order[number] = left[at] + 1

    def tried(moves):
        """How far the replay is equal; None for the whole."""
        kept = [arrival[0] for arrival in arrivals]
        latest = 0
        for number, arrival in enumerate(arrivals):
            latest = arrival[0] = max(latest, open_order[number] if number in moves else arrival[0])
        equal, said = replay("\n".join(map(json.dumps, lines)) + "\n")
        for arrival, at in zip(arrivals, kept):
            arrival[0] = at
        # What it prints without an aspect is no comparison, and nothing is equal then.
        if equal or compared(said) and not any(differs(said)):
            return None
        first = re.search(r" order: from departure (\d+)", said)
        return int(first[1]) if first else 0

    moves, reached = set(), tried(())
    while reached is not None and len(moves) < MOVES_MAX:
        found = [(far is None, far or 0, number) for number in open_order.keys() - moves
                 for far in [tried(moves | {number})] if far is None or far > reached]
        if not found:
            return False
        whole, far, number = max(found)
        moves.add(number)
        reached = None if whole else far
    return reached is None


def compared(said):
    """Whether a replay printed an aspect in which something differs."""
    return re.search(r"^    \w+: ", said, re.MULTILINE) is not None


def differs(said):
    """The differences that a replay printed, but for numbers of `overlimits`."""
    aspect = None
    for line in said.splitlines():
        found = re.match(r"    (\w+): ", line)
        if found:
            aspect = found[1]
            if aspect != "counters":
                yield aspect
        elif aspect == "counters" and re.match(r"      \s*\S.*?  +\d+  +\d+$", line) and not re.search(r" overlimits  ", line):
            yield line
