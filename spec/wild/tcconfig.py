#!/usr/bin/env python3
# expect: lines=12 refused=2 warnings=quantum,unreachable-class
# The constructs of tcconfig: devices from ip's JSON, errors that are told apart by tc's text, and
# text of show that is parsed by expressions.
import json
import re
import subprocess

DEV = "eth0"


def run(line, ignore=()):
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    if done.returncode != 0 and not any(re.search(text, done.stderr) for text in ignore):
        raise SystemExit(f"{line}: {done.returncode} {done.stderr}")
    return done.stdout


names = [link["ifname"] for link in json.loads(run("ip -j link show"))]
assert DEV in names, names
GONE = ("RTNETLINK answers: No such file or directory", "Cannot find specified qdisc", "Cannot delete qdisc")
run(f"tc qdisc del dev {DEV} root", ignore=GONE)
run(f"tc qdisc del dev {DEV} ingress", ignore=("Cannot find specified qdisc", "RTNETLINK answers: Invalid argument", "Error: "))
if f"ifb0" not in names:
    run("modprobe ifb numifbs=1")
run("ip link set dev ifb0 up")
run(f"tc qdisc add dev {DEV} ingress")
run(f"tc filter add dev {DEV} parent ffff: protocol ip u32 match u32 0 0 flowid 1a1a: action mirred egress redirect dev ifb0")
for dev in (DEV, "ifb0"):
    run(f"tc qdisc add dev {dev} root handle 1a1a: htb default 1")
    run(f"tc class add dev {dev} parent 1a1a: classid 1a1a:1 htb rate 32000000kbit")
    run(f"tc class add dev {dev} parent 1a1a: classid 1a1a:2 htb rate 100Mbit ceil 100Mbit burst 1250KB cburst 1250KB")
    run(f"tc qdisc add dev {dev} parent 1a1a:2 handle 2a2a: netem delay 10ms 1ms loss 0.1%") if dev == DEV else None
run(f"tc filter add dev {DEV} protocol ip parent 1a1a: prio 5 u32 match ip dst 0.0.0.0/0 match ip src 0.0.0.0/0 flowid 1a1a:2")
shown = run(f"tc qdisc show dev {DEV}")
delay = re.search(r"netem [0-9a-f]+: parent 1a1a:2 .*delay ([0-9.]+)ms", shown)
assert delay and float(delay.group(1)) == 10.0, shown
classes = re.findall(r"^class htb (\S+) root", run(f"tc class show dev {DEV}"), re.M)
assert sorted(classes) == ["1a1a:1", "1a1a:2"], classes
