#!/usr/bin/env python3
# expect: lines=50 refused=1 warnings=unreachable-class
# options: --link eth1=1gbit --ignore quantum
# try: --dev eth1
# The constructs of LibreQoS: one batch file with a tree below each transmit queue, classes by
# hexadecimal numbers, a cake for each circuit, and classes that a program chooses, not a filter.
import os
import subprocess
import tempfile

DEV = "eth1"
QUEUES = len([q for q in os.listdir(f"/sys/class/net/{DEV}/queues") if q.startswith("tx-")])
subprocess.run(["tc", "qdisc", "del", "dev", DEV, "root"], stderr=subprocess.DEVNULL)
lines = [f"qdisc replace dev {DEV} root handle 7fff: mq"]
for queue in range(1, QUEUES + 1):
    major = f"0x{queue:x}"
    lines.append(f"qdisc add dev {DEV} parent 7fff:{major} handle {major}: htb default 2")
    lines.append(f"class add dev {DEV} parent {major}: classid {major}:1 htb rate 1000mbit ceil 1000mbit")
    lines.append(f"class add dev {DEV} parent {major}:1 classid {major}:2 htb rate 100mbit ceil 1000mbit prio 5")
    lines.append(f"qdisc add dev {DEV} parent {major}:2 cake diffserv4")
    for circuit in range(3, 7):
        lines.append(f"class add dev {DEV} parent {major}:1 classid 0x{circuit:x} htb rate 20mbit ceil 50mbit prio 3")
        lines.append(f"qdisc add dev {DEV} parent {major}:{circuit:x} cake diffserv4 rtt 80ms")
with tempfile.NamedTemporaryFile("w", suffix=".batch", delete=False) as file:
    file.write("\n".join(lines) + "\n")
done = subprocess.run(["/sbin/tc", "-f", "-b", file.name], capture_output=True, text=True)
if done.returncode:
    done = subprocess.run(["/sbin/tc", "-b", file.name], capture_output=True, text=True)
print(done.stdout, done.stderr)
