#!/usr/bin/env python3
# expect: lines=5 warnings=quantum
# options: --link eth0=1gbit
# The constructs of comcast: a program that asks for tc, sets up by subprocess, checks each status,
# and lets iptables choose the class.
import shutil
import subprocess
import sys

DEV = sys.argv[1] if len(sys.argv) > 1 else "eth0"


def run(*words):
    done = subprocess.run(["sudo", *words], capture_output=True, text=True)
    if done.returncode != 0:
        print("failed:", " ".join(words), done.stderr, file=sys.stderr)
        sys.exit(done.returncode)
    return done.stdout


if not shutil.which("tc") or not shutil.which("iptables"):
    sys.exit("no tc or no iptables")
if "netem" in run("tc", "qdisc", "show"):
    sys.exit("there are rules already")
run("tc", "qdisc", "add", "dev", DEV, "handle", "10:", "root", "htb", "default", "1")
run("tc", "class", "add", "dev", DEV, "parent", "10:", "classid", "10:1", "htb", "rate", "1000000kbit")
run("tc", "class", "add", "dev", DEV, "parent", "10:", "classid", "10:10", "htb", "rate", "1000kbit")
run("tc", "qdisc", "add", "dev", DEV, "parent", "10:10", "handle", "100:", "netem", "delay", "250ms", "loss", "10%")
run("iptables", "-A", "POSTROUTING", "-t", "mangle", "-j", "CLASSIFY", "--set-class", "10:10", "-p", "tcp", "--match", "multiport", "--dports", "80,443")
run("tc", "class", "change", "dev", DEV, "parent", "10:", "classid", "10:1", "htb", "rate", "999000kbit")
