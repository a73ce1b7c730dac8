#!/usr/bin/env python3
# expect: lines=14 refused=3
# try: --dev s1-eth1
# The constructs of mininet's TCLink: pairs of devices, one shell for a line with several commands,
# three kinds of shapers, RED with ECN below each, and the options of a link by text.
import subprocess


def cmd(line):
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def configure(intf, bw, delay, use):
    cmds = [f"tc qdisc show dev {intf}"]
    code, out = cmd(cmds[0])
    if "priomap" not in out and "noqueue" not in out:
        cmd(f"tc qdisc del dev {intf} root")
    if use == "htb":
        yield f"tc qdisc add dev {intf} root handle 5:0 htb default 1"
        yield f"tc class add dev {intf} parent 5:0 classid 5:1 htb rate {bw}Mbit burst 15k"
        parent = "5:1"
    else:
        latency = 100
        yield f"tc qdisc add dev {intf} root handle 5: tbf rate {bw}Mbit burst 15000 latency {latency}ms"
        parent = "5:1"
    yield (f"tc qdisc add dev {intf} parent {parent} handle 6: red limit 1000000 min 30000 max 35000 avpkt 1500 "
           f"burst 20 bandwidth {bw}mbit probability 1 ecn")
    yield f"tc qdisc add dev {intf} parent 6: handle 10: netem delay {delay} limit 2000"


assert cmd("ip link add name s1-eth1 type veth peer name h1-eth0")[0] == 0
for intf, use in (("s1-eth1", "htb"), ("h1-eth0", "tbf")):
    cmd(f"ip link set {intf} up")
    cmd(f"tc qdisc del dev {intf} root")
    for line in configure(intf, 10, "5ms", use):
        code, out = cmd(line)
        if out:
            raise SystemExit(f"*** Error: {line}: {out}")
for intf in ("s1-eth1", "h1-eth0"):
    for number in (20, 40):
        code, out = cmd(f"tc qdisc change dev {intf} parent 6: handle 10: netem delay {number}ms limit 2000; echo $?")
        assert out.strip() == "0", out
code, out = cmd("tc qdisc show dev s1-eth1 | grep -c netem")
assert out.strip() == "1", out
assert cmd("tc qdisc change dev s1-eth1 root handle 5: htb default 2 2>/dev/null")[0] == 2
