"""What a run gave, as the line that is written down. The format is spec/tcp/README.md."""

import hashlib
import json
import math
import re
import struct

import run as runs

# The payload of a full segment: an MTU of 1500 bytes without 20 of IPv4 and 32 of TCP with timestamps.
MSS = 1448
NOTE = struct.Struct("<qIHHHHBBH")
STEPS = 50
# Of a queue's statistics: its configuration, said elsewhere.
SETTINGS = {"options", "root", "refcnt", "tins", "requeues"}
# Counters that say nothing of the transport.
DULL = {"TCPHPHits", "TCPPureAcks", "TCPHPAcks", "TCPAbortOnClose", "TCPOrigDataSent"}


def belongs_to(name):
    """Which set a run is in: nobody tunes on what is held."""
    return "held" if hashlib.sha256(name.encode()).digest()[0] & 1 else "seen"


def percentile(pairs, share):
    """The least value below or at which `share` of the weight lies; pairs are sorted (value, weight)."""
    if not pairs:
        return None
    goal = share * sum(w for _, w in pairs)
    reached = 0
    for value, weight in pairs:
        reached += weight
        if reached >= goal:
            return value
    return pairs[-1][0]


def percentiles(values, shares):
    pairs = sorted((v, 1) if not isinstance(v, tuple) else v for v in values)
    found = {f"p{round(100 * s)}": percentile(pairs, s) for s in shares}
    found["max"] = pairs[-1][0] if pairs else None
    return found


def jain(values):
    squares = sum(v * v for v in values)
    return round(sum(values) ** 2 / (len(values) * squares), 4) if squares else None


def segments(payload):
    return max(1, math.ceil(payload / MSS))


def match(files):
    """Per packet that left the queue: (time, delay, segments, marked there); and per packet that came: (time, segments)."""
    came = [NOTE.unpack_from(files["capture-0"], at) for at in range(0, len(files["capture-0"]), NOTE.size)]
    left = [NOTE.unpack_from(files["capture-1"], at) for at in range(0, len(files["capture-1"]), NOTE.size)]
    inside, departures, arrivals = {}, [], []
    next_in = 0
    strangers = 0
    for at, _, flow, number, payload, _, tos, _, _ in left:
        while next_in < len(came) and came[next_in][0] <= at:
            t, _, f, first, size, _, mark, _, _ = came[next_in]
            count = segments(size)
            arrivals.append((t, count))
            # A super-packet may be cut on the way, and its segments then have consecutive identifications.
            for k in range(count):
                inside[f, (first + k) & 0xFFFF] = (t, mark & 3)
            next_in += 1
        count = segments(payload)
        found = [inside.pop((flow, (number + k) & 0xFFFF), None) for k in range(count)]
        if found[0] is None:
            strangers += 1
            continue
        departures.append((at, at - found[0][0], count, tos & 3 == 3 and found[0][1] != 3))
    arrivals += [(t[0], segments(t[4])) for t in came[next_in:]]
    if strangers:
        raise ValueError(f"{strangers} packets left the queue that had not come")
    return arrivals, departures


def parse(files):
    """The traffic program's lines."""
    found = {"read": {}, "info": {}, "end": [], "latency": [], "counters": {"s": {}, "d": {}}}
    heads = {}
    for line in files["result"].decode().splitlines():
        kind, *rest = line.split()
        if kind == "read":
            found["read"][int(rest[0]), int(rest[1])] = int(rest[2])
        elif kind == "info":
            found["info"][int(rest[0]), int(rest[1])] = [int(x) for x in rest[2:]]
        elif kind == "end":
            found["end"].append([int(x) for x in rest[1:]])
        elif kind == "latency":
            found["latency"].append([int(x) for x in rest])
        elif kind == "zero":
            found["zero"] = int(rest[0])
        elif kind == "counter" and rest[1] != "softnet_stat":
            ns, group, values = rest[0], rest[2], rest[3:]
            if (ns, group) in heads:
                names = heads.pop((ns, group))
                found["counters"][ns].update({(group + n): int(v) for n, v in zip(names, values)})
            else:
                heads[ns, group] = values
        elif kind == "counter" and int(rest[3], 16):
            raise ValueError("the kernel dropped packets on the way to a protocol")
    return found


def tcp_counters(counters):
    """Those of TcpExt that are not 0, by their names."""
    return {k[7:]: v for k, v in counters.items() if k.startswith("TcpExt:") and v and k[7:] not in DULL}


def window(run, arrivals, departures, found, begin):
    """Results over the time from `begin` to the run's end."""
    end = run["duration_ns"]
    seconds = (end - begin) / 1e9
    counts = [found["read"][end, i] - found["read"].get((begin, i), 0) for i in range(len(run["flows"]))]
    bulk = [n for n, flow in zip(counts, run["flows"]) if flow["app"] == "bulk"]
    gone = [d for d in departures if begin <= d[0] <= end]
    delays = sorted((delay // 1000, count) for _, delay, count, _ in gone)
    rtts = sorted(row[2] for (at, _), row in found["info"].items() if at > begin and row[2])
    return {
        "goodput_bps": round(sum(counts) * 8 / seconds),
        "jain": jain(bulk) if len(bulk) > 1 else None,
        "bytes": bulk,
        "rtt_us": percentiles(rtts, [0.5, 0.95, 0.99]),
        "delay_us": percentiles(delays, [0.5, 0.9, 0.99]),
        "offered": sum(n for t, n in arrivals if begin <= t <= end),
        "sent": sum(d[2] for d in gone),
        "marks": sum(d[2] for d in gone if d[3]),
        "retrans": None,
    }


def samples(run, found):
    """Flow 0 over time, in 50 points, and what all flows received in 50 steps."""
    every = run["duration_ns"] // STEPS
    points = [every * (k + 1) for k in range(STEPS)]
    rows = [found["info"].get((at, 0)) for at in points]
    pick = lambda i, scale=1: [None if r is None else -1 if r[i] == 0x7FFFFFFF else r[i] // scale for r in rows]  # noqa: E731
    flows = range(len(run["flows"]))
    total = [0] + [sum(found["read"][at, i] for i in flows) for at in points]
    return {
        "every_ns": every,
        "goodput_kbps": [round((b - a) * 8e6 / every) for a, b in zip(total, total[1:])],
        "cwnd": pick(0),
        "ssthresh": pick(1),
        "rtt_us": pick(2),
        "delivery_kbps": [None if r is None else r[4] * 8 // 1000 for r in rows],
        "pacing_kbps": [None if r is None else min(r[5] * 8 // 1000, 10**9) for r in rows],
    }


def flow_groups(run):
    """Consecutive flows that differ in start and size only."""
    groups = []
    for flow in run["flows"]:
        head = {"cc": flow["cc"], "app": flow["app"]}
        if flow["app"] == "rr":
            head |= dict(zip(("request", "reply", "pause_ns", "count"), flow["size"]))
        if not groups or {k: groups[-1][k] for k in groups[-1] if k not in ("start_ns", "bytes")} != head:
            groups.append({**head, "start_ns": []} | ({"bytes": []} if flow["app"] == "bytes" else {}))
        groups[-1]["start_ns"].append(flow["start_ns"])
        if flow["app"] == "bytes":
            groups[-1]["bytes"].append(flow["size"][0])
    return groups


def statistics(files):
    """The queues' own counters at the end: what is not 0, without what says the configuration again."""
    kept = []
    for q in runs.shown(files, "qdisc"):
        if q.get("kind") == "clsact":
            continue
        row = {k: v for k, v in q.items() if k not in SETTINGS and v not in (0, [], None)}
        for tin in q.get("tins", [])[:4]:
            said = {k: v for k, v in tin.items() if v and re.search("drops|marks|packets|peak|avg|base", k)}
            row.setdefault("tins", []).append(said)
        kept.append(row)
    return kept


def matrix_line(run, files, linux, seed):
    """The line of a run of the matrix."""
    found = parse(files)
    arrivals, departures = match(files)
    count = len(run["flows"])
    warm = run["duration_ns"] // 5
    queues = statistics(files)
    whole = window(run, arrivals, departures, found, 0)
    after = window(run, arrivals, departures, found, warm)
    retrans = [row[0] for row in found["end"]]
    at_warm = [found["info"].get((warm, i)) for i in range(count)]
    whole["retrans"] = sum(retrans)
    after["retrans"] = sum(r - (w[6] if w else 0) for r, w in zip(retrans, at_warm))
    leaf = queues[-1] if run["leaf"] != "tbf" else queues[0]
    counters = found["counters"]
    line = {
        "name": run["name"], "set": belongs_to(run["name"]), "linux": linux, "seed": seed,
        "topology": run["topology"], "tc": run["tc"], "leaf": run["leaf"], "rate_bps": run["rate_bps"], "rtt_ns": run["rtt_ns"],
        "units": run["units"], "ecn": run["ecn"], "duration_ns": run["duration_ns"], "warm_ns": warm,
        "sysctl": {k.split("/")[1]: v for k, v in runs.SYSCTLS.items() if "mem" in k and k not in runs.GLOBAL},
        "flows": flow_groups(run),
        "whole": whole, "after": after,
        "drops": leaf.get("drops", 0), "timeouts": counters["s"].get("TcpExt:TCPTimeouts", 0),
        "limited_us": {"sndbuf": sum(row[2] for row in found["end"]), "window": sum(row[3] for row in found["end"])},
        "retrans_flow": retrans if count <= 8 else None,
        "counters": tcp_counters(counters["s"]), "counters_d": tcp_counters(counters["d"]),
        "queues": queues,
        "samples": samples(run, found),
    }
    sizes = [flow for flow in run["flows"] if flow["app"] == "bytes"]
    if sizes:
        done = [(-1 if row[1] < 0 else (row[1] - flow["start_ns"]) // 1000)
                for row, flow in zip(found["end"], run["flows"]) if flow["app"] == "bytes"]
        line["completion_us"] = {"each": done, **percentiles([t for t in done if t >= 0], [0.5, 0.9, 0.99])}
    if any(flow["app"] == "rr" for flow in run["flows"]):
        took = [t // 1000 for _, _, t in found["latency"]]
        line["latency_us"] = {"count": len(took), **percentiles(took, [0.1, 0.5, 0.9, 0.99])}
    return line


def varied(run, number):
    """The run with each flow's start moved by some milliseconds, less than the distance between two."""
    flows = [{**flow, "start_ns": flow["start_ns"] + number * 1_100_000 + i * number * 137_000 % 2_000_000}
             for i, flow in enumerate(run["flows"])]
    return {**run, "flows": flows}


def spread_row(line):
    """What is compared within bands, of a repetition."""
    after = line["after"]
    delay = after["delay_us"]
    return [after["goodput_bps"], after["jain"], delay["p50"], delay["p90"], delay["p99"], line["drops"], line["whole"]["marks"],
            line["whole"]["retrans"], line["timeouts"], line["whole"]["goodput_bps"]]


def text(line):
    return json.dumps(line, separators=(",", ":")) + "\n"
