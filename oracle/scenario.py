"""Reads scenario files and draws their arrivals. The same file and seed give the same arrivals with every version of Python."""

import re
import tomllib
from fractions import Fraction

import kernel

UNITS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
DEVICE = {"mtu": 1500, "txqueuelen": 1000, "queues": 1}
DEVICE_KEYS = {*DEVICE, "tso", "gso", "sg", "tx_checksum"}
SCENARIO_KEYS = {"name", "about", "seed", "device", "tc", "changes", "end", "stream", "details", "random", "hashed", "parity", "moved"}
# What a packet is, the same for all of a stream and flow: a row of the trace's packet table.
ROW_KEYS = ["proto", "src", "dst", "sport", "dport", "priority", "mark", "queue", "dscp", "ecn", "flags", "window", "options", "label",
            "vlan", "gso", "txtime_clock", "ethertype"]
STREAM_KEYS = {*ROW_KEYS, "flow", "flow_order", "size", "start", "gap", "burst", "count", "at", "ack", "ack_step", "tcp_seq",
               "seq_step", "txtime", "v6"}
ECN = {"not": 0, "ect1": 1, "ect0": 2, "ce": 3}


class Mistake(Exception):
    """Something wrong in a scenario file, in words."""


class Random:
    """splitmix64 (Steele, Lea, Flood 2014)."""

    def __init__(self, *seeds):
        self.state = 0
        for seed in seeds:
            self.state = (self.next() ^ seed) & (2**64 - 1)

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return z ^ (z >> 31)

    def between(self, low, high):
        """An integer from low to high, both included."""
        return low + self.next() * (high - low + 1) // 2**64


def ns(value, what="time"):
    """A time in words ("1.5ms", "-20us") as integer nanoseconds; integers are nanoseconds already."""
    if isinstance(value, bool):
        raise Mistake(f"{what}: expected a time such as \"1.5ms\", given {value}")
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)(ns|us|ms|s)", str(value).strip())
    if not match:
        raise Mistake(f"{what}: expected a time such as \"1.5ms\", given {value!r}")
    exact = Fraction(match[1]) * UNITS[match[2]]
    if exact.denominator != 1:
        raise Mistake(f"{what}: {value!r} is not a whole number of nanoseconds")
    return int(exact)


def drawn(value, random, convert):
    """A fixed value, or one between the two of a pair."""
    if isinstance(value, list):
        if len(value) != 2:
            raise Mistake(f"expected [least, most], given {value}")
        low, high = convert(value[0]), convert(value[1])
        if low > high:
            raise Mistake(f"[least, most] the wrong way round: {value}")
        return random.between(low, high)
    return convert(value)


def number(value):
    """An integer, or one in text with its base ("0x10010"), or a class ("1:10")."""
    if isinstance(value, str):
        major, colon, minor = value.partition(":")
        return int(major, 16) << 16 | int(minor or "0", 16) if colon else int(value, 0)
    return value


def known(table, keys, what):
    for key in table:
        if key not in keys:
            raise Mistake(f"{what}: unknown key {key!r} (known: {', '.join(sorted(keys))})")


def row(stream, flow):
    """The packet table's row of one flow of a stream, without what is at its default."""
    proto = stream.get("proto", "udp")
    known({proto: 0}, {"udp", "tcp", "icmp", "arp", "raw"}, "proto")
    if stream.get("gso") and (proto not in ("udp", "tcp") or stream.get("v6")):
        raise Mistake("`gso` is for udp and tcp over IPv4: the kernel is built without IPv6")
    fields = {"proto": proto}
    if proto == "raw":
        fields["ethertype"] = number(stream.get("ethertype", 0x88B5))
    else:
        v6 = stream.get("v6", False)
        fields["src"] = stream.get("src", "fd00::1" if v6 else "10.0.0.1")
        fields["dst"] = stream.get("dst", "fd00::2" if v6 else "10.0.0.2")
    if proto in ("udp", "tcp", "icmp"):
        fields["sport"] = stream.get("sport", 1000 + flow)
        if proto != "icmp":
            fields["dport"] = stream.get("dport", 2000 + flow)
    for key in ("priority", "mark", "queue", "dscp", "label", "gso"):
        if number(stream.get(key, 0)):
            fields[key] = number(stream[key])
    ecn = stream.get("ecn", "not")
    if ECN.get(ecn, ecn):
        fields["ecn"] = ECN.get(ecn, ecn)
    if fields.get("queue", 0) and fields.get("mark", 0):
        raise Mistake("queue and mark: the oracle chooses the queue by the mark, so only one of them")
    for key in ("flags", "window", "options", "vlan", "txtime_clock"):
        if key in stream:
            fields[key] = stream[key]
    return fields


def flows_of(stream):
    flow = stream.get("flow", 1)
    return flow if isinstance(flow, list) else [flow]


def draw(stream, index, seed):
    """The packets of one stream: (time, row, size, extra), in order of time."""
    known(stream, STREAM_KEYS, f"stream {index}")
    random = Random(seed, index)
    flows = flows_of(stream)
    sizes = stream.get("size", 1000)
    fixed = None if "at" not in stream else [ns(t, "at") for t in stream["at"]]
    burst = stream.get("burst", 1)
    count = stream.get("count", len(fixed) if fixed is not None else 1)
    t = drawn(stream.get("start", 0), random, ns)
    ack, seq = stream.get("ack", 1), stream.get("tcp_seq", 1)
    packets = []
    for i in range(count):
        if fixed is not None:
            t = fixed[i % len(fixed)]
        elif i and i % burst == 0:
            t += drawn(stream.get("gap", 0), random, ns)
        flow = flows[random.between(0, len(flows) - 1) if stream.get("flow_order") == "random" else i % len(flows)]
        size = sizes["cycle"][i % len(sizes["cycle"])] if isinstance(sizes, dict) else drawn(sizes, random, int)
        extra = {}
        if stream.get("proto") == "tcp":
            if "ack" in stream or "ack_step" in stream:
                extra["ack"] = (ack + i * stream.get("ack_step", 0)) % 2**32
            if "tcp_seq" in stream or "seq_step" in stream:
                extra["tcp_seq"] = (seq + i * stream.get("seq_step", 0)) % 2**32
        if "txtime" in stream:
            extra["txtime"] = t + drawn(stream["txtime"], random, ns)
        packets.append((t, row(stream, flow), size, extra))
    return packets


def commands(scenario):
    """The set-up's lines, and the changes as events."""
    setup = [line.strip() for line in scenario.get("tc", []) if line.strip()]
    events = []
    for change in scenario.get("changes", []):
        known(change, {"at", "tc", "show"}, "change")
        at = ns(change["at"], "change")
        lines = change.get("tc", [])
        for line in [lines] if isinstance(lines, str) else lines:
            events.append({"at": at, "do": "tc", "tc": line})
        if change.get("show"):
            events.append({"at": at, "do": "show"})
    return setup, events


def job(scenario, file_device, where):
    """What the guest plays: (job, packet table)."""
    known(scenario, SCENARIO_KEYS, where)
    device = {**DEVICE, **file_device, **scenario.get("device", {})}
    known(device, DEVICE_KEYS, f"{where}: device")
    seed = scenario.get("seed", 1)
    setup, events = commands(scenario)
    packets = []
    for index, stream in enumerate(scenario.get("stream", [])):
        packets += [(t, index, i, *rest) for i, (t, *rest) in enumerate(draw(stream, index, seed))]
    packets.sort(key=lambda p: p[:3])
    table, rows = [], {}
    sends = []
    for seq, (t, _, _, fields, size, extra) in enumerate(packets):
        key = str(fields)
        if key not in rows:
            rows[key] = len(table)
            table.append(fields)
        sends.append({"at": t, "do": "send", "seq": seq, "row": rows[key], "packet": fields, "size": size, **extra})
    # At equal times a change comes before the packets: the order of this sum, which the sort keeps.
    events = sorted(events + sends, key=lambda e: e["at"])
    last = events[-1]["at"] if events else 0
    end = ns(scenario["end"], "end") if "end" in scenario else last + 1_000_000_000
    if end < last:
        raise Mistake(f"{where}: `end` is before the last event, at {last} ns")
    # A line that is meant to be refused starts with `!`.
    for event in events:
        if event["do"] == "tc":
            event["refused"], event["tc"] = event["tc"].startswith("!"), event["tc"].lstrip("! ")
    refused = [line.startswith("!") for line in setup] + [e["refused"] for e in events if e["do"] == "tc"]
    return {
        "device": device,
        "setup": [line.lstrip("! ") for line in setup],
        "events": events,
        "end": end,
        "details": scenario.get("details", False),
        "refused": refused,
    }, table


def load(path):
    """The scenarios of a file: (kind, the version of its kernel, [(scenario, job, table)])."""
    with open(path, "rb") as f:
        try:
            text = tomllib.load(f)
        except tomllib.TOMLDecodeError as e:
            raise Mistake(f"{path}: {e}") from e
    known(text, {"kind", "kernel", "device", "scenario"}, path)
    if "kind" not in text:
        raise Mistake(f"{path}: `kind` is missing")
    version = text.get("kernel", kernel.DEFAULT)
    known({version: 0}, kernel.KERNELS, f"{path}: kernel")
    found, names = [], set()
    for index, scenario in enumerate(text.get("scenario", [])):
        name = scenario.get("name", "")
        where = f"{path}: scenario {name or index}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name) or name in names:
            raise Mistake(f"{where}: `name` must be new, of a-z, 0-9, - and _")
        names.add(name)
        try:
            found.append((scenario, *job(scenario, text.get("device", {}), where)))
        except Mistake as e:
            raise Mistake(str(e) if str(e).startswith(str(path)) else f"{where}: {e}") from e
    return text["kind"], version, found
