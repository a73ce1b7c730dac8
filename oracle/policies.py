"""Random policies and arrivals, for oracle/fuzz. A kind takes part when it has its function in `KINDS`."""

import re

import policies_gred
import policies_hfsc
import policies_htb
import policies_taprio
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
            + d.sometimes(20, f" ce_threshold {d.of(1, 4, 20)}ms" + d.sometimes(40, f" ce_threshold_selector {d.of('1/3', '2/2', '40/252')}"))
            + d.sometimes(20, f" drop_batch {d.of(1, 2, 8, 64)}"))


def tbf(d, rate):
    # The edges are the sizes of packets: one that is larger than the bucket is dropped.
    burst = d.of(1600, 2000, 3000, 5000, 20000, d.of(60, 100, 1000, 1513, 1514, 1515), max(2000, rate // 8 // 1000))
    peak = d.sometimes(25, f" peakrate {rate * d.between(11, 30) // 10 + 8}bit mtu {d.of(1514, 1600, 2000, 4000)}")
    end = d.of(f"limit {d.between(1600, 80000)}", f"latency {d.of(5, 20, 50, 200)}ms")
    charged = d.sometimes(10, f" mpu {d.of(64, 200)}") + d.sometimes(10, f" overhead {d.of(4, 24)}")
    return f" rate {rate}bit burst {burst} {end}{peak}{charged}"


def tbf_whole(d, rate):
    """With a bucket and a rate of whole ticks: the tc of a later kernel rounds parts of ticks in another way."""
    mbit = max(mbit for mbit in (1, 2, 8, 16, 40, 80) if mbit == 1 or mbit * 1_000_000 <= rate)
    return f" rate {mbit}mbit burst {d.of(2000, 4000, 20_000)} limit {d.between(1600, 80_000)}"


def netem(d, rate):
    """Without chances: what is drawn is which words stand there."""
    delay = f" delay {d.between(300, 30_000)}us"
    return (delay + d.sometimes(50, f" limit {d.between(2, 60)}")
            + d.sometimes(40, f" rate {max(8, rate * d.between(5, 20) // 10)}bit"
                          + d.sometimes(40, f" {d.of(-14, 0, 24)} {d.of(0, 48, 53)} 5"))
            + d.sometimes(20, f" reorder 100% gap {d.between(1, 6)}"))


def fq_rate(rate):
    """Its rates have 32 bits of bytes, and the least is a byte."""
    return min(max(rate, 8), 34_000_000_000)


def fq(d, rate):
    # fq-timer-slack: without slack. Flows have their own buckets.
    return (" buckets 4096 orphan_mask 65535 timer_slack 0" + d.sometimes(50, f" limit {d.between(10, 100)}")
            + d.sometimes(50, f" flow_limit {d.between(3, 40)}") + d.sometimes(50, f" quantum {d.of(300, 1514, 3028, 9000)}")
            + d.sometimes(50, f" initial_quantum {d.of(300, 1514, 3028, 15140)}")
            + d.sometimes(50, f" maxrate {fq_rate(rate * d.between(1, 12) // 10)}bit") + d.sometimes(15, " nopacing")
            + d.sometimes(30, f" low_rate_threshold {d.of(100_000, 550_000, 20_000_000)}bit")
            # fq-refill-grain: in ticks there.
            + " refill_delay 100s" + d.sometimes(25, f" horizon {d.of(3, 8, 20)}ms" + d.sometimes(50, " horizon_cap"))
            + d.sometimes(25, f" ce_threshold {d.of(1, 4, 20)}ms"))


def red(d, rate):
    """One byte between the thresholds: then nothing is left to chance."""
    avpkt = d.of(60, 500, 1000, 1500)
    least = avpkt * d.between(2, 20)
    lowest = (2 * least + least + 1) // (3 * avpkt) + 1
    # tc proposes min / avpkt + 1; there, and from 54 on, its weights are rounded.
    burst = max(lowest, d.of(d.between(lowest, 60), least // avpkt + 1, least // avpkt + 3, d.between(54, 64)))
    return (f" limit {least * d.between(2, 8) + 2000} avpkt {avpkt} min {least} max {least + 1} burst {burst}"
            + d.sometimes(30, f" bandwidth {rate}bit") + d.sometimes(50, " ecn" + d.sometimes(30, d.of(" harddrop", " nodrop"))))


def pie(d, rate):
    """With a target that no queue reaches: its probability then stays zero, and only its limit drops. zero-options: no gain of 0."""
    return (f" target {d.of(1, 2, 4)}s limit {d.between(2, 90)}" + d.sometimes(40, f" tupdate {d.of(5, 15, 40, 300)}ms")
            + d.sometimes(30, f" alpha {d.between(1, 32)} beta {d.between(1, 32)}") + d.sometimes(30, d.of(" ecn", " noecn"))
            + d.sometimes(30, " bytemode") + d.sometimes(30, " dq_rate_estimator"))


def fq_pie(d, rate):
    """As pie: with a target that no queue reaches."""
    return (f" target {d.of(1, 2, 4)}s" + d.sometimes(60, f" limit {d.between(2, 90)}")
            + d.sometimes(30, f" flows {d.of(1, 1024, 4096, 65536)}") + d.sometimes(40, f" tupdate {d.of(5, 15, 40, 300)}ms")
            + d.sometimes(30, f" alpha {d.between(1, 32)} beta {d.between(1, 32)}") + d.sometimes(50, f" quantum {d.of(1, 300, 600, 1514, 3000)}")
            + d.sometimes(20, f" memory_limit {d.of(1, 3000, 20_000)}") + d.sometimes(30, d.of(" ecn", " noecn"))
            + d.sometimes(30, f" ecn_prob {d.between(1, 99)}") + d.sometimes(30, " bytemode") + d.sometimes(30, " dq_rate_estimator"))


def red_by_chance(d, rate):
    least = d.between(5, 40) * 1000
    return (f" limit 400000 avpkt 1000 min {least} max {least * 3} burst {2 * least // 1000} probability {d.of(0.02, 0.1, 0.3)}"
            + d.sometimes(30, " ecn"))


def netem_by_chance(d, rate):
    return d.of(f" loss {d.between(1, 30)}%", f" delay {d.between(5, 30)}ms {d.between(1, 5)}ms",
                f" delay {d.between(5, 30)}ms {d.between(1, 5)}ms distribution normal",
                f" loss gemodel {d.between(2, 20)}% {d.between(10, 60)}%")


def pie_by_chance(d, rate):
    """With targets that queues do reach: how many are dropped is compared then, and not which."""
    return (f" target {d.of(2, 5, 15)}ms limit {d.between(20, 200)}" + d.sometimes(40, f" tupdate {d.of(5, 15, 40)}ms")
            + d.sometimes(30, d.of(" ecn", " noecn")) + d.sometimes(30, " bytemode"))


def fq_pie_by_chance(d, rate):
    return (f" target {d.of(2, 5, 15)}ms limit {d.between(20, 200)}" + d.sometimes(40, f" tupdate {d.of(5, 15, 40)}ms")
            + d.sometimes(30, f" flows {d.of(1, 65536)}") + d.sometimes(30, d.of(" ecn", " noecn"))
            + d.sometimes(30, f" ecn_prob {d.between(1, 99)}") + d.sometimes(30, " bytemode"))


def plug(d, rate):
    return d.sometimes(80, f" limit {d.between(1000, 60000)}")


def choke(d, rate):
    """With an average that stays below min: no packet is compared."""
    limit = d.between(8, 60)
    return f" limit {limit} bandwidth {min(rate, 30_000_000_000)}bit min {limit // 2} max {limit - 1} burst {d.of(3000, 9000)}"


def sfb(d, rate):
    """Without chances: bins at their maximum before any probability rises."""
    most = d.between(2, 30)
    return (f" max {most} target {most + 1}" + d.sometimes(60, f" limit {d.between(3, 80)}")
            + d.sometimes(30, f" penalty_rate {d.of(1, 50)}"))


def choke_by_chance(d, rate):
    least = d.between(3, 30)
    return (f" limit 400 bandwidth {min(rate, 30_000_000_000)}bit min {least} max {least * 3} burst {2 * least}"
            + f" probability {d.of(0.02, 0.1, 0.3)}" + d.sometimes(50, " ecn"))


def skbprio(d, rate):
    return d.sometimes(80, f" limit {d.between(1, 60)}")


def cake(d, rate):
    return (d.of("", f" bandwidth {max(8, rate * d.between(3, 15) // 10)}bit")
            + d.of(" besteffort", " diffserv3", " diffserv4", " diffserv8", " precedence")
            + d.of(" flows", " flows", " flows", " flowblind", " dsthost", " srchost")
            + d.of(" rtt 1s", " rtt 300ms", " rtt 10ms", " rtt 100ms")
            + d.sometimes(20, f" memlimit {d.of(20, 60, 200)}kb") + d.sometimes(20, " wash")
            + d.sometimes(30, f" overhead {d.of(-14, 4, 38)} mpu {d.of(0, 64, 84)}" + d.sometimes(50, d.of(" atm", " ptm"))))


def cake_mq(d, rate):
    # Its shares change each 200 us where a queue has work: at the rates below many a time.
    return cake(d, rate)


# What a device carries by its word, kbit/s, which the slopes of cbs belong to.
PORT_KBIT = 10_000_000
# cbs-grain: slopes of some bytes each microsecond, so that what is cut off the credit is less than the clock shows.
SLOPES_KBIT = (8_000, 16_000, 32_000, 64_000)


def cbs(d, rate):
    slope = max([slope for slope in SLOPES_KBIT if slope <= rate // 1000] or SLOPES_KBIT[:1])
    return (f" idleslope {slope} sendslope {slope - PORT_KBIT} hicredit {d.of(0, 1, 7, 30, d.between(0, 3000))}"
            + f" locredit {d.of(-1600, -1514, -320, 0, -d.between(0, 9000))}")


def etf(d, rate):
    # etf-timer: a timer is late by less than this.
    return f" clockid CLOCK_TAI delta {d.of(20_000, 100_000, 300_000, 2_000_000)}"


def dualpi2(d, rate):
    """With an update that comes after the end: its probability stays zero."""
    return (" tupdate 4s no_split_gso" + d.sometimes(50, f" limit {d.between(2, 80)}") + d.sometimes(25, f" memlimit {d.of(3000, 20_000, 60_000)}")
            + d.sometimes(50, f" step_thresh {d.of('2s', '1ms', '5ms', '20ms', '1p', '3p', '10p')}") + d.sometimes(30, f" min_qlen_step {d.between(0, 5)}")
            + d.sometimes(50, f" classic_protection {d.of(0, 5, 25, 50, 90, 100)}%") + d.sometimes(30, f" coupling_factor {d.between(1, 5)}")
            + d.sometimes(30, " any_ect") + d.sometimes(30, " overflow") + d.sometimes(30, " drop_enqueue"))


# How a case of a kind in the tree is compared: rows of PARITY.md that it may show.
LAW = {"row": "codel-newton-range", "waives": ["law"]}
MEANT = {
    "codel": [{"row": "codel-drop-next", "waives": ["drop_next"]}, LAW],
    "fq_codel": [{"row": "codel-drop-next", "waives": ["drop_next"]}, {"row": "fq-codel-memory", "waives": ["memory_used"]}, LAW],
    "netem": [{"row": "netem-class-list", "waives": ["classes"]}, {"row": "netem-requeues", "waives": ["requeues"]},
              {"row": "own-timers", "waives": ["overlimits"]}],
    "fq": [{"row": "fq-latency", "waives": ["latency"]}, {"row": "fq-delay-shown", "waives": ["next_packet_delay"]},
           {"row": "own-timers", "waives": ["overlimits"]}],
    "pie": [{"row": "pie-idle-show", "waives": ["avg_dq_rate", "prob", "delay"]}, {"row": "pie-bounded", "waives": ["law"]}],
    "fq_pie": [{"row": "fq-pie-memory", "waives": ["memory_used", "overmemory"]}, {"row": "pie-bounded", "waives": ["law"]}],
    "plug": [{"row": "plug-peek", "waives": ["overlimits"]}],
    "skbprio": [{"row": "skbprio-parent-backlog", "waives": ["backlog"]},
                {"row": "skbprio-class-packets", "waives": ["class_qlen"]}],
    "hhf": [{"row": "hhf-parent-backlog", "waives": ["backlog"]}],
    "gred": [{"row": "gred-shown-average", "waives": ["average", "qave"]}],
    "sfb": [{"row": "sfb-class-list", "waives": ["classes"]}],
    "taprio": [{"row": "taprio-drops", "waives": ["drops", "backlog", "qlen", "text"]}, {"row": "own-timers", "waives": ["overlimits"]}],
    "mqprio": [{"row": "mqprio-class-packets", "waives": ["class_qlen"]}],
    "multiq": [{"row": "multi-queue-polls", "waives": ["overlimits"]}, {"row": "multiq-backlog", "waives": ["backlog"]}],
    # Where its default qdisc stands in a listing hangs on the kernel's table of numbers.
    "cbs": [{"row": "cbs-drops", "waives": ["drops", "(dropped"]}, {"row": "cbs-grain", "waives": ["time", "order", "law"]},
            {"row": "cbs-idle-ask", "waives": ["new_flows_len", "old_flows_len"]}, {"row": "cbs-child-shown", "waives": ["text"]}],
    "dualpi2": [{"row": "dualpi2-idle-show", "waives": ["delay-c", "delay-l", "delay_c", "delay_l"]}],
    "cake_mq": [{"row": "cake-mq-shown", "waives": ["active_queues", "capacity_estimate", "threshold_rate", "flow_quantum", "text"]},
                {"row": "multi-queue-polls", "waives": ["time", "order", "avg_delay_us", "base_delay_us", "peak_delay_us"]},
                {"row": "cake-drop-next", "waives": ["drop_next", "blue_timer"]},
                {"row": "cake-longest", "waives": ["law"]}],
    "cake": [{"row": "cake-drop-next", "waives": ["drop_next", "blue_timer"]},
             {"row": "cake-idle-timer", "waives": ["overlimits"]},
             {"row": "cake-longest", "waives": ["law"]}],
}

def hhf(d, rate):
    """zero-options: without zeros."""
    return (d.sometimes(60, f" limit {d.between(4, 80)}") + d.sometimes(50, f" quantum {d.of(300, 1514, 3000, 9000)}")
            + f" admit_bytes {d.of(1, 2000, 10_000, 40_000)}" + d.sometimes(40, f" hh_limit {d.of(1, 2, 64)}")
            + d.sometimes(40, f" reset_timeout {d.of(2, 10, 100)}ms") + d.sometimes(40, f" evict_timeout {d.of(2, 10, 100)}ms")
            + d.sometimes(50, f" non_hh_weight {d.of(1, 2, 5)}"))


BY_CHANCE = {"pie": pie_by_chance, "fq_pie": fq_pie_by_chance, "red": red_by_chance, "choke": choke_by_chance, "netem": netem_by_chance}

KINDS = {
    "pfifo": pfifo, "bfifo": bfifo, "pfifo_head_drop": pfifo, "pfifo_fast": lambda d, rate: "", "prio": prio, "codel": codel,
    "fq_codel": fq_codel, "tbf": tbf, "ets": ets, "sfq": sfq, "netem": netem, "fq": fq, "red": red, "pie": pie, "fq_pie": fq_pie,
    "skbprio": skbprio, "cake": cake, "drr": lambda d, rate: "", "multiq": lambda d, rate: "", "htb": lambda d, rate: "",
    "hfsc": lambda d, rate: "", "qfq": lambda d, rate: "", "hhf": hhf, "plug": plug, "choke": choke, "sfb": sfb,
    "gred": lambda d, rate: policies_gred.setup(d),
    # Its options are those of `policies_taprio`.
    "taprio": lambda d, rate: "",
    "mq": lambda d, rate: "", "mqprio": lambda d, rate: "", "cbs": cbs, "etf": etf,
}
# Kinds that only a later kernel has, with those that its cases are made of beside them.
LATER = {"dualpi2": dualpi2, "cake_mq": cake_mq, "tbf": tbf_whole,
         **{kind: KINDS[kind] for kind in ("pfifo", "bfifo", "prio", "drr", "ets", "codel", "fq_codel", "mq")}}
# Kinds with classes that may have qdiscs of any kind.
INNER = ("prio", "ets", "tbf", "drr", "qfq", "multiq", "netem", "red", "cbs")
# Those that hold packets back; red takes one that does for an empty queue (red-idle-child).
SHAPING = ("tbf", "netem", "fq", "cake", "plug", "cbs", "etf")
# Those that a tree may have at its root in place of a tbf.
ROOTS = ("netem", "fq", "cake", "htb", "hfsc", "taprio", "mq", "mqprio", "cbs", "etf", "cake_mq")
# A change makes a new qdisc of these, is refused, or has nothing to say. taprio-change: a change of a schedule opens all gates.
# cake-mq-change: idle queues have other rates for a while, and so other tins.
UNCHANGED = ("pfifo_fast", "sfq", "multiq", "htb", "hfsc", "taprio", "mq", "mqprio", "etf", "cake_mq")
# Trees of classes, which stand at the root.
TREES = ("htb", "hfsc")
# Kinds that stand nowhere but at the root.
AT_ROOT = (*TREES, "taprio", "mq", "mqprio", "cake_mq")
# Those that only stand for the qdiscs of each queue.
FOR_QUEUES = ("mq", "mqprio", "cake_mq")
# Kinds that need a device of several queues.
BY_QUEUE = ("multiq", "taprio", *FOR_QUEUES)


def children(kind, options, queues):
    """The minor numbers of a kind's classes that are there without a command."""
    if kind in ("tbf", "netem", "red", "cbs"):
        return [1]
    if kind == "cake_mq":
        return []
    if kind in BY_QUEUE:
        return range(1, queues + 1)
    if kind in ("prio", "ets"):
        return range(1, int(options.split("bands ")[1].split()[0]) + 1)
    return []


class Policy:
    """A random tree: the lines that make it, and lines that change it."""

    def __init__(self, draw, kinds, queues=1, by_chance=False, later=False):
        self.draw, self.kinds, self.lines, self.nodes, self.next = draw, [k for k in kinds if k not in AT_ROOT], [], [], 1
        self.queues, self.classes, self.options = queues, [], {**(LATER if later else KINDS), **(BY_CHANCE if by_chance else {})}
        self.rate = draw.of(500_000, 1_000_000, 4_000_000, 10_000_000, 50_000_000)
        # The shares below are at least a tenth.
        self.extreme = draw.chance(25)
        if self.extreme:
            self.rate = draw.of(8, 80, 800, 8_000, 64_000, 400_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000)
        if "cbs" in kinds:
            self.extreme, self.rate = False, 1000 * draw.of(*SLOPES_KBIT)
        if "dualpi2" in kinds:
            # All is over before its first update.
            self.extreme, self.rate = False, draw.of(8_000_000, 16_000_000, 40_000_000)
        # Sums over what is sent, if a change drops packets that Linux counts as sent.
        self.shrunk, self.peeked, self.deletes = set(), False, False
        # The virtual queues of each gred that have parameters.
        self.greds = {}
        # Places of each netem; None for those that are drawn.
        self.places, self.ample = None, False
        # stab-once, stab-gso: at the root, and without super-packets.
        self.stab = draw.sometimes(12, f"stab overhead {draw.of(-4, 4, 24, 40)} mpu {draw.of(0, 64, 100)}"
                                   + draw.of(" ", " linklayer atm ", " linklayer ethernet "))
        self.gates = None
        # Something must shape, or nothing ever waits: veth takes every packet at once.
        roots = [k for k in ROOTS if k in kinds]
        root = draw.of(*roots) if roots and draw.chance(60 if set(AT_ROOT) & set(kinds) else 30) else "tbf"
        if root == "taprio":
            self.gates = policies_taprio.Gates(draw, queues)
            # Some packets in each cycle.
            self.rate = draw.of(10_000_000, 50_000_000, 200_000_000)
        self.add("root", root, self.rate, 0)
        if self.gates and len(self.nodes) > 1:
            # taprio-graft: what is put into a class stops the schedule until it is given again.
            self.lines.append(f"qdisc change dev v0 root handle 1: taprio{self.gates.schedule}")

    def roomy(self, line):
        """The line, with as many places in a netem and a tbf as there are to be."""
        if self.ample and ": tbf" in line:
            return re.sub(r" limit \d+| latency \S+", " limit 10000000", line)
        return re.sub(r" limit \d+", f" limit {self.places}", line) if self.places and ": netem" in line else line

    def add(self, place, kind, rate, depth, shaping=True):
        handle, options = self.next, self.options[kind](self.draw, rate)
        if depth == 0 and kind in ("cake", "cake_mq") and "bandwidth" not in options:
            options = f" bandwidth {rate}bit{options}"
        if depth == 0 and kind == "fq" and "maxrate" not in options:
            options += f" maxrate {fq_rate(rate)}bit"
        if kind in TREES:
            options = f" default {self.draw.of(0, 1, 2)}"
        if kind == "taprio":
            options = self.gates.classes + self.gates.schedule
        if kind == "mqprio":
            options = policies_taprio.Gates(self.draw, self.queues).classes + " hw 0"
        self.next += 1
        # stab-mq: below it.
        stab = self.stab if self.is_met_first(place) and kind not in FOR_QUEUES else ""
        self.lines.append(f"qdisc add dev v0 {place} handle {handle:x}: {stab}{kind}{options}")
        self.nodes.append((place, handle, kind, options))
        if kind == "gred":
            self.greds[handle] = policies_gred.numbers(self.draw)
            queues = [policies_gred.queue(self.draw, min(rate, 30_000_000_000), number) for number in self.greds[handle]]
            self.lines += [f"qdisc change dev v0 {place} handle {handle:x}: gred{words}" for words in queues]
        shaping = shaping and kind != "red"
        for minor in self.own_classes(handle, kind, rate) or children(kind, options, self.queues):
            # A netem or a red with something in its class are rarer than without.
            often = 25 if kind in ("netem", "red") else 100 if depth == 0 else 60
            if depth < 3 and self.next < 16 and self.draw.chance(often):
                kinds = [k for k in self.kinds if not (depth == 2 and k in INNER) and (shaping or k not in SHAPING)]
                # etf-peek: no qdisc above looks at its first packet. taprio-launch, and fq has launch times of another clock.
                above = {k for _, _, k, _ in self.nodes}
                if above & {*SHAPING, *TREES, "taprio"} - {"etf"}:
                    kinds = [k for k in kinds if k != "etf"]
                if "etf" in above:
                    kinds = [k for k in kinds if k in ("etf", "prio", "pfifo", "bfifo", "multiq", "pfifo_head_drop")]
                if kinds:
                    child = "tbf" if kind in FOR_QUEUES and self.draw.chance(60) else self.draw.of(*kinds)
                    self.add(f"parent {handle:x}:{minor:x}", child, max(8, rate * self.draw.between(3, 9) // 10), depth + 1, shaping)

    def is_met_first(self, place):
        """Is it the place of the qdisc that the packets of a queue meet first?"""
        return place == "root" or self.nodes[0][2] in FOR_QUEUES and place.startswith("parent 1:")

    def own_classes(self, handle, kind, rate):
        """Makes classes, of kinds whose classes commands make."""
        if kind not in ("drr", "qfq", *TREES):
            return []
        minors = range(1, 1 + self.draw.between(1, 4))
        for minor in minors:
            options = self.class_options(kind, rate)
            self.lines.append(f"class add dev v0 parent {handle:x}: classid {handle:x}:{minor:x} {kind}{options}")
            self.classes.append((handle, minor, kind, rate))
        return minors

    def class_options(self, kind, rate):
        d = self.draw
        if kind == "drr":
            return d.sometimes(80, f" quantum {d.of(300, 600, 1514, 3000, 9000)}")
        if kind == "qfq":
            return d.sometimes(80, f" weight {d.of(1, 2, 3, 10, 100, 1000)}") + d.sometimes(40, f" maxpkt {d.of(600, 1514, 3000, 9000)}")
        least = max(8, rate * d.between(2, 8) // 10)
        if kind == "hfsc":
            # Rates have 32 bits of bytes.
            least, most = (min(rate, 20_000_000_000) * tenths // 10 + 8 for tenths in (d.between(1, 4), d.between(3, 10)))
            limited = f" ls m2 {least}bit ul m2 {most}bit"
            return d.of(f" rt m2 {least}bit", limited, f" rt m1 {most}bit d 20ms m2 {least}bit{limited}", f" sc m2 {least}bit ul m2 {most}bit")
        return (f" rate {least}bit" + d.sometimes(70, f" ceil {max(least, rate * d.between(8, 12) // 10)}bit")
                + d.sometimes(50, f" prio {d.between(0, 3)}")
                + f" burst {d.of(1600, 3000, 9000)} cburst {d.of(1600, 3000)}")

    def change(self):
        if self.classes and self.draw.chance(40):
            handle, minor, kind, rate = self.draw.of(*self.classes)
            if self.draw.chance(25):
                # With what waits in it; packets that name it later have no class. Some are refused, and some are gone already.
                self.deletes = True
                return f"class del dev v0 classid {handle:x}:{minor:x}"
            return f"class change dev v0 parent {handle:x}: classid {handle:x}:{minor:x} {kind}{self.class_options(kind, rate)}"
        place, handle, kind, before = self.draw.of(*self.nodes)
        below = [k for p, _, k, _ in self.nodes if p.startswith(f"parent {handle:x}:")]
        # tbf-own-child, red-own-child: a change of tbf's limit reaches into a FIFO below it, one of red replaces what is there.
        if kind in UNCHANGED or kind == "tbf" and any("fifo" in k for k in below) or kind == "red" and below:
            return None
        rate = max(8, self.rate * self.draw.between(5, 20) // 10)
        if kind == "gred" and self.greds[handle] and self.draw.chance(60):
            # gred-index: no queue begins while packets wait.
            words = policies_gred.queue(self.draw, min(rate, 30_000_000_000), self.draw.of(*self.greds[handle]))
            return f"qdisc change dev v0 {place} handle {handle:x}: gred{words}"
        options = self.changed(kind, rate, before)
        if kind == "tbf":
            self.nodes[self.nodes.index((place, handle, kind, before))] = (place, handle, kind, options)
        return f"qdisc change dev v0 {place} handle {handle:x}: {kind}{options}"

    def changed(self, kind, rate, before):
        """Options of a change that means the same here and there."""
        options = self.options[kind](self.draw, rate)
        if kind == "tbf":
            # The same, of the fifo that it came with. tbf-shrunk-bucket: buckets only grow.
            options = re.sub(r" (limit \d+|latency \d+ms)", " limit 90000", options)
            had = dict(re.findall(r" (burst|mtu) (\d+)", before))
            options = re.sub(r" (burst|mtu) (\d+)", lambda m: f" {m[1]} {max(int(m[2]), int(had.get(m[1], 0)))}", options)
            if "peakrate" not in before:
                options = re.sub(r" peakrate \S+ mtu \d+", "", options)
        # fifo-shrink, skbprio-shrink, fq-shrink, netem-shrink: a limit only grows, from its default too.
        if kind in ("pfifo", "pfifo_head_drop", "skbprio"):
            options = f" limit {100 if ' limit' in before else 1000}"
        if kind == "plug":
            # plug-shrink.
            options = self.draw.of(" block", " release", " release", " release_indefinite", " limit 10000000")
        if kind == "choke":
            # choke-shrink.
            options = re.sub(r" limit \d+", " limit 400", options)
        if kind == "bfifo":
            options = f" limit {90000 if ' limit' in before else 10_000_000}"
        if kind in ("fq", "pie", "netem"):
            options = re.sub(r" limit \d+", f" limit {200 if ' limit' in before else 10000}", options)
        if kind == "codel" and self.draw.chance(40):
            options = f" limit {self.draw.between(1, 8)}"
        if kind in SHRUNK and self.draw.chance(40):
            options = f" limit {self.draw.between(1, 8)}"
        if kind in SHRUNK and " limit" in options:
            self.shrunk.add(kind)
        # fq-shrink: with the packet that a shaper has peeked at, the limit of a change is exceeded by one.
        self.peeked |= kind == "fq"
        if kind == "fq":
            # fq-fast-order: a rate is not taken away. And the buckets stay.
            options = re.sub(r" buckets \d+ orphan_mask \d+| maxrate \S+| (no)?pacing", "", options)
            options += f" maxrate {fq_rate(rate)}bit" if "maxrate" in before else ""
        if kind == "netem":
            # netem-forgets.
            options = re.sub(r" reorder \S+ gap \d+", "", options) + "".join(re.findall(r" reorder \S+ gap \d+", before))
        if kind == "cake":
            # cake-cleared-tins, cake-tin-deficit: the tins and whether there is a rate stay as they were.
            # cake-shrink.
            options = re.sub(r" bandwidth \S+| besteffort| diffserv\d| precedence| memlimit \S+", "", options)
            options += f" bandwidth {rate}bit" if "bandwidth" in before else ""
        # fq-codel-flows, fq-pie-flows: Linux refuses any number of flows in a change, also the present one.
        return re.sub(r" flows \d+", "", options)


# What a change of these drops is counted as sent by Linux, in it and above it.
SHRUNK = {kind: {"row": row, "waives": ["bytes", "packets", "drops", "Sent", "(dropped"]}
          for kind, row in (("fq_codel", "fq-codel-shrink"), ("fq_pie", "fq-pie-shrink"), ("hhf", "hhf-shrink"))}
# What a change of fq drops, too.
PEEKED = {"row": "fq-shrink", "waives": ["drops", "(dropped"]}
# Buckets of more than 274 s.
SLOW = {"row": "tbf-ticks", "waives": ["burst", "lat", "limit", "latency", "mtu", "minburst", "peakrate"]}


def meant(policy):
    """The rows of PARITY.md that a tree may show."""
    kinds = {kind for _, _, kind, _ in policy.nodes}
    rows = [row for kind in MEANT if kind in kinds for row in MEANT[kind]]
    if [k for _, _, k, _ in policy.nodes].count("tbf") > 1 or kinds & set(TREES):
        rows.append({"row": "own-timers", "waives": ["overlimits"]})
    if len(kinds & {"tbf", *TREES, "netem", "fq", "cake"}) > 1 or [k for _, _, k, _ in policy.nodes].count("tbf") > 1:
        # A timer of one's own may send what a change meanwhile permits: compared with the path asked then too.
        rows.append({"row": "own-timers", "waives": ["wakes"]})
    rows += [row for kind, row in SHRUNK.items() if kind in policy.shrunk]
    if policy.peeked:
        rows.append(PEEKED)
    if kinds & set(TREES) and kinds & {"pfifo_head_drop", "skbprio", "hhf"}:
        rows.append({"row": "htb-class-drops", "waives": ["(dropped"]})
    if policy.rate < 1_000:
        rows.append(SLOW)
    if policy.queues > 1:
        rows.append(MEANT["multiq"][0])
    if policy.super_packets and any(kind == "tbf" and place != "root" for place, _, kind, _ in policy.nodes):
        # What is above a tbf that cuts counts the pieces that did not fit there only if none did.
        rows.append({"row": "tbf-gso-cut", "waives": ["drops", "(dropped"]})
        if "netem" in kinds:
            # A packet that is delayed whole there is one.
            rows.append({"row": "tbf-gso-cut", "waives": ["qlen", "class_qlen"]})
    if policy.super_packets and {"cake", "tbf"} <= kinds:
        rows.append({"row": "cake-gso-cut", "waives": ["memory_used", "used:"]})
    if policy.super_packets and {"dualpi2", "tbf"} <= kinds:
        rows.append({"row": "dualpi2-gso-cut", "waives": ["memory-used", "max-memory-used", "memory_used", "(max"]})
    return [row for index, row in enumerate(rows) if row not in rows[:index]]


# Those that tell flows apart by their headers, which the kernel looks for behind the tags of a packet socket, where they are not.
HASHING = {"sfb", "hhf", "sfq", "choke", "fq_codel", "fq_pie", "fq", "cake", "cake_mq"}
# Linux cannot mark a frame of so many bytes that a packet socket has sent: its IP header lies in a fragment.
PAGE = 4096
# A case is over after so long at the slowest rates: what waits then is in the last counters.
LONGEST_NS = 400 * 10**9


def stream(d, policy, kinds, index, count, budget, load, big):
    """One stream of a case."""
    super_packets = policy.super_packets and d.chance(50)
    size = d.of(1514, 1000, 100, 60, [60, 1514], [500, 1000])
    if big and d.chance(60):
        size = d.of(9014, 9000, [60, 9014], [1515, 9000])
    drawn = {"proto": d.of("udp", "udp", "tcp")}
    if super_packets:
        drawn["gso"] = d.of(500, 1448)
        size = d.of(3000, 20000, [3000, 9000], [3000, 64000])
    elif d.chance(20):
        drawn["v6"] = True
        drawn.update({"label": d.between(1, 0xFFFFF)} if d.chance(60) else {})
    elif d.chance(5):
        drawn["proto"] = d.of("icmp", "arp")
    if not super_packets and not kinds & HASHING and d.chance(12):
        drawn["vlan"] = [d.between(1, 0xFFF) for _ in range(d.of(1, 1, 2))]
    # The least: the headers, with their tags.
    least = (74 if "v6" in drawn else 60) + 4 * len(drawn.get("vlan", []))
    size = [max(s, least) for s in size] if isinstance(size, list) else max(size, least)
    mean = sum(size) // 2 if isinstance(size, list) else size
    burst = d.of(1, 1, 1, 2, 5, 12)
    ns_per_byte = 8 * 10**9 / policy.rate
    many = max(2, budget // count)
    gap = int(mean * ns_per_byte * burst * count * 10 // load)
    gap = max(2, min(gap, LONGEST_NS * burst // many))
    drawn.update({
        "flow": [index * 8 + f for f in range(1, 1 + d.of(1, 1, 2, 4))],
        "flow_order": d.of("turn", "random"),
        "size": size,
        "start": d.between(0, 3_000_000),
        "gap": [gap // 2, gap * 3 // 2],
        "burst": burst,
        "count": many,
        "priority": d.of(0, 0, d.between(0, 15), d.of(0x10001, 0x20001, 0x20002, 0x30002)),
        "dscp": d.between(0, 63),
        "ecn": d.of("not", "not", "ect0", "ect1"),
    })
    if not super_packets and (max(size) if isinstance(size, list) else size) >= PAGE:
        drawn["ecn"] = "not"
    classes = [handle << 16 | minor for handle, minor, _, _ in policy.classes]
    if classes and d.chance(85):
        drawn["priority"] = d.of(*classes)
    if "gred" in kinds and policy.queues == 1:
        drawn["mark"] = d.between(0, policies_gred.MARKS)
    if policy.gates:
        drawn["priority"], drawn["queue"] = policy.gates.place()
    elif policy.queues > 1:
        drawn["queue"] = d.between(0, policy.queues - 1)
    if "etf" in kinds and d.chance(95):
        drawn["txtime"], drawn["txtime_clock"] = [d.of(0, 3, 3) * 1_000_000, d.of(3, 12, 40) * 1_000_000], "tai"
    # taprio-launch: a taprio drops by launch times.
    if "fq" in kinds and not policy.gates and d.chance(30):
        drawn["txtime"] = [0, d.of(1, 5, 15) * 1_000_000]
    return drawn


def scenario(seed, kinds, later=False):
    """A whole random scenario, as a table of a scenario file; `later`: of the kinds for a later kernel."""
    if kinds == ["htb"]:
        return policies_htb.scenario(seed)
    if kinds == ["hfsc"]:
        return policies_htb.scenario(seed, policies_hfsc.Tree)
    d = Draw(seed, 0x66757A7A)
    if len(kinds) > 6:
        # Of many a few, so that the same kind often meets itself.
        kinds = [d.of(*kinds) for _ in range(d.between(1, 5))]
    queues = d.of(2, 4, 8) if set(BY_QUEUE) & set(kinds) else 1
    by_chance = bool(BY_CHANCE.keys() & set(kinds)) and d.chance(15)
    policy = Policy(d, kinds, queues, by_chance, later)
    # A target of seconds is reached where a packet takes seconds.
    by_chance = by_chance or policy.rate < 100_000 and any(kind in ("pie", "fq_pie") for _, _, kind, _ in policy.nodes)
    kinds = {kind for _, _, kind, _ in policy.nodes}
    # cake-gso-cut, netem-corrupt-gso: cake leaves super-packets whole here.
    policy.super_packets = not policy.stab and "fq" not in kinds and d.chance(20)
    # taprio-stuck: one that fits into an opening without the headers of its segments, and not with them.
    policy.super_packets &= not policy.gates or policy.gates.shortest >= 100_000
    if policy.super_packets:
        # The pieces that tbf makes take other memory: so many are not worth a limit of their own.
        whole = {True: " no-split-gso", False: ""}
        policy.lines = [re.sub(r" memlimit \S+", "", line) + whole[": cake" in line] for line in policy.lines]
        # tbf-gso-cut: pieces take more places of a limit above the tbf.
        if any(kind == "tbf" and place != "root" for place, _, kind, _ in policy.nodes):
            policy.places = 1000
            # And an hfsc holds the first piece, so that there is room for one more.
            policy.ample = "hfsc" in kinds
    mtu = d.of(1500, 1500, 1500, 9000)
    budget = d.between(60, 220)
    # The load, in tenths of the rate, is shared by the streams.
    count = d.between(1, 5)
    load = d.of(3, 8, 10, 12, 20, 40)
    streams = [stream(d, policy, kinds, index, count, budget, load, mtu == 9000) for index in range(count)]
    length = max(s["count"] // s["burst"] * sum(s["gap"]) // 2 for s in streams)
    lines = [line for line in (policy.change() for _ in range(d.of(0, 0, 1, 2, 3))) if line]
    policy.lines, lines = ([policy.roomy(line) for line in all_lines] for all_lines in (policy.lines, lines))
    if "gred" in kinds and queues == 1:
        policy.lines = policies_gred.hook(policy.lines)
    # In the order in which they were drawn: what only grows must grow in time.
    times = sorted(d.between(1_000_000, 1_000_000 + length) for _ in lines)
    changes = [{"at": at, "tc": line} for at, line in zip(times, lines)]
    changes.append({"at": d.between(1_000_000, 1_000_000 + length), "show": True})
    # pfifo-fast-batch: a shorter queue has none.
    device = {"mtu": mtu, "txqueuelen": d.of(1000, 1000, 20, 5, 1) if "pfifo_fast" not in kinds else d.of(31, 20, 5, 1), "queues": queues}
    drawn = {"name": f"case-{seed}", "seed": seed, "device": device, "tc": policy.lines, "changes": changes, "stream": streams,
             "parity": meant(policy), "details": d.chance(25)}
    if by_chance and BY_CHANCE.keys() & kinds:
        drawn["random"] = True
    if kinds & {"cake", "cake_mq"}:
        drawn["hashed"] = True
    return drawn
