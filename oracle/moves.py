"""Tells which recordings moved between the kernel that txweir equals and a later one, and by which rows of PARITY.md."""

import json
import os
import re
import subprocess
import tempfile

import kernel
import trace as traces

ROOT = os.path.dirname(kernel.HOME)
# A timer that fires a grain of the clock sooner may change which packet finds room. The replay fires its own timers at the
# recorded times: where it equals both recordings, and no row is gone, no more than that differs ("grains"), or what was drawn. Of
# some there is no recording, as two boots of the later kernel differ ("by boot").
VERDICTS = ("same", "grains", "by chance", "text", "moved", "by boot")


def replays(txweir, texts):
    """What `txweir lab replay` says of traces: {name: (equal, rows)}."""
    if not texts:
        return {}
    with tempfile.TemporaryDirectory(prefix="txweir-moves-") as folder:
        for name, text in texts.items():
            with open(os.path.join(folder, name + ".jsonl"), "w") as f:
                f.write(text)
        command = [txweir, "lab", "replay", "--json", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode > 1:
        raise kernel.Trouble(f"lab replay: {done.stderr.strip()}")
    return {one["trace"].partition("/")[2]: (one["equal"], {d["meant"] for d in one["differences"]}) for one in json.loads(done.stdout)}


def headed(text, rows):
    """A trace whose first line names these rows."""
    head, newline, rest = text.partition("\n")
    before = json.loads(head)
    fields = {}
    for key in before:
        if key == "seed" and rows:
            fields["parity"] = rows
        if key != "parity":
            fields[key] = before[key]
    return traces.compact(fields) + newline + rest


def sent(text):
    """The packets that are counted at each show, where there are super-packets: then the replay leaves that out under the earlier
    kernel."""
    if '"gso":' not in text.splitlines()[1]:
        return None
    shows = [json.loads(line)["show"] for line in text.splitlines() if '"show":' in line]
    return [re.findall(r"Sent \d+ bytes (\d+) pkt", show["qdisc_text"] + show["class_text"]) for show in shows]


def said(text):
    """The messages of refused commands, which the replay leaves out."""
    return [json.loads(line).get("says") for line in text.splitlines() if '"tc":' in line]


def verdict(scenario, pair, earlier, later):
    """The verdict on a recording that differs: the pair of texts, and for each whether the replay equals it and by which rows."""
    chance = scenario.get("random", False)
    gone = earlier[1] - later[1]
    if chance:
        # A row may be seen in some draws only.
        gone &= {row["row"] for row in scenario.get("parity", []) if "until" in row}
    if gone or earlier[0] != later[0] or sent(pair[0]) != sent(pair[1]):
        return "moved"
    if said(pair[0]) != said(pair[1]):
        return "text"
    return "by chance" if chance else "grains"


def verdicts(txweir, places, scenarios):
    """{name: verdict} of the recordings of one kind: the later ones are in `places.new`."""
    found, differ = {}, {}
    for scenario in scenarios:
        name = scenario["name"]
        try:
            with open(os.path.join(places.there, name + ".jsonl")) as f, open(os.path.join(places.new, name + ".jsonl")) as g:
                pair = f.read(), headed(g.read(), traces.rows(scenario))
        except FileNotFoundError:
            found[name] = "by boot"
            continue
        found[name] = "same"
        if traces.first_difference(*map(traces.any_version, pair)):
            differ[name] = pair
    earlier, later = (replays(txweir, {name: pair[which] for name, pair in differ.items()}) for which in (0, 1))
    for scenario in scenarios:
        name = scenario["name"]
        if name in differ:
            found[name] = verdict(scenario, differ[name], earlier[name], later[name])
    return found


def keep(places, scenario, moved):
    """Writes a recording that moved beside those of the earlier kernel; removes one that did not."""
    path = os.path.join(places.moved, scenario["name"] + ".jsonl")
    if moved:
        os.makedirs(places.moved, exist_ok=True)
        with open(os.path.join(places.new, scenario["name"] + ".jsonl")) as f, open(path, "w") as g:
            g.write(headed(f.read(), traces.rows(scenario, other=True)))
    elif os.path.exists(path):
        os.remove(path)


def table(txweir, kinds):
    """A table with a line for each of (kind, places, scenarios), and recordings whose rows do not fit; those that moved are kept."""
    lines = [f"| kind | recordings | {' | '.join(VERDICTS)} | rows |", "|---" * (len(VERDICTS) + 3) + "|"]
    sums, unfit = [0] * len(VERDICTS), []
    for kind, places, scenarios in kinds:
        found = verdicts(txweir, places, scenarios)
        named = set()
        for scenario in scenarios:
            moved = found[scenario["name"]] == "moved"
            keep(places, scenario, moved)
            rows = {row["row"] for row in scenario.get("moved", []) + [row for row in scenario.get("parity", []) if "until" in row]}
            named |= rows
            if moved and not rows or rows and not moved:
                unfit.append(f"{kind}/{scenario['name']}: {'moved, and names no row' if moved else 'names a row, and has not moved'}")
        counts = [list(found.values()).count(verdict) for verdict in VERDICTS]
        sums = [a + b for a, b in zip(sums, counts)]
        lines.append(f"| {kind} | {len(found)} | {' | '.join(map(str, counts))} | {', '.join(sorted(named))} |")
    return "\n".join([*lines, f"| all | {sum(sums)} | {' | '.join(map(str, sums))} | |"]), unfit
