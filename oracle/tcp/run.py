"""Plays one run of TCP in the reference kernel: the folder that it is booted in, and what comes out of it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import kernel  # noqa: E402

# Set in each namespace. Buffers never limit a transfer; the veth's backlog never drops; no connection knows an earlier one.
SYSCTLS = {
    "core/netdev_max_backlog": "1000000",
    "ipv4/tcp_wmem": "4096 16384 67108864",
    "ipv4/tcp_rmem": "4096 131072 67108864",
    "ipv4/tcp_mem": "400000 400000 400000",
    "ipv4/tcp_no_metrics_save": "1",
}
# Of the whole kernel, hence in its first namespace only.
GLOBAL = {"core/netdev_max_backlog", "ipv4/tcp_mem"}
MEMORY = "mem=1536M"
MACS = {"s": "02:00:00:00:00:01", "rs": "02:00:00:00:00:02", "rd": "02:00:00:00:00:03", "d": "02:00:00:00:00:04"}


def program():
    """The compiled traffic program: beside the kernel, made again whenever a source is newer."""
    sources = [f"{HERE}/{name}" for name in ("traffic.c", "capture.c", "wire.c")]
    path = os.path.join(os.path.dirname(kernel.binary()), "traffic")
    newest = max(os.path.getmtime(f) for f in [*sources, f"{HERE}/traffic.h"])
    if not os.path.exists(path) or os.path.getmtime(path) < newest:
        fresh = f"{path}.{os.getpid()}"
        subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-o", fresh, *sources], check=True)
        os.rename(fresh, path)
    return path


def devices(topology):
    """The four devices of a topology, in the order of the way: name and namespace."""
    return {
        "router": ["s0", "r0", "v0", "d0"],
        "local": ["v0", "r0", "r1", "d0"],
        "wire": ["s0", "r0", "r1", "d0"],
    }[topology]


def setup(run):
    """The shell script that makes namespaces, devices, addresses and neighbours."""
    s0, r0, r1, d0 = devices(run["topology"])
    lines = ["ip -batch - <<'E'", "netns add s", "netns add r", "netns add d",
             f"link add {s0} netns s address {MACS['s']} type veth peer name {r0} netns r address {MACS['rs']}",
             f"link add {r1} netns r address {MACS['rd']} type veth peer name {d0} netns d address {MACS['d']}", "E"]
    peers = {"s": [s0], "r": [r0, r1], "d": [d0]}
    wire = run["topology"] == "wire"
    for ns, names in peers.items():
        lines.append(f"ip -n {ns} -batch - <<'E'")
        lines += [f"link set {name} up" for name in names]
        if wire and ns != "r":
            lines.append(f"addr add 10.0.0.{1 if ns == 's' else 2}/24 dev {names[0]}")
            there, mac = ("10.0.0.2", MACS["d"]) if ns == "s" else ("10.0.0.1", MACS["s"])
            lines.append(f"neigh add {there} lladdr {mac} dev {names[0]} nud permanent")
        elif ns == "s":
            lines += [f"addr add 10.0.1.1/24 dev {s0}", "route add default via 10.0.1.2",
                      f"neigh add 10.0.1.2 lladdr {MACS['rs']} dev {s0} nud permanent"]
            if run["topology"] == "local":
                lines += ["link add m0 type dummy", "link set m0 up"]
        elif ns == "d":
            lines += [f"addr add 10.0.2.2/24 dev {d0}", "route add default via 10.0.2.1",
                      f"neigh add 10.0.2.1 lladdr {MACS['rd']} dev {d0} nud permanent"]
        elif not wire:
            lines += [f"addr add 10.0.1.2/24 dev {r0}", f"addr add 10.0.2.1/24 dev {r1}",
                      f"neigh add 10.0.1.1 lladdr {MACS['s']} dev {r0} nud permanent",
                      f"neigh add 10.0.2.2 lladdr {MACS['d']} dev {r1} nud permanent"]
        lines.append("E")
    return "\n".join(lines) + "\n"


def owner(run):
    return "s" if run["topology"] == "local" else "r"


def policy(run):
    """The script that runs 100 ms before time 0."""
    if run["topology"] == "wire":
        return "true\n"
    lines = ["set -e", f"tc -n d qdisc add dev d0 root handle 1: netem delay {run['rtt_ns'] // 1000}us limit 1000000",
             f"tc -n {owner(run)} -batch - <<'E'", *run["tc"], "E"]
    if run["topology"] == "local":
        # The qdisc's arrivals can only be seen from ahead of it.
        lines += ["tc -n s -batch - <<'E'", "qdisc add dev v0 clsact",
                  "filter add dev v0 egress protocol ip matchall action mirred egress mirror dev m0", "E"]
    return "\n".join(lines) + "\n"


def show(run):
    if run["topology"] == "wire":
        return "true\n"
    return "".join(f"tc -n {owner(run)} -s -j {what} show dev v0 >/run/job/{what}.json\n" for what in ("qdisc", "class"))


def plan(run):
    """The lines that the traffic program reads."""
    wire = run["topology"] == "wire"
    lines = []
    for ns in "srd":
        for key, value in SYSCTLS.items():
            if key not in GLOBAL:
                lines.append(f"sysctl {ns} {key} {value}")
        lines.append(f"sysctl {ns} ipv4/tcp_ecn {1 if run['ecn'] else 0}")
        for key, value in run.get("sysctls", {}).items():
            lines.append(f"sysctl {ns} {key} {value}")
    if not wire:
        lines.append("sysctl r ipv4/ip_forward 1")
    mode = "plain" if wire else "units" if run["units"] else "packets"
    lines += [f"offload {ns} {name} {mode}" for ns, name in zip("srrd", devices(run["topology"]))]
    if wire:
        lines.append("receiver 10.0.0.2")
        lines.append(f"wire {run['rate']} {run['delay_ns']} {run['delay_back_ns']}")
        lines += ["act " + " ".join(str(x) for x in [*act, 0, 0][:4]) for act in run["acts"]]
    else:
        front = ("s", "m0") if run["topology"] == "local" else ("r", "r0")
        lines += [f"capture 0 {front[0]} {front[1]}", "capture 1 d d0", "drain 50000000"]
        lines.append(f"sample {run['duration_ns'] // 100} 64")
    for flow in run["flows"]:
        a, b, gap, count = (*flow.get("size", []), 0, 0, 0, 0)[:4]
        lines.append(f"flow {flow['cc']} {flow['start_ns']} {flow['app']} {a} {b} {gap} {count}")
    for number, flow in enumerate(run["flows"]):
        lines += [f"write {number} {at} {n}" for at, n in flow.get("writes", [])]
        if "finish_ns" in flow:
            lines.append(f"finish {number} {flow['finish_ns']}")
        lines += [f"hold {number} {a} {b}" for a, b in flow.get("holds", [])]
    lines.append(f"offset {run.get('offset_ns', 0)}")
    lines.append(f"end {run['duration_ns']}")
    return "\n".join(lines) + "\n"


def first(run):
    """The first lines of the set-up: what is set for the whole kernel."""
    return "".join(f"echo {SYSCTLS[key]} >/proc/sys/net/{key}\n" for key in sorted(GLOBAL))


def play(linux, run, seed, seconds, keep=None):
    """Plays `run`; the folder's files, as a dictionary of bytes."""
    with tempfile.TemporaryDirectory(prefix="txweir-tcp-") as folder:
        for name, text in {"setup": first(run) + setup(run), "policy": policy(run), "show": show(run), "run": plan(run)}.items():
            with open(f"{folder}/{name}", "w") as f:
                f.write(text)
        shutil.copy(f"{HERE}/init", f"{folder}/init")
        shutil.copy(program(), f"{folder}/traffic")
        # Relative to the working directory: the command line is stirred into the random numbers.
        words = [MEMORY, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=/proc/self/cwd/init", "con=null",
                 "con0=null,fd:1", "quiet"]
        console = kernel.boot(linux, folder, words, seed, seconds)
        if keep:
            shutil.copytree(folder, keep, dirs_exist_ok=True)
        files = {}
        for name in os.listdir(folder):
            with open(f"{folder}/{name}", "rb") as f:
                files[name] = f.read()
        said = files.get("console", b"").decode(errors="replace").strip()
        if b"over " not in files.get("result", b"") or said:
            raise kernel.Trouble(f"{run['name']}: the kernel gave no result:\n{console.strip()}")
        return files


def shown(files, what):
    text = files.get(f"{what}.json", b"").decode()
    try:
        found = json.loads(text) if text.strip() else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []
