"""Random schedules of gates, for the roots of oracle/fuzz that are a taprio."""


class Gates:
    """The traffic classes of a taprio and its schedule."""

    def __init__(self, draw, queues):
        d = self.draw = draw
        classes = d.between(1, min(4, queues))
        # Queues of each class, one behind the other; some queues may be of no class.
        self.ranges, first = [], 0
        for left in range(classes - 1, -1, -1):
            count = d.between(1, queues - first - left)
            self.ranges.append((count, first))
            first += count
        # Each class has a priority at least.
        self.map = list(range(classes)) + [d.between(0, classes - 1) for _ in range(16 - classes)]
        ranges = " ".join(f"{count}@{offset}" for count, offset in self.ranges)
        self.classes = f" num_tc {classes} map {' '.join(map(str, self.map))} queues {ranges}"
        self.schedule = self.entries(classes)

    def entries(self, classes):
        d = self.draw
        # An entry of 3 us is one that a long frame does not fit into, but a short one does (guard band at 10 Gbit/s).
        entries = [(d.between(0, 2**classes - 1), d.of(3_000, 20_000, 100_000, 300_000, 700_000)) for _ in range(d.between(1, 6))]
        # Most classes have a gate that opens at some time.
        if d.chance(85):
            never = 2**classes - 1
            for gates, _ in entries:
                never &= ~gates
            entries += [(never, d.of(20_000, 200_000))] if never else []
        cycle = sum(ns for _, ns in entries)
        self.shortest = min(ns for _, ns in entries)
        base = d.of(0, 0, d.between(1, 2_000_000))
        return (f" base-time {base}" + "".join(f" sched-entry S {gates:x} {ns}" for gates, ns in entries)
                + d.sometimes(20, f" cycle-time {cycle * d.between(6, 14) // 10}") + " clockid CLOCK_MONOTONIC")

    def place(self):
        """A priority and a queue of the same class. taprio-queue: another queue waits for both gates."""
        d = self.draw
        priority = d.between(0, 15)
        count, offset = self.ranges[self.map[priority]]
        return priority, d.between(offset, offset + count - 1)
