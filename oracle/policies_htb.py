"""Random trees of htb classes, with arrivals and changes, for `oracle/fuzz --kinds htb`."""

import policies


def bucket(handle):
    """The place of a qdisc in Linux's list."""
    return ((handle << 16) * 0x61C88647 & 0xFFFFFFFF) >> 28


# Handles of different buckets, beside that of the root: those of one are listed by age.
HANDLES = [next(h for h in range(2, 64) if bucket(h) == b) for b in range(16) if b != bucket(1)]


class Tree:
    """Classes, the lines that make them, and lines that change them."""

    kind, salt = "htb", 0x687462

    def __init__(self, draw):
        self.draw, self.lines, self.above, self.leafs, self.made = draw, [], {}, {}, []
        self.rate = draw.of(100_000, 500_000, 1_000_000, 4_000_000, 10_000_000)
        if draw.chance(20):
            self.rate = draw.of(800, 8_000, 1_000_000_000, 40_000_000_000, 100_000_000_000)
        self.minors = draw.of(16, 300, 0xFFFF)
        self.wild = draw.chance(30)
        self.next = 2
        self.lines.append(f"qdisc add dev v0 root handle 1: {self.kind}{self.root_options()}")
        for _ in range(draw.of(1, 2, 3, 5, 8, 12, 20)):
            self.lines += self.add()

    def root_options(self):
        d = self.draw
        r2q = d.sometimes(40, f" r2q {d.of(1, 2, 20, 100, 1000)}")
        direct = d.sometimes(20, f" direct_qlen {d.of(0, 1, 3)}")
        return f" default {d.of(0, d.between(1, self.minors)):x}{r2q}{direct}"

    def places(self):
        """The classes that may get another one below."""
        return [m for m in self.above if self.depth(m) < 6]

    def depth(self, minor):
        return 0 if minor == 0 else 1 + self.depth(self.above[minor])

    def leaves(self):
        inner = set(self.above.values())
        return [m for m in self.above if m not in inner]

    def options(self):
        d = self.draw
        rate = self.rate * d.between(5, 100) // 100
        words = f"rate {rate}bit"
        words += d.sometimes(60, f" ceil {d.of(rate, rate * d.between(10, 40) // 10, self.rate, self.rate // 2)}bit")
        words += d.sometimes(60, f" prio {d.of(0, 1, 2, 3, 7)}")
        words += d.sometimes(40, f" quantum {d.of(100, 600, 1000, 1514, 3000, 20000)}")
        words += d.sometimes(40, f" burst {d.of(100, 1500, 1600, 5000, 20000)}")
        words += d.sometimes(40, f" cburst {d.of(100, 1500, 1600, 5000, 20000)}")
        if self.wild:
            words += d.sometimes(20, f" overhead {d.of(4, 24, 100)}") + d.sometimes(20, f" mpu {d.of(64, 400)}")
            words += d.sometimes(20, " linklayer atm") + d.sometimes(10, f" mtu {d.of(500, 9000)}")
        return words

    def add(self):
        d = self.draw
        minor = d.between(1, self.minors)
        if minor in self.above:
            return []
        places = self.places()
        parent = d.of(*places) if places and d.chance(80) else 0
        self.above[minor] = parent
        self.leafs.pop(parent, None)
        made = [f"class add dev v0 parent 1:{parent:x} classid 1:{minor:x} {self.kind} {self.options()}"]
        if self.next < 16 and d.chance(25):
            made.append(self.leaf(minor))
        return made

    def leaf(self, minor):
        d = self.draw
        # Below a tbf, `overlimits` counts how often it was asked in vain: PARITY.md, htb-wakes.
        kind = d.of("pfifo", "pfifo", "bfifo", "codel", "fq_codel", "prio")
        self.leafs[minor] = kind
        handle = HANDLES[self.next - 2]
        self.next += 1
        options = policies.KINDS[kind](d, self.rate)
        self.made.append(f": {kind}")
        return f"qdisc replace dev v0 parent 1:{minor:x} handle {handle:x}: {kind}{options}"

    def change(self):
        """Lines that change something, some of which are refused."""
        d = self.draw
        if not self.above:
            return self.add()
        minor = d.of(*self.above)
        match d.of("change", "change", "change", "add", "add", "delete", "delete", "delete", "leaf", "drop"):
            case "add":
                return self.add()
            case "delete":
                if minor in self.leaves():
                    del self.above[minor]
                    self.leafs.pop(minor, None)
                return [f"class del dev v0 classid 1:{minor:x}"]
            case "leaf":
                return [self.leaf(minor)] if minor in self.leaves() and self.next < 16 else []
            case "drop":
                had = self.leafs.pop(minor, None)
                return [f"qdisc del dev v0 parent 1:{minor:x}"] if had else []
        return [f"class change dev v0 classid 1:{minor:x} {self.kind} {self.options()}"]


def scenario(seed, kind=Tree):
    """A whole random scenario, as a table of a scenario file."""
    d = policies.Draw(seed, kind.salt)
    tree = kind(d)
    lines, minors = list(tree.lines), list(tree.above)
    leaves = tree.leaves()
    streams = []
    count = d.between(1, 8)
    budget = d.between(60, 400)
    load = d.of(3, 8, 12, 20, 60)
    ns_per_byte = 8 * 10**9 / tree.rate
    for index in range(count):
        size = d.of(1514, 1000, 100, 60, [60, 1514], [500, 1000])
        mean = sum(size) // 2 if isinstance(size, list) else size
        burst = d.of(1, 1, 1, 2, 5, 12)
        gap = int(mean * ns_per_byte * burst * count * 10 // load)
        minor = d.of(*leaves) if d.chance(85) else d.of(0, d.of(*minors), d.between(1, 0xFFFF))
        streams.append({
            "flow": [index * 8 + f for f in range(1, 1 + d.of(1, 1, 2, 4))], "size": size, "start": d.between(0, 3_000_000),
            "gap": [gap // 2, gap * 3 // 2], "burst": burst, "count": max(budget // count, 4),
            "priority": 0 if d.chance(5) else 0x10000 | minor, "ecn": d.of("not", "ect0"),
        })
    length = max(s["count"] // s["burst"] * sum(s["gap"]) // 2 for s in streams)
    changes = []
    times = sorted(d.between(1_000_000, 1_000_000 + length) for _ in range(d.of(0, 0, 1, 3, 8)))
    for at in times:
        changes += [{"at": at, "tc": line} for line in tree.change()]
    changes.append({"at": d.between(1_000_000, 1_000_000 + length), "show": True})
    device = {"mtu": 1500, "txqueuelen": d.of(1000, 1000, 20, 5)}
    return {"name": f"case-{seed}", "seed": seed, "device": device, "tc": lines, "changes": changes, "stream": streams,
            "parity": meant(tree), "details": d.chance(30), "end": 1_000_000 + 4 * length + 2_000_000_000}


def meant(tree):
    """The rows of PARITY.md that a tree may show."""
    text = " ".join(tree.made)
    kinds = [kind for kind in policies.MEANT if f": {kind}" in text]
    return [row for kind in kinds for row in policies.MEANT[kind]]
