"""Random policies and arrivals, for oracle/fuzz. A kind takes part when it has its function in `KINDS`."""

import re

import policies_htb
from scenario import Random


class Draw(Random):
    """Random choices."""

    def of(self, *choices):
        return choices[self.between(0, len(choices) - 1)]

    def chance(self, percent):
        return self.between(1, 100) <= percent

    def sometimes(self, percent, text):
        return text if self.chance(percent) else ""


# Options of each kind: a function of the draw, and of the rate at which the kind is emptied, bit/s.


def pfifo(d, rate):
    return d.sometimes(80, f" limit {d.between(1, 60)}")


def bfifo(d, rate):
    return d.sometimes(80, f" limit {d.between(1000, 60000)}")


def prio(d, rate):
    bands = d.between(2, 6)
    priomap = " ".join(str(d.between(0, bands - 1)) for _ in range(16))
    return f" bands {bands}" + (d.sometimes(50, f" priomap {priomap}") if bands >= 3 else f" priomap {priomap}")


def ets(d, rate):
    strict = d.between(0, 3)
    quanta = " ".join(str(d.of(300, 1514, 3000, 9000)) for _ in range(d.between(1, 4)))
    bands = strict + len(quanta.split())
    priomap = " ".join(str(d.between(0, bands - 1)) for _ in range(16))
    return f" bands {bands} strict {strict} quanta {quanta} priomap {priomap}"


def sfq(d, rate):
    return (d.sometimes(50, f" limit {d.between(10, 120)}") + d.sometimes(40, f" quantum {d.of(600, 1514, 3000)}")
            + d.sometimes(40, f" depth {d.between(2, 60)}") + d.sometimes(20, " headdrop") + " divisor 65536")


def codel(d, rate):
    return (d.sometimes(50, f" limit {d.between(2, 60)}") + d.sometimes(50, f" target {d.of(1, 2, 5, 10)}ms")
            + d.sometimes(50, f" interval {d.of(10, 20, 50, 100)}ms") + d.sometimes(40, d.of(" ecn", " noecn"))
            + d.sometimes(20, f" ce_threshold {d.of(1, 4, 20)}ms"))


def fq_codel(d, rate):
    return (d.sometimes(50, f" limit {d.between(4, 80)}") + d.sometimes(30, f" flows {d.of(1, 1024, 4096, 65536)}")
            + d.sometimes(50, f" quantum {d.of(300, 600, 1514, 3000)}") + d.sometimes(50, f" target {d.of(1, 2, 5, 10)}ms")
            + d.sometimes(50, f" interval {d.of(10, 20, 50, 100)}ms") + d.sometimes(30, d.of(" ecn", " noecn"))
            + d.sometimes(20, f" ce_threshold {d.of(1, 4, 20)}ms") + d.sometimes(20, f" drop_batch {d.of(1, 2, 8, 64)}"))


def tbf(d, rate):
    burst = d.of(1600, 2000, 3000, 5000, 20000)
    peak = d.sometimes(25, f" peakrate {rate * d.between(11, 30) // 10}bit mtu {d.of(1600, 2000, 4000)}")
    end = d.of(f"limit {d.between(1600, 80000)}", f"latency {d.of(5, 20, 50, 200)}ms")
    charged = d.sometimes(10, f" mpu {d.of(64, 200)}") + d.sometimes(10, f" overhead {d.of(4, 24)}")
    return f" rate {rate}bit burst {burst} {end}{peak}{charged}"


# Rows of PARITY.md that any case may show.
MEANT = [
    {"row": "codel-drop-next", "waives": ["drop_next"]},
    {"row": "fq-codel-memory", "waives": ["memory_used"]},
]

KINDS = {
    "pfifo": pfifo, "bfifo": bfifo, "pfifo_head_drop": pfifo, "pfifo_fast": lambda d, rate: "", "prio": prio, "codel": codel,
    "fq_codel": fq_codel, "tbf": tbf, "ets": ets, "sfq": sfq,
}


def children(kind, options):
    """The minor numbers of a kind's classes."""
    if kind == "tbf":
        return [1]
    if kind in ("prio", "ets"):
        return range(1, int(options.split("bands ")[1].split()[0]) + 1)
    return []


class Policy:
    """A random tree: the lines that make it, and lines that change it."""

    def __init__(self, draw, kinds):
        self.draw, self.kinds, self.lines, self.nodes, self.next = draw, kinds, [], [], 1
        self.rate = draw.of(500_000, 1_000_000, 4_000_000, 10_000_000, 50_000_000)
        # Something must shape, or nothing ever waits: veth takes every packet at once.
        self.add("root", "tbf", self.rate, 0)

    def add(self, place, kind, rate, depth):
        handle, options = self.next, KINDS[kind](self.draw, rate)
        self.next += 1
        self.lines.append(f"qdisc add dev v0 {place} handle {handle:x}: {kind}{options}")
        self.nodes.append((place, handle, kind))
        for minor in children(kind, options):
            if depth < 3 and self.draw.chance(100 if depth == 0 else 60):
                child = self.draw.of(*(k for k in self.kinds if not (depth == 2 and k in ("prio", "ets", "tbf"))))
                self.add(f"parent {handle:x}:{minor:x}", child, rate * self.draw.between(3, 9) // 10, depth + 1)

    def change(self):
        place, handle, kind = self.draw.of(*self.nodes)
        below = [k for p, _, k in self.nodes if p.startswith(f"parent {handle:x}:")]
        # tbf-own-child: a change of tbf's limit reaches into a FIFO below it.
        if kind in ("pfifo_fast", "sfq") or kind == "tbf" and any("fifo" in k for k in below):
            return None
        rate = self.rate * self.draw.between(5, 20) // 10
        options = KINDS[kind](self.draw, rate)
        if kind == "tbf":
            # The same, of the fifo that it came with.
            options = re.sub(r" (limit \d+|latency \d+ms)", " limit 90000", options)
        if "fifo" in kind:
            # fifo-shrink: a limit only grows.
            options = f" limit {self.draw.between(60, 100)}" if kind != "bfifo" else f" limit {self.draw.between(60000, 90000)}"
        # fq-codel-flows: Linux refuses any number of flows in a change, also the present one.
        options = re.sub(r" flows \d+", "", options)
        return f"qdisc change dev v0 {place} handle {handle:x}: {kind}{options}"


def scenario(seed, kinds):
    """A whole random scenario, as a table of a scenario file."""
    if kinds == ["htb"]:
        return policies_htb.scenario(seed)
    d = Draw(seed, 0x66757A7A)
    policy = Policy(d, kinds)
    streams, budget = [], d.between(60, 220)
    # The load, in tenths of the rate, is shared by the streams.
    count = d.between(1, 5)
    load = d.of(3, 8, 10, 12, 20, 40)
    ns_per_byte = 8 * 10**9 / policy.rate
    for index in range(count):
        size = d.of(1514, 1000, 100, 60, [60, 1514], [500, 1000])
        mean = sum(size) // 2 if isinstance(size, list) else size
        burst = d.of(1, 1, 1, 2, 5, 12)
        gap = int(mean * ns_per_byte * burst * count * 10 // load)
        streams.append({
            "proto": d.of("udp", "udp", "tcp"),
            "flow": [index * 8 + f for f in range(1, 1 + d.of(1, 1, 2, 4))],
            "flow_order": d.of("turn", "random"),
            "size": size,
            "start": d.between(0, 3_000_000),
            "gap": [gap // 2, gap * 3 // 2],
            "burst": burst,
            "count": budget // count,
            "priority": d.of(0, 0, d.between(0, 15), d.of(0x10001, 0x20001, 0x20002, 0x30002)),
            "dscp": d.between(0, 63),
            "ecn": d.of("not", "not", "ect0", "ect1"),
        })
    length = max(s["count"] // s["burst"] * sum(s["gap"]) // 2 for s in streams)
    changes = [{"at": d.between(1_000_000, 1_000_000 + length), "tc": line}
               for line in (policy.change() for _ in range(d.of(0, 0, 1, 2, 3))) if line]
    changes.append({"at": d.between(1_000_000, 1_000_000 + length), "show": True})
    device = {"mtu": 1500, "txqueuelen": d.of(1000, 1000, 20, 5)}
    return {"name": f"case-{seed}", "seed": seed, "device": device, "tc": policy.lines, "changes": changes, "stream": streams,
            "parity": MEANT}
