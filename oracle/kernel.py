"""Boots the reference kernel and plays jobs in it."""

import json
import os
import subprocess
import tempfile

HOME = os.path.dirname(os.path.abspath(__file__))
BOOT_SECONDS_MAX = 120


class Trouble(Exception):
    """The kernel, or something it ran, failed: in words."""


# The kernels that oracle/build builds. The first is the one that txweir equals; a later one has tc of its own time beside it.
DEFAULT = "6.12"
KERNELS = (DEFAULT, "7.2")


def binary(given=None, version=DEFAULT):
    """The kernel to use: the one given, ORACLE_LINUX for the default version, or the cached build."""
    path = given or (os.environ.get("ORACLE_LINUX") if version == DEFAULT else None)
    if not path:
        command = [f"{HOME}/build", "--kernel", version, "--path"]
        path = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip()
        if not path or not os.access(path, os.X_OK):
            hint = " (or set ORACLE_LINUX)" if version == DEFAULT else ""
            raise Trouble(f"no reference kernel at {path or 'its place'}: run oracle/build --kernel {version}{hint}")
    if not os.access(path, os.X_OK):
        raise Trouble(f"{path} is not an executable kernel")
    return os.path.abspath(path)


def tools(linux):
    """How to call the tc that lies beside a kernel: {"tc": [words], "lib": folder of netem's distributions}; None without one."""
    folder = os.path.join(os.path.dirname(linux), "tools")
    if not os.path.exists(f"{folder}/tc"):
        return None
    loader = next(name for name in sorted(os.listdir(folder)) if name.startswith("ld-linux"))
    return {"tc": [f"{folder}/{loader}", "--library-path", folder, f"{folder}/tc"], "lib": folder}


def put_tc(linux, folder):
    """Puts a command `tc` that calls the tc beside a kernel into `folder`/bin, if there is one; the folder is /run/job in a guest."""
    beside = tools(linux)
    if beside:
        os.mkdir(f"{folder}/bin")
        with open(f"{folder}/bin/tc", "w") as f:
            f.write("#!/bin/sh\nexport TC_LIB_DIR='{}'\nexec {} \"$@\"\n".format(beside["lib"], " ".join(f"'{w}'" for w in beside["tc"])))
        os.chmod(f"{folder}/bin/tc", 0o755)


def arguments(words):
    """The words of a command that records files: (true if it only compares, the files, the version of the kernel)."""
    check, version, paths = False, DEFAULT, []
    words = iter(words)
    for word in words:
        if word == "--check":
            check = True
        elif word == "--kernel":
            version = next(words, None)
            if version not in KERNELS:
                raise Trouble(f"--kernel: expected one of {', '.join(KERNELS)}, given {version or 'nothing'}")
        else:
            paths.append(word)
    return check, paths, version


def environment(linux, seed=1):
    """The environment of a boot: the library beside the kernel gives it random numbers and the time of day, and calls of ptrace that
    all processors take."""
    found = {**os.environ, "ORACLE_SEED": str(seed)}
    fixed = os.path.join(os.path.dirname(linux), "fixed.so")
    if os.path.exists(fixed):
        found["LD_PRELOAD"] = fixed
    return found


def boot(linux, folder, words, seed, seconds):
    """Boots `linux` in `folder` with the command line's `words`; what it printed. `seed` is that of its random numbers."""
    command = [linux, "time-travel=inf-cpu", *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment(linux, seed), cwd=folder, timeout=seconds)
        console = done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        console = (e.stdout or b"").decode(errors="replace") + "\n(stopped: it took too long)"
    try:
        with open(f"{folder}/console") as f:
            console += f.read()
    except OSError:
        pass
    return console


def play(linux, jobs, seed):
    """Plays `jobs` in one boot whose random numbers come from `seed`; their results."""
    with tempfile.TemporaryDirectory(prefix="txweir-oracle-") as folder:
        with open(f"{folder}/jobs.json", "w") as f:
            json.dump(jobs, f)
        # The command line is stirred into the kernel's random numbers, so it must not name the job's folder, which is a new one
        # each time: that is the working directory.
        words = ["mem=192M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={HOME}/init", "con=null",
                 "con0=null,fd:1", "quiet", f"ORACLE_HOME={HOME}", "ORACLE_JOB=/proc/self/cwd"]
        console = boot(linux, folder, words, seed, BOOT_SECONDS_MAX + 10 * len(jobs))
        results = []
        for index in range(len(jobs)):
            try:
                with open(f"{folder}/result-{index}.json") as f:
                    results.append(json.load(f))
            except OSError:
                raise Trouble(f"the kernel gave no result of job {index}:\n{console.strip()}") from None
        return results
