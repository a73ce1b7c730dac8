"""The matrix of runs: which cells of congestion control, policy, rate, round trip, flows and ECN are recorded.

The cells are drawn with a fixed seed, so that this file and nothing else says what is recorded. `matrix.py` prints the names."""

import random

MS = 1_000_000
SECOND = 1_000_000_000
SEED = 20250101
LEAVES = ["pfifo1000", "pfifo100", "codel", "fq_codel", "pie", "red", "cake", "fq", "tbf"]
CONTROLS = ["reno", "cubic", "bbr", "dctcp"]
# Kinds that mark: for the others ECN changes nothing but bits.
MARKING = {"codel", "fq_codel", "pie", "red", "cake"}
# Draws a pair of leaf and congestion control.
PER_PAIR = 8
# Bytes that a shaper may send at once: three frames.
BURST = 3 * 1514
# Seconds of a run, so that most have at most some 30 000 packets.
SECONDS = {1: 60, 20: 16, 100: 5, 1000: 2}
RATES = [1] * 3 + [20] * 5 + [100] * 4 + [1000]
RTTS = [5, 30, 100]
FLOWS = [1, 2, 8, 64]


def starts(count, first=0, gap=10 * MS):
    """One flow each 10 ms, a little beside the tick."""
    return [first + i * gap + 137_000 + (i * 379_000) % 997_000 for i in range(count)]


def leaf_options(leaf, mbit, flows, ecn):
    """The leaf's words behind its handle."""
    mark = " ecn" if ecn else ""
    if leaf in ("pfifo1000", "pfifo100"):
        return f"pfifo limit {leaf[5:]}"
    if leaf in ("codel", "pie"):
        return leaf + mark
    if leaf == "fq_codel":
        # Many flows get many queues, so that two rarely share one: which do is a matter of a random hash.
        return "fq_codel" + (" flows 16384" if flows > 8 else "") + ("" if ecn else " noecn")
    if leaf == "red":
        # 50 ms of the line; tc takes no longer average than some hundred packets.
        most = min(max(mbit * 125_000 // 20, 30_000), 900_000)
        least = most // 3
        burst = (2 * least + most) // 3000 + 1
        return f"red limit {4 * most} min {least} max {most} avpkt 1000 burst {burst} probability 0.1 bandwidth {mbit}mbit{mark}"
    return leaf


def policy(leaf, shaper, mbit, flows, ecn):
    """The lines for tc."""
    if leaf == "cake":
        return [f"qdisc add dev v0 root handle 1: cake bandwidth {mbit}mbit"]
    if leaf == "tbf":
        limit = max(mbit * 125_000 // 20, 15 * 1514)
        return [f"qdisc add dev v0 root handle 1: tbf rate {mbit}mbit burst {BURST} limit {limit}"]
    options = leaf_options(leaf, mbit, flows, ecn)
    if shaper == "htb":
        return ["qdisc add dev v0 root handle 1: htb default 1",
                f"class add dev v0 parent 1: classid 1:1 htb rate {mbit}mbit burst {BURST} cburst {BURST} quantum 3028",
                f"qdisc add dev v0 parent 1:1 handle 10: {options}"]
    return [f"qdisc add dev v0 root handle 1: tbf rate {mbit}mbit burst {BURST} limit 100000000",
            f"qdisc add dev v0 parent 1:1 handle 10: {options}"]


def cell(leaf, mbit, rtt, flows, ecn, cc, label=None, shaper="tbf", topology="router", units=False, seconds=None, extra=""):
    """One run. `flows` are the flows; `label` is their part of the name."""
    kind = "pfifo" if leaf.startswith("pfifo") else leaf
    shaper = shaper if leaf not in ("cake", "tbf") else "tbf"
    # What a local queue sees are super-packets, whatever the device does behind it.
    units = units or topology == "local"
    name = f"{cc}-{leaf}-{mbit}mbit-{rtt}ms-{label or f'{len(flows)}f'}"
    name += "".join(f"-{word}" for word, on in [("ecn", ecn), ("htb", shaper == "htb"), ("local", topology == "local"),
                                                 ("units", units and topology != "local"), (extra, extra)] if on)
    return {"name": name, "leaf": kind, "topology": topology, "units": units, "ecn": ecn, "rate_bps": mbit * 1_000_000,
            "rtt_ns": rtt * MS, "duration_ns": round((seconds or SECONDS[mbit]) * SECOND),
            "tc": policy(leaf, shaper, mbit, len(flows), ecn), "flows": flows}


def bulk(ccs, first=0):
    return [{"cc": cc, "start_ns": at, "app": "bulk"} for cc, at in zip(ccs, starts(len(ccs), first))]


def drawn_topology(rng, leaf):
    """Where the policy is: in most runs on a router."""
    share = {"fq": 0.5, "pfifo1000": 0.15, "pfifo100": 0.15, "fq_codel": 0.2, "cake": 0.1}.get(leaf, 0)
    return "local" if rng.random() < share else "router"


def bulk_cells(rng):
    """Long flows: each pair of leaf and congestion control, the rest drawn."""
    for leaf in LEAVES:
        for cc in CONTROLS:
            for _ in range(PER_PAIR):
                mbit, rtt, count = rng.choice(RATES), rng.choice(RTTS), rng.choice(FLOWS)
                ecn = rng.random() < (0.9 if cc == "dctcp" else 0.5 if leaf in MARKING else 0.15)
                topology = drawn_topology(rng, leaf)
                # Many flows need longer than two seconds to share a fast line.
                seconds = 3 if mbit == 1000 and (count == 64 or rtt == 100) else None
                yield cell(leaf, mbit, rtt, bulk([cc] * count), ecn, cc, shaper="htb" if rng.random() < 0.3 else "tbf",
                           topology=topology, units=rng.random() < 0.25, seconds=seconds)


def mixed_cells(rng):
    """Two congestion controls on one bottleneck."""
    for pair in (("cubic", "bbr"), ("reno", "cubic"), ("cubic", "dctcp")):
        for leaf in rng.sample(LEAVES, 8):
            count = rng.choice([2, 8])
            ccs = [pair[i % 2] for i in range(count)]
            yield cell(leaf, rng.choice([20, 100]), rng.choice(RTTS), bulk(ccs), pair[1] == "dctcp" or rng.random() < 0.3,
                       "+".join(pair))


def transfer_cells(rng):
    """Transfers of given sizes at given times, beside none to two long flows."""
    for leaf in LEAVES + ["fq_codel", "cake", "pfifo1000"]:
        mbit, rtt, beside = rng.choice([20, 100]), rng.choice(RTTS), rng.choice([0, 1, 2])
        cc = rng.choice(["cubic", "cubic", "reno", "bbr"])
        seconds = {20: 16, 100: 5}[mbit]
        # Sizes from a web page's small parts to a megabyte; together about half of the line.
        flows, at, budget = bulk([cc] * beside), 300 * MS, mbit * 125_000 * seconds // 2
        while budget > 0 and len(flows) < 100 and at < (seconds - 1) * SECOND:
            size = min(round(12_000 * rng.paretovariate(1.1)), 1_000_000)
            flows.append({"cc": cc, "start_ns": at // 1000 * 1000 + 333, "app": "bytes", "size": [size]})
            budget -= size
            at += round(rng.expovariate(1) * SECOND * size / (mbit * 125_000 / 2) * 0.3 + rng.expovariate(1) * 0.03 * SECOND)
        yield cell(leaf, mbit, rtt, flows, rng.random() < 0.4, cc, label=f"{len(flows) - beside}short-{beside}bulk")


def turn_cells(rng):
    """Requests and replies beside long flows."""
    for leaf in LEAVES + ["fq_codel", "cake", "pie", "codel", "red", "fq"]:
        mbit, rtt, beside, turns = rng.choice([1, 20, 20, 100]), rng.choice(RTTS), rng.choice([1, 2, 8]), rng.choice([1, 4])
        cc = rng.choice(["cubic", "cubic", "reno", "bbr", "dctcp"])
        request, reply, pause = rng.choice([100, 1000, 8000]), rng.choice([100, 4000]), rng.choice([0, 20 * MS, 100 * MS])
        flows = bulk([cc] * beside)
        flows += [{"cc": "cubic" if cc == "dctcp" else cc, "start_ns": at, "app": "rr", "size": [request, reply, pause, 0]}
                  for at in starts(turns, 207 * MS)]
        yield cell(leaf, mbit, rtt, flows, cc == "dctcp" or rng.random() < 0.4, cc, label=f"{turns}rr-{beside}bulk",
                   topology="local" if leaf == "fq" and rng.random() < 0.5 else "router")


def threshold_cells(rng):
    """dctcp where queues mark above a fixed delay or length, as it is meant to be used."""
    options = {"codel": "codel ce_threshold 1ms ecn", "fq_codel": "fq_codel ce_threshold 1ms", "fq": "fq ce_threshold 1ms"}
    for leaf in ("codel", "fq_codel", "fq", "red"):
        for count in (1, 8):
            mbit, rtt = rng.choice([20, 100]), rng.choice(RTTS)
            least = max(mbit * 125, 6_000)
            step = (f"red limit {40 * least} min {least} max {least + 1600} avpkt 1500 burst {least // 1500 + 1} probability 1 "
                    f"bandwidth {mbit}mbit ecn")
            run = cell(leaf, mbit, rtt, bulk(["dctcp"] * count), True, "dctcp", extra="step")
            run["tc"][-1] = f"qdisc add dev v0 parent 1:1 handle 10: {options.get(leaf, step)}"
            yield run


def cells():
    """All runs; a cell that is drawn twice is there once."""
    rng = random.Random(SEED)
    found = {}
    for maker in (bulk_cells, mixed_cells, transfer_cells, turn_cells, threshold_cells):
        for run in maker(rng):
            found.setdefault(run["name"], run)
    return list(found.values())


if __name__ == "__main__":
    for run in cells():
        print(run["name"])
