"""Inside the reference kernel: plays the jobs of a folder, each a device, tc commands and packets in virtual time.

One process does everything: it sleeps until the next event, sends (AF_PACKET) or runs tc, and at the end reads what arrived at
the peer, which the kernel has stamped (SO_TIMESTAMPNS). The processor's work takes no virtual time; each clock reading of a
process takes 256 ns, the clock's grain. A packet meets the qdisc at exactly the time that was read before it was sent.
"""

import array
import ctypes
import fcntl
import json
import os
import re
import shlex
import socket
import struct
import subprocess
import sys

import frames

# Time 0 of a job is a multiple of 8.192 s: of 1 ms, hence of every tick, and of 2^19 ns, so that clocks in units of 64 ns or
# 1024 ns, as some schedulers have, see the same low bits in every recording. It comes early: some
# 20 s after the boot the kernel has work of its own that shifts the time within a grain.
ALIGN = 8_192_000_000
# Commands of the set-up begin this long before time 0.
LEAD = 100_000_000
# Marks from here on choose a transmit queue.
QUEUE_MARK = 0x5100_0000
# More than any burst needs: the socket's own limits must not drop packets.
SOCKET_BYTES = 1 << 26
SOL_PACKET, PACKET_VNET_HDR, PACKET_AUXDATA = 263, 15, 8
SO_TIMESTAMPNS, SO_TXTIME, SO_MARK, SO_SNDBUFFORCE, SO_RCVBUFFORCE = 35, 61, 36, 32, 33
CLONE_NEWNET, PR_SET_TIMERSLACK, TIMER_ABSTIME = 0x40000000, 29, 1
CLOCKS = {"monotonic": 1, "tai": 11, "realtime": 0}

libc = ctypes.CDLL(None, use_errno=True)


class Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


def now(clock=1):
    t = Timespec()
    libc.clock_gettime(clock, ctypes.byref(t))
    return t.sec * 1_000_000_000 + t.nsec


def sleep_until(t):
    when = Timespec(t // 1_000_000_000, t % 1_000_000_000)
    while libc.clock_nanosleep(1, TIMER_ABSTIME, ctypes.byref(when), None):
        pass


def run(argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def must(argv):
    status, out, err = run(argv)
    if status:
        raise RuntimeError(f"{' '.join(argv)}: status {status}: {err or out}")


def ethtool(device, command, value):
    """One on/off feature by its old ioctl (SIOCETHTOOL)."""
    word = array.array("I", [command, value])
    request = struct.pack("16sP", device.encode(), word.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8946, request)


ETHTOOL = {"tx_checksum": 0x17, "sg": 0x19, "tso": 0x1F, "gso": 0x24}


def make_device(device):
    queues = str(device["queues"])
    counts = ["numtxqueues", queues, "numrxqueues", queues]
    must(["ip", "link", "add", "v0", "address", frames.SENDER, *counts, "type", "veth", "peer", "name", "v1", *counts])
    must(["ip", "link", "set", "v1", "address", frames.PEER, "mtu", "65535"])
    must(["ip", "link", "set", "v0", "mtu", str(device["mtu"]), "txqueuelen", str(device["txqueuelen"])])
    for feature, command in ETHTOOL.items():
        if feature in device:
            ethtool("v0", command, 1 if device[feature] else 0)
    for name in ["v1", "v0", "lo"]:
        must(["ip", "link", "set", name, "up"])


def senders(flags):
    """A sending socket: `flags` says whether it writes super-packets, and with which clock launch times."""
    gso, clock = flags
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    s.bind(("v0", 0))
    s.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES)
    if gso:
        s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    if clock:
        deadline = 1 if clock.endswith("-deadline") else 0
        s.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", CLOCKS[clock.split("-")[0]], deadline))
    return s


class Player:
    def __init__(self, job):
        self.job = job
        tools = job.get("tools") or {"tc": ["tc"]}
        self.tc_words = tools["tc"]
        if "lib" in tools:
            os.environ["TC_LIB_DIR"] = tools["lib"]
        self.result = {"linux": os.uname().release, "commands": [], "sends": [], "shows": []}
        self.sockets = {}
        self.options = {}
        self.marks = {}

    def play(self):
        libc.unshare(CLONE_NEWNET)
        make_device(self.job["device"])
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        receiver.bind(("v1", 3))
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES)
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        receiver.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        # The offset between the two clocks: three readings one grain apart.
        before, real, after = now(1), now(0), now(1)
        self.real = real - (before + after) // 2
        self.zero = (now() + LEAD) // ALIGN * ALIGN + ALIGN
        self.choose_queues()
        sleep_until(self.zero - LEAD)
        for line in self.job["setup"]:
            self.tc(line)
        stamp = scheduled = None
        for index, event in enumerate(self.job["events"]):
            if event["at"] != scheduled or event["do"] != "send":
                sleep_until(self.zero + event["at"])
                # One reading for all packets of one instant: they arrive at once.
                stamp = now()
            elif self.job.get("apart"):
                stamp = now()
            scheduled = event["at"] if event["do"] == "send" else None
            if event["do"] == "send":
                self.send(event, stamp)
            elif event["do"] == "tc":
                self.tc(event["tc"])
            else:
                self.show()
        sleep_until(self.zero + self.job["end"])
        self.show()
        self.result["departures"] = self.receive(receiver)
        return self.result

    def choose_queues(self):
        """Nothing tells the kernel a packet's queue from outside but a filter in front of the queues: by the mark, which it takes away."""
        queues = {event["packet"].get("queue", 0) for event in self.job["events"] if event["do"] == "send"} - {0}
        # Queue 0 has its filter too: without one the kernel chooses by a hash.
        self.marks = {queue: QUEUE_MARK + queue for queue in queues | {0}} if queues else {}
        if self.marks:
            must(["tc", "qdisc", "add", "dev", "v0", "clsact"])
        for queue, mark in self.marks.items():
            must(["tc", "filter", "add", "dev", "v0", "egress", "protocol", "all", "prio", "1", "handle", str(mark), "fw",
                  "action", "skbedit", "queue_mapping", str(queue), "mark", "0"])

    def tc(self, line):
        at = now() - self.zero
        status, out, err = run([*self.tc_words, *shlex.split(line)])
        done = now() - self.zero
        self.result["commands"].append({"at": at, "done": done, "tc": line, "status": status, "says": err or out})

    def show(self):
        at = now() - self.zero
        show = {"at": at}
        for what in ["qdisc", "class"]:
            detail = ["-s", "-d"] if self.job["details"] else ["-s"]
            command = [what, "show", "dev", "v0"]
            # A newer tc prints classes in another form: they are listed by the system's, as for all kinds.
            words = self.tc_words if what == "qdisc" else ["tc"]
            status, out, err = run([*words, *detail, "-j", *command])
            try:
                show[what] = json.loads(out) if out.strip() else []
            except ValueError:
                show[what] = out
            if not isinstance(show[what], list):
                # Some kinds of class, and multiq, are text although JSON was asked for.
                del show[what]
            show[what + "_text"] = run([*words, *detail, *command])[1]
            if what == "class" and self.job.get("tools"):
                # dualpi2 lists two classes without a number (PARITY.md, dualpi2-classes).
                if what in show:
                    show[what] = [c for c in show[what] if not c["handle"].endswith(":")]
                blocks = re.split(r"^(?=class )", show["class_text"], flags=re.M)
                show["class_text"] = "".join(c for c in blocks if not re.match(r"class \S+ \S*: ", c))
            if self.marks and what == "qdisc":
                if what in show:
                    show[what] = [q for q in show[what] if q["kind"] != "clsact"]
                blocks = re.split(r"^(?=qdisc )", show["qdisc_text"], flags=re.M)
                show["qdisc_text"] = "".join(q for q in blocks if not q.startswith("qdisc clsact "))
        show["done"] = now() - self.zero
        self.result["shows"].append(show)

    def send(self, event, stamp):
        packet = event["packet"]
        clock = packet.get("txtime_clock", "monotonic") if "txtime" in event else None
        flags = (bool(packet.get("gso")), clock)
        if flags not in self.sockets:
            self.sockets[flags] = senders(flags)
        s = self.sockets[flags]
        mark = self.marks[packet.get("queue", 0)] if self.marks else packet.get("mark", 0)
        options = (packet.get("priority", 0), mark)
        if self.options.get(flags, (0, 0)) != options:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, struct.pack("I", options[0]))
            s.setsockopt(socket.SOL_SOCKET, SO_MARK, struct.pack("I", options[1]))
            self.options[flags] = options
        frame, header = frames.build(packet, event["seq"], event["size"], event)
        control = []
        if clock:
            base = self.zero if clock.startswith("monotonic") else self.zero + self.real
            control = [(socket.SOL_SOCKET, SO_TXTIME, struct.pack("Q", max(0, base + event["txtime"])))]
        ethertype = struct.unpack_from("!H", frame, 12)[0]
        self.result["sends"].append(stamp - self.zero)
        try:
            s.sendmsg([header, frame] if packet.get("gso") else [frame], control, 0, ("v0", ethertype))
        except OSError as e:
            # ENOBUFS is how a drop by the qdisc is told to this socket: the packet's absence says so as well.
            if e.errno != 105:
                raise RuntimeError(f"packet {event['seq']}: {e}") from e

    def receive(self, receiver):
        receiver.setblocking(False)
        got = []
        while True:
            try:
                data, control, _, address = receiver.recvmsg(1 << 17, 256)
            except BlockingIOError:
                return got
            seq = frames.sequence(data)
            if address[2] == 4 or seq is None:  # PACKET_OUTGOING, or a packet of somebody else
                continue
            stamp, tag = None, None
            for level, kind, value in control:
                if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                    sec, nsec = struct.unpack("qq", value)
                    stamp = sec * 1_000_000_000 + nsec - self.real - self.zero
                elif level == SOL_PACKET and kind == PACKET_AUXDATA:
                    status, _, _, _, _, tci, _ = struct.unpack("IIIHHHH", value)
                    tag = tci if status & 16 else None
            length = len(data) + (0 if tag is None else 4)
            got.append([stamp, seq, length, frames.ds(data)])


def main():
    sys.stdout.reconfigure(line_buffering=True)
    libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    folder = sys.argv[1]
    with open(f"{folder}/jobs.json") as f:
        jobs = json.load(f)
    for index, job in enumerate(jobs):
        # A process per job: its end removes the job's sockets and its network namespace.
        pid = os.fork()
        if pid == 0:
            try:
                result = Player(job).play()
            except Exception as e:  # noqa: BLE001 - whatever it is, the host is to read it
                result = {"error": f"{type(e).__name__}: {e}"}
            with open(f"{folder}/result-{index}.json.new", "w") as f:
                json.dump(result, f)
            os.rename(f"{folder}/result-{index}.json.new", f"{folder}/result-{index}.json")
            os._exit(0)
        os.waitpid(pid, 0)


main()
