#!/usr/bin/env python3
"""Runs Linux's own tc cases by the real tc: `real.py RUNNER [its arguments]`.

RUNNER is the runner of the cases, which runs `txweir tc`. Here the lines of a case are run by the
system's tc as a program below `txweir as-kernel`, whose kernel is the daemon; links are made by
`txweir link` as before. All arguments behind RUNNER are its own.
"""
import importlib.util
import os
import subprocess
import sys
import time


def load(path):
    spec = importlib.util.spec_from_file_location("tdc", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def real(runner):
    class Real(runner.Suite):
        def start(self):
            self.stop()
            socket = self.env["TXWEIR_SOCKET"]
            self.daemon = subprocess.Popen(
                [self.txweir, "daemon", "--socket", socket, "--netlink"],
                env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(200):
                if os.path.exists(socket + ".netlink") or self.daemon.poll() is not None:
                    break
                time.sleep(0.01)
            for name in ("DUMMY", "DEV0", "DEV1", "DEV2"):
                self.sh(f"$TXWEIR link add {runner.NAMES[name]}")

        def stop(self):
            super().stop()
            for path in (self.env["TXWEIR_SOCKET"] + ".netlink",):
                if os.path.exists(path):
                    os.unlink(path)

        def expand(self, line):
            return super().expand(line.replace("$TC ", "$TXWEIR as-kernel -- tc "))

    return Real


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    runner = load(sys.argv.pop(1))
    runner.Suite = real(runner)
    runner.main()


if __name__ == "__main__":
    main()
