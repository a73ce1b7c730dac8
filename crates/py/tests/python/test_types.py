"""Types: those of the package, of a program that uses it, and of the compiled part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = Path(os.environ["TXWEIR_PACKAGE"])

WRONG = """
import txweir

txweir.try_(link=20)
txweir.try_("default", "fair")
txweir.Scenario.from_text("").run(1)
rows: int = txweir.check("")
"""


def mypy(*words: str, module: str = "mypy") -> tuple[int, str]:
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_program_has_the_types_that_it_uses(tmp_path: Path) -> None:
    options = ["--strict", f"--cache-dir={tmp_path}"]
    status, said = mypy(*options, str(PACKAGE / "txweir"), str(HERE / "example.py"))
    assert status == 0, said
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    status, said = mypy(*options, str(wrong))
    assert status == 1 and [line.split(":")[1] for line in said.splitlines() if ": error" in line] == list(
        "4567"
    ), said


def test_the_stubs_are_those_of_the_library() -> None:
    status, said = mypy("txweir", module="mypy.stubtest")
    assert status == 0, said


def test_the_example_runs() -> None:
    done = subprocess.run([sys.executable, HERE / "example.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("limit\n") and "times lower" in done.stdout, done.stdout
