"""The line of a packet-exact case, from what the wire saw."""

import struct

from results import parse, tcp_counters
from run import SYSCTLS

ENTRY = struct.Struct("<qHBBIIIII96s")


class Frame:
    """One entry of the wire's log, decoded."""

    def __init__(self, raw):
        self.at, self.length, self.side, self.kind, self.number, self.cwnd, self.ssthresh, self.state, _, head = raw
        self.tos = head[15]
        tcp = head[34:]
        sport, dport, self.seq, self.ack, offset, self.window = struct.unpack_from("!HHIIHH", tcp)
        self.flow = (sport if self.side == 0 else dport) - 10000
        self.flags = offset & 0xFF
        header = (offset >> 12) * 4
        self.payload = struct.unpack_from("!H", head, 16)[0] - 20 - header
        self.scale, self.sacks = 0, []
        at = 20
        while at < min(header, len(tcp)):
            kind = tcp[at]
            if kind == 0:
                break
            if kind == 1:
                at += 1
                continue
            size = tcp[at + 1]
            if kind == 3:
                self.scale = tcp[at + 2]
            elif kind == 5:
                self.sacks = list(struct.unpack_from(f"!{(size - 2) // 4}I", tcp, at + 2))
            at += size


def relative(value, base):
    """A sequence number from its connection's first; before that: negative."""
    distance = (value - base) & 0xFFFFFFFF
    return distance - (1 << 32) if distance >> 31 else distance


def steps(frames, zero):
    """Microseconds from row to row, the first from time 0."""
    at = [round((f.at - zero) / 1000) for f in frames]
    return [b - a for a, b in zip([0, *at], at)]


def flow_rows(frames, flow, zero):
    """What the sender of `flow` sent, and what reached it."""
    mine = [f for f in frames if f.flow == flow]
    syn = next(f for f in mine if f.side == 0 and f.flags & 2)
    answer = next((f for f in mine if f.side == 1 and f.flags & 2), None)
    isn, other = syn.seq, answer.seq if answer else 0
    scale = answer.scale if answer else 0
    sent = [f for f in mine if f.side == 0 and f.kind == 0]
    got = [f for f in mine if f.side == 1 and f.kind == 1]
    return {
        "sent": {
            "dt_us": steps(sent, zero),
            "seq": [relative(f.seq, isn) for f in sent],
            "len": [f.payload for f in sent],
            "flags": [f.flags for f in sent],
            "ecn": [f.tos & 3 for f in sent] if any(f.tos & 3 for f in sent) else None,
            "ack": [relative(f.ack, other) for f in sent] if any(f.payload for f in got) else None,
        },
        "got": {
            "dt_us": steps(got, zero),
            "ack": [relative(f.ack, isn) for f in got],
            "flags": [f.flags for f in got],
            "window": [f.window if f.flags & 2 else f.window << scale for f in got],
            "sack": [[i, *[relative(edge, isn) for edge in f.sacks]] for i, f in enumerate(got) if f.sacks],
            "seq": [relative(f.seq, other) for f in got] if any(f.payload for f in got) else None,
            "len": [f.payload for f in got] if any(f.payload for f in got) else None,
            "cwnd": [f.cwnd for f in got],
            "ssthresh": [-1 if f.ssthresh == 0x7FFFFFFF else f.ssthresh for f in got],
            "state": [f.state for f in got],
        },
    }


def exact_line(case, files, linux, seed):
    """The line of a case; time 0 is when its first SYN was sent."""
    found = parse(files)
    log = files["wire"]
    frames = [Frame(ENTRY.unpack_from(log, at)) for at in range(0, len(log), ENTRY.size)]
    zero = frames[0].at
    edge = -(found["zero"] + zero) % 1_000_000
    return {
        "name": case["name"], "about": case["about"], "linux": linux, "seed": seed, "ecn": case["ecn"],
        "rate_bps": case["rate"], "delay_ns": case["delay_ns"], "delay_back_ns": case["delay_back_ns"], "acts": case["acts"],
        "sysctl": {k.split("/")[1]: v for k, v in {**SYSCTLS, **case["sysctls"]}.items() if k[-4:] in ("wmem", "rmem")},
        "flow": {k: v for k, v in case["flows"][0].items()}, "duration_ns": case["duration_ns"],
        "tick_us": round(edge / 1000),
        "timeouts": found["counters"]["s"].get("TcpExt:TCPTimeouts", 0),
        "retrans": found["end"][0][0],
        "counters": tcp_counters(found["counters"]["s"]), "counters_d": tcp_counters(found["counters"]["d"]),
        **flow_rows(frames, 0, zero),
    }
