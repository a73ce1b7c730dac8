"""Boots the reference kernel and plays jobs in it."""

import json
import os
import subprocess
import tempfile

HOME = os.path.dirname(os.path.abspath(__file__))
BOOT_SECONDS_MAX = 120


class Trouble(Exception):
    """The kernel, or something it ran, failed: in words."""


def binary(given=None):
    """The kernel to use: the one given, ORACLE_LINUX, or the cached build."""
    path = given or os.environ.get("ORACLE_LINUX")
    if not path:
        path = subprocess.run([f"{HOME}/build", "--path"], stdout=subprocess.PIPE, text=True).stdout.strip()
        if not path or not os.access(path, os.X_OK):
            raise Trouble(f"no reference kernel at {path or 'its place'}: run oracle/build (or set ORACLE_LINUX)")
    if not os.access(path, os.X_OK):
        raise Trouble(f"{path} is not an executable kernel")
    return os.path.abspath(path)


def boot(linux, folder, words, seed, seconds):
    """Boots `linux` in `folder` with the command line's `words`; what it printed. `seed` is that of its random numbers."""
    command = [linux, "time-travel=inf-cpu", *words]
    environment = {**os.environ, "ORACLE_SEED": str(seed)}
    fixed = os.path.join(os.path.dirname(linux), "fixed.so")
    if os.path.exists(fixed):
        environment["LD_PRELOAD"] = fixed
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment, cwd=folder, timeout=seconds)
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
