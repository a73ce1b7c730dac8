"""Writes traces: JSON lines, described in spec/traces/README.md."""

import json
import re
import subprocess

import kernel

VERSION = 1
PER_LINE = 8
ORDER = ("qdisc", "class", "qdisc_text", "class_text")
# Timers that the kernel itself sets may fire one grain of the clock (256 ns) sooner or later than in another boot.
GRAINS = 512
# From the kernel's handling of a command to the end of tc: eight readings of the clock. A curve of hfsc begins then, and the timer
# of dualpi2.
ENDING = 8 * 256
CURVES = re.compile(r"^class \w+ .* hfsc |^qdisc (add|replace) .* dualpi2( |$)")
# A change of plug may itself let packets leave: then the first one tells when the kernel handled it.
RELEASES = re.compile(r"^qdisc change .* plug release")


def rows(scenario, other=False):
    """The rows of PARITY.md that a scenario shows: under another kernel (`other`) without those that were `until` then, and with
    those that `moved`."""
    found = [{key: row[key] for key in row if key != "until"} for row in scenario.get("parity", []) if not (other and "until" in row)]
    return found + (scenario.get("moved", []) if other else [])


def header(kind, scenario, job, other=False):
    """The first line. Under another kernel than that of the kind's traces (`other`), the rows of that kernel are meant."""
    head = {"txweir-trace": VERSION, "kind": kind, "name": scenario["name"]}
    for key in ("about", "details", "random", "hashed"):
        if key in scenario:
            head[key] = scenario[key]
    if rows(scenario, other):
        head["parity"] = rows(scenario, other)
    head["seed"] = scenario.get("seed", 1)
    head["device"] = job["device"]
    return head


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def chunks(key, items):
    return [compact({key: items[i:i + PER_LINE]}) for i in range(0, len(items), PER_LINE)]


def arrivals(head, job, result):
    """Sends, with the times at which they happened, between the commands and shows that happened between them."""
    lines, waiting = [], []
    commands = iter(result["commands"][len(job["setup"]):])
    shows = iter(result["shows"])
    sends = iter(result["sends"])
    for event in job["events"]:
        if event["do"] == "send":
            item = [next(sends), event["row"], event["size"]]
            extra = {key: event[key] for key in ("ack", "tcp_seq", "txtime") if key in event}
            waiting.append(item + [extra] if extra else item)
            continue
        lines += chunks("send", waiting)
        waiting = []
        lines.append(command(next(commands), result) if event["do"] == "tc" else show(next(shows), head))
    return lines + chunks("send", waiting), show(next(shows), head)


def released(step, result):
    """The time at which a command has let a packet leave; None if it has not."""
    if not RELEASES.match(step.get("tc", "")):
        return None
    return next((at for at, *_ in result["departures"] if step["at"] <= at <= step["done"]), None)


def command(done, result):
    said = {"says": done["says"].strip()} if done["status"] and done["says"].strip() else {}
    at = released(done, result) or (done["done"] - ENDING if CURVES.match(done["tc"]) else done["at"])
    return compact({"at": at, "tc": done["tc"], "status": done["status"], **said})


def nameless(text):
    """Classes in text whose numbers are hash values, without them and in the order of what is left; a deficit that is
    drawn for when a turn is divided is left out."""
    blocks = re.split(r"^(?=class )", text, flags=re.MULTILINE)
    blocks = [re.sub(r"^(class \S+ \S*:)\S+", r"\1_", block) for block in blocks]
    return "".join(sorted(re.sub(r"deficit \S+", "deficit _", block) for block in blocks))


def show(shown, head):
    if head.get("hashed"):
        shown = {**shown, "class_text": nameless(shown["class_text"])}
    return compact({"at": shown["at"], "show": {key: shown[key] for key in ORDER if key in shown}})


def departures(job, result):
    """[time, packet], with what differs from the packet as it was sent: its length or its DS byte."""
    sent = {}
    for event in job["events"]:
        if event["do"] == "send":
            packet = event["packet"]
            ds = packet.get("dscp", 0) << 2 | packet.get("ecn", 0) if packet["proto"] not in ("arp", "raw") else None
            sent[event["seq"]] = (event["size"], ds)
    items = []
    for stamp, seq, length, ds in result["departures"]:
        size, before = sent[seq]
        changed = {}
        if length != size:
            changed["len"] = length
        if ds != before:
            changed["ds"] = ds
        items.append([stamp, seq, changed] if changed else [stamp, seq])
    return items


def text(head, job, table, result):
    """The whole trace."""
    words = (job.get("tools") or {"tc": ["tc"]})["tc"]
    version = subprocess.run([*words, "-V"], stdout=subprocess.PIPE, text=True).stdout
    head = {**head, "linux": result["linux"], "iproute2": version.partition("iproute2-")[2].partition(",")[0]}
    lines = [compact(head), compact({"packets": table})]
    lines += [command(done, result) for done in result["commands"][:len(job["setup"])]]
    middle, last = arrivals(head, job, result)
    lines += middle + chunks("depart", departures(job, result)) + [last]
    return "\n".join(lines) + "\n"


def any_version(trace):
    """A trace without the versions of the recording tools, to be compared with that of another kernel."""
    head, newline, rest = trace.partition("\n")
    fields = json.loads(head)
    return compact({key: fields[key] for key in fields if key not in ("linux", "iproute2")}) + newline + rest


def expect_quiet(result):
    """tc takes some readings of the clock: when it did what it did is known only if nothing leaves meanwhile."""
    for step in result["shows"] + [step for step in result["commands"] if released(step, result) is None]:
        for departure in result["departures"]:
            if step["at"] - GRAINS < departure[0] <= step["done"] + GRAINS:
                late = (step["done"] - step["at"]) // 1000 + 2
                what = step.get("tc", "show")
                raise kernel.Trouble(f"a packet leaves at {departure[0]} ns, while tc works from {step['at']} ns on: "
                                     f"move `{what}` by some {late} us")


def expect_statuses(job, result):
    """Commands that were refused must be marked `!` in the scenario, and the others must not."""
    for refused, done in zip(job["refused"], result["commands"], strict=True):
        if refused != bool(done["status"]):
            what = "was taken, but is marked `!`" if refused else f"was refused: {done['says'].strip()}"
            raise kernel.Trouble(f"`tc {done['tc']}` {what}")


def first_difference(one, other):
    """Where two traces differ by more than the clock's grain, in words; None if they do not."""
    lines = list(zip(one.splitlines(), other.splitlines()))
    if len(one.splitlines()) != len(other.splitlines()):
        lines.append((f"{len(one.splitlines())} lines", f"{len(other.splitlines())} lines"))
    for a, b in lines:
        if a != b and not (a.startswith("{") and b.startswith("{") and same(json.loads(a), json.loads(b))):
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            start = max(0, at - 60)
            return f"  - ...{a[start:at + 80]}\n  + ...{b[start:at + 80]}"
    return None


def same(a, b):
    """Whether two lines of traces say the same, times within the grain."""
    if a.keys() != b.keys():
        return False
    for key in a:
        x, y = a[key], b[key]
        if key in ("send", "depart"):
            if len(x) != len(y) or any(p[1:] != q[1:] or abs(p[0] - q[0]) > GRAINS for p, q in zip(x, y)):
                return False
        elif key == "at":
            if abs(x - y) > GRAINS:
                return False
        elif key == "show":
            if {**x, "class_text": flows_apart(x["class_text"])} != {**y, "class_text": flows_apart(y["class_text"])}:
                return False
        elif x != y:
            return False
    return True


def flows_apart(text):
    """The text of classes without the numbers of those that are flows: a hash with a random key."""
    blocks = re.split(r"^(?=class )", text, flags=re.MULTILINE)
    return sorted(re.sub(r"^class (fq_codel|sfq|cake) ([0-9a-f]+):[0-9a-f]+ ", r"class \1 \2:* ", block) for block in blocks)
