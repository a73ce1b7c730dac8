"""The packet-exact cases: one connection over a wire with given faults. `acts` are what the wire does, see spec/tcp/README.md."""

MS = 1_000_000
SECOND = 1_000_000_000
FULL = 1448
# A socket takes all that a case writes at once, so that its buffer plays no part.
ROOMY = {"ipv4/tcp_wmem": "4096 16777216 67108864"}


def case(name, about, cc, acts=(), writes=((0, 200 * FULL),), fin=None, rate=10_000_000, delay=20 * MS, back=20 * MS, ecn=False,
         seconds=None, offset=300_000, app="script", size=(), holds=(), sysctls=None):
    flow = {"cc": cc, "start_ns": 0, "app": app}
    if size:
        flow["size"] = list(size)
    else:
        flow["writes"] = [list(w) for w in writes]
    if fin is not None:
        flow["finish_ns"] = fin
    if holds:
        flow["holds"] = [list(h) for h in holds]
    return {"name": name, "about": about, "topology": "wire", "leaf": "exact", "ecn": ecn, "rate": rate, "delay_ns": delay,
            "delay_back_ns": back, "acts": [list(a) for a in acts], "flows": [flow], "offset_ns": offset, "units": False,
            "sysctls": {**ROOMY, **(sysctls or {})}, "duration_ns": round((seconds or 2) * SECOND)}


def losses(cc):
    """Losses of data, the same for each congestion control."""
    yield case(f"{cc}-plain", "nothing is lost; slow start, then the line is full", cc, fin=0)
    yield case(f"{cc}-plain-fast", "a line without rate: one window a round trip, doubling", cc, rate=0,
               writes=[(0, 300 * FULL)])
    yield case(f"{cc}-lose-one", "one packet of slow start is lost", cc, [("drop", 30, 30)])
    yield case(f"{cc}-lose-k-k1-k3", "three of one window", cc, [("drop", 40, 41), ("drop", 43, 43)])
    yield case(f"{cc}-lose-burst", "ten in a row", cc, [("drop", 50, 59)], offset=450_000)
    yield case(f"{cc}-lose-first-window", "the fifth of the first ten", cc, [("drop", 5, 5)], offset=120_000)
    yield case(f"{cc}-lose-tail", "the last packet: a loss probe finds it", cc, [("drop", 40, 40)], [(0, 40 * FULL)])
    yield case(f"{cc}-lose-tail-5", "the last five", cc, [("drop", 36, 40)], [(0, 40 * FULL)], offset=700_000)
    yield case(f"{cc}-lose-again", "a packet, and its first retransmission", cc,
               [("drop", 30, 30), ("drop", 56, 60)], offset=510_000)
    yield case(f"{cc}-dark-300ms", "nothing arrives for 300 ms: timeouts", cc, [("dark", 200 * MS, 500 * MS)], seconds=3)
    yield case(f"{cc}-dark-4s", "nothing arrives for 4 s: the timeout doubles", cc, [("dark", 200 * MS, 4200 * MS)], seconds=9)
    yield case(f"{cc}-stall-600ms", "the way stands still for 600 ms: a spurious timeout (F-RTO)", cc,
               [("stall", 200 * MS, 800 * MS)], seconds=3, offset=640_000)
    yield case(f"{cc}-ack-stall-500ms", "ACKs stand still for 500 ms", cc, [("ack-stall", 200 * MS, 700 * MS)], seconds=3)
    yield case(f"{cc}-late-1", "one packet comes behind the next", cc, [("late", 40, 40, 1_500_000)])
    yield case(f"{cc}-late-3", "one packet comes three places late", cc, [("late", 40, 40, 4_000_000)])
    yield case(f"{cc}-late-12", "one packet comes twelve places late", cc, [("late", 40, 40, 15 * MS)])
    yield case(f"{cc}-restart", "600 ms of silence, then more: the window after idle", cc,
               writes=[(0, 60 * FULL), (900 * MS, 60 * FULL)], offset=200_000)
    yield case(f"{cc}-fin", "a small transfer with its end", cc, writes=[(0, 5 * FULL + 100)], fin=0, seconds=1)


def recovery():
    """Rarer things, for one congestion control."""
    many = [("late", k, k, 3 * MS) for k in range(30, 150, 12)]
    yield case("reno-late-often", "every twelfth packet comes two places late", "reno", many)
    yield case("cubic-late-often", "every twelfth packet comes two places late", "cubic", many)
    yield case("cubic-late-30ms", "a packet 30 ms late: retransmitted in vain, DSACK, undo", "cubic",
               [("late", 60, 60, 30 * MS)])
    yield case("reno-late-30ms", "a packet 30 ms late: retransmitted in vain, DSACK, undo", "reno", [("late", 60, 60, 30 * MS)])
    yield case("cubic-twice", "packets come twice", "cubic", [("twice", 20, 22, 200_000), ("twice", 60, 60, 5 * MS)])
    yield case("reno-ack-twice", "ACKs come twice", "reno", [("ack-twice", 10, 14, 300_000)])
    yield case("reno-ack-loss-half", "every second ACK is lost", "reno", [("ack-drop", k, k) for k in range(4, 100, 2)])
    yield case("cubic-ack-loss-most", "of twelve ACKs eleven are lost", "cubic",
               [("ack-drop", k, k + 10) for k in range(6, 120, 12)])
    yield case("reno-ack-loss-window", "all ACKs of a time are lost", "reno", [("ack-dark", 150 * MS, 320 * MS)], seconds=3)
    yield case("cubic-syn-1", "the first SYN is lost", "cubic", [("syn-drop", 1, 1)], [(0, 20 * FULL)], seconds=3)
    yield case("cubic-syn-3", "three SYNs are lost", "cubic", [("syn-drop", 1, 3)], [(0, 20 * FULL)], seconds=10)
    yield case("reno-synack-1", "the first SYN-ACK is lost", "reno", [("synack-drop", 1, 1)], [(0, 20 * FULL)], seconds=3)
    yield case("reno-first-data-lost", "the only packets, lost: probe, then timeout", "reno", [("drop", 1, 2)],
               [(0, FULL)], seconds=3)
    yield case("cubic-all-first-lost", "the whole first window is lost", "cubic", [("drop", 1, 10)], seconds=3)
    yield case("cubic-two-episodes", "two recoveries, 40 packets apart", "cubic", [("drop", 40, 40), ("drop", 110, 112)])
    yield case("reno-every-20th", "every twentieth packet is lost", "reno",
               [("drop", k, k) for k in range(20, 220, 20)], seconds=3)
    yield case("cubic-every-20th", "every twentieth packet is lost", "cubic",
               [("drop", k, k) for k in range(20, 220, 20)], seconds=3)
    yield case("cubic-half-of-window", "every second packet of 30 is lost", "cubic",
               [("drop", k, k) for k in range(50, 80, 2)], seconds=3)
    yield case("reno-lose-and-late", "a loss among reordered packets", "reno",
               [("late", 40, 40, 3 * MS), ("drop", 46, 46), ("late", 52, 52, 3 * MS)])
    yield case("cubic-tail-probe-lost", "the last packet and its probe", "cubic", [("drop", 40, 41)],
               [(0, 40 * FULL)], seconds=3)


def applications():
    """What an application does to the sending and to delayed ACKs."""
    for n in (1, 2, 3, 4, 7):
        yield case(f"reno-segments-{n}", f"{n} segments, no end: delayed ACKs", "reno", writes=[(100 * MS, n * FULL)],
                   seconds=1,
                   offset=100_000 * n)
    yield case("cubic-small-writes", "100 bytes every 7 ms: Nagle", "cubic",
               writes=[(k * 7 * MS, 100) for k in range(1, 60)], seconds=1)
    yield case("cubic-small-writes-slow", "100 bytes every 130 ms", "cubic",
               writes=[(k * 130 * MS, 100) for k in range(1, 15)], seconds=3)
    yield case("reno-rr", "request and reply in turn", "reno", app="rr", size=(300, 2000, 0, 20), seconds=2)
    yield case("reno-rr-paused", "request and reply, 150 ms apart", "reno", app="rr", size=(300, 300, 150 * MS, 12), seconds=4)
    yield case("cubic-rr-large", "requests of 40 segments", "cubic", app="rr", size=(40 * FULL, 100, 0, 8), seconds=2)
    yield case("cubic-rr-large-paused", "requests of 40 segments, 700 ms apart", "cubic", app="rr",
               size=(40 * FULL, 100, 700 * MS, 5), seconds=5)
    yield case("cubic-app-limited", "20 segments every 60 ms: the window does not grow unused", "cubic",
               writes=[(k * 60 * MS, 20 * FULL) for k in range(20)], rate=100_000_000, seconds=2)
    yield case("reno-app-limited", "20 segments every 60 ms: the window does not grow unused", "reno",
               writes=[(k * 60 * MS, 20 * FULL) for k in range(20)], rate=100_000_000, seconds=2)
    yield case("reno-zero-window", "the receiver does not read for 3 s: probes of a closed window", "reno",
               writes=[(0, 200 * FULL)],
               holds=[(50 * MS, 3000 * MS)], rate=100_000_000, seconds=4)
    yield case("reno-receive-window", "the receiver's window grows with what it reads", "reno", writes=[(0, 900 * FULL)],
               rate=200_000_000, seconds=1.5)
    yield case("cubic-last-before-fin", "the last data is lost, the end arrives", "cubic", [("drop", 6, 6)],
               [(0, 5 * FULL + 100)], fin=0, seconds=2)
    yield case("reno-fin-lost", "the end is lost twice", "reno", [("dark", 499 * MS, 900 * MS)],
               [(0, 5 * FULL + 100)], fin=500 * MS, seconds=3)


def controls():
    """What congestion controls do with marks, delay and time."""
    yield case("cubic-hystart-delay", "a full line without loss: slow start ends by delay", "cubic", rate=20_000_000,
               writes=[(0, 700 * FULL)], seconds=1.5)
    yield case("cubic-hystart-train", "a long round trip: slow start ends by the train's length", "cubic",
               rate=50_000_000, delay=50 * MS, back=50 * MS,
               writes=[(0, 1000 * FULL)], seconds=2)
    yield case("reno-slow-start-long", "slow start without end", "reno", rate=50_000_000, delay=50 * MS, back=50 * MS,
               writes=[(0, 700 * FULL)], seconds=2)
    yield case("cubic-growth", "the curve after a loss, short round trips", "cubic", [("drop", 60, 60)],
               rate=20_000_000, delay=5 * MS, back=5 * MS,
               writes=[(0, 1400 * FULL)], seconds=2)
    yield case("cubic-growth-long", "the curve after a loss, long round trips", "cubic", [("drop", 60, 60)],
               rate=20_000_000, delay=40 * MS, back=40 * MS,
               writes=[(0, 1400 * FULL)], seconds=4)
    yield case("reno-growth", "one segment a round trip after a loss", "reno", [("drop", 60, 60)], rate=20_000_000,
               delay=5 * MS, back=5 * MS,
               writes=[(0, 1000 * FULL)], seconds=2)
    for cc in ("reno", "cubic", "dctcp", "bbr"):
        yield case(f"{cc}-mark-one", "one mark", cc, [("mark", 40, 40)], ecn=True)
        yield case(f"{cc}-mark-many", "marks of a window, and a loss", cc, [("mark", 40, 60), ("drop", 90, 90)], ecn=True)
        yield case(f"{cc}-mark-some", "every seventh packet is marked", cc,
                   [("mark", k, k) for k in range(30, 200, 7)], ecn=True, writes=[(0, 300 * FULL)])
    yield case("dctcp-mark-all", "every packet from the thirtieth is marked", "dctcp", [("mark", 30, 2000)], ecn=True,
               writes=[(0, 300 * FULL)])
    yield case("dctcp-plain", "no mark", "dctcp", ecn=True)
    yield case("bbr-startup", "to the full line, drain, and on", "bbr", rate=20_000_000, writes=[(0, 1400 * FULL)], seconds=1.5)
    yield case("bbr-slow-line", "a line of 2 Mbit/s", "bbr", rate=2_000_000, writes=[(0, 300 * FULL)], seconds=3)


def cases():
    """All cases, sorted by file: reno, cubic, dctcp, bbr."""
    found = [c for cc in ("reno", "cubic") for c in losses(cc)]
    few = ("bbr-plain", "bbr-lose-one", "bbr-lose-burst", "bbr-lose-tail", "bbr-dark-300ms", "bbr-restart")
    found += [c for c in losses("bbr") if c["name"] in few]
    found += [*recovery(), *applications(), *controls()]
    names = [c["name"] for c in found]
    assert len(set(names)) == len(names), "two cases have one name"
    return found
