"""gred in random policies: the line of the qdisc, those of its virtual queues, and the marks by which packets find these."""

# Marks from 1 on, each the number of a queue to a filter at the egress hook.
MARKS = 6
QUEUES = 8


def hook(lines):
    """The lines of a tree behind filters that give a packet the number of its mark."""
    filters = [f"filter add dev v0 egress protocol all prio 1 handle {mark} fw classid 7fff:{mark}" for mark in range(1, MARKS + 1)]
    return ["qdisc add dev v0 clsact", *filters, *lines]


def setup(d):
    return (f" setup vqs {QUEUES} default {d.between(0, MARKS)}" + d.sometimes(60, " grio")
            + d.sometimes(60, f" limit {d.between(3000, 90_000)}"))


def numbers(d):
    """The queues that have parameters: some marks have none."""
    return [number for number in range(MARKS + 1) if d.chance(60)]


def queue(d, rate, number):
    """One byte between the thresholds: then nothing is left to chance."""
    avpkt = d.of(60, 500, 1000, 1500)
    least = avpkt * d.between(2, 20)
    lowest = (2 * least + least + 1) // (3 * avpkt) + 1
    burst = max(lowest, d.of(d.between(lowest, 60), least // avpkt + 1, least // avpkt + 3, d.between(54, 64)))
    return (f" vq {number} limit {least * d.between(2, 8) + 2000} avpkt {avpkt} min {least} max {least + 1} burst {burst}"
            + d.sometimes(30, f" bandwidth {rate}bit") + d.sometimes(70, f" prio {d.between(1, 5)}")
            + d.sometimes(50, " ecn" + d.sometimes(30, " harddrop")))
