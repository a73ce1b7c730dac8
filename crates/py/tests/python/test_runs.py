"""Runs that somebody watches, stops or hides: progress, signals, threads."""

from __future__ import annotations

import io
import os
import pty
import random
import select
import signal
import subprocess
import sys
import threading
import time
import types

import pytest
import txweir
from txweir import _progress

HOUR = {"duration": "3600s"}


def test_progress_is_told_in_order(uplink: txweir.Scenario) -> None:
    told: list[tuple[int, int]] = []
    uplink.with_(duration="20s").run(progress=lambda done, whole: told.append((done, whole)))
    assert told and told == sorted(told) and told[-1] == (20_000_000_000, 20_000_000_000)
    trial: list[tuple[int, int]] = []
    txweir.try_(link="20mbit", time="1s", runs=2, progress=lambda done, whole: trial.append((done, whole)))
    assert trial == sorted(trial) and trial[-1] == (2_000_000_000, 2_000_000_000)


def test_an_exception_of_the_caller_ends_a_run(uplink: txweir.Scenario) -> None:
    class Enough(Exception):
        pass

    def look(done: int, whole: int) -> None:
        raise Enough

    begun = time.monotonic()
    with pytest.raises(Enough):
        uplink.with_(HOUR).run(progress=look)
    with pytest.raises(Enough):
        txweir.try_(time="3600s", progress=look)
    assert time.monotonic() - begun < 20


PROGRAM = """
import sys, txweir
scenario = txweir.Scenario.from_text(sys.stdin.read()).with_(duration="3600s")
print("begins", flush=True)
try:
    {work}
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.parametrize(
    "work",
    [
        "scenario.run()",
        "txweir.try_(time='3600s', link='100mbit')",
        "txweir.sweep(scenario, dict(seed=[1, 2, 3]))",
    ],
)
def test_control_c_stops_a_run(uplink: txweir.Scenario, work: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(work=work)]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        child.stdin.write(uplink.text)
        child.stdin.close()
        child.stdin = None
        assert child.stdout.readline() == "begins\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        assert (out, err, child.returncode) == ("stopped\n", "", 0)


def test_other_threads_go_on_during_a_run(uplink: txweir.Scenario) -> None:
    counted, stop = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        uplink.with_(duration="30s").run(progress=False)
    finally:
        stop.set()
        thread.join()
    assert counted > 20


def test_nobody_watches_without_a_terminal(
    uplink: txweir.Scenario, capfd: pytest.CaptureFixture[str]
) -> None:
    uplink.with_(duration="60s").run()
    assert capfd.readouterr() == ("", "")
    assert _progress.shown(True) is None and _progress.shown(False) is None


def test_a_program_without_an_output_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in [None, closed, types.SimpleNamespace(write=lambda text: None)]:
        monkeypatch.setattr(sys, "stdout", stream)
        assert _progress.shown(True) is None
    monkeypatch.undo()


def test_a_terminal_has_a_line_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import sys, txweir
from txweir import _progress
_progress.QUIET_S = 0.0
txweir.Scenario.from_text(open(sys.argv[1]).read()).with_(duration="60s").run()
print("ends")
"""
    from conftest import UPLINK

    own, theirs = pty.openpty()
    path = f"/proc/self/fd/{os.memfd_create('scenario')}"
    with open(path, "w") as file:
        file.write(UPLINK)
    fd = int(path.rsplit("/", 1)[1])
    child = subprocess.Popen(
        [sys.executable, "-c", code, f"/proc/self/fd/{fd}"],
        stdout=theirs,
        stderr=theirs,
        stdin=theirs,
        pass_fds=[fd],
    )
    os.close(theirs)
    said = b""
    while select.select([own], [], [], 30)[0]:
        try:
            read = os.read(own, 65536)
        except OSError:
            break
        if not read:
            break
        said += read
    assert child.wait() == 0
    os.close(own)
    text = said.decode()
    assert "█" in text and "s left" in text and text.endswith("\r\x1b[Kends\r\n"), text[-200:]


def test_the_line_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now)
    to = io.StringIO()
    line = _progress._Line(to)
    now = 100.5
    line(10, 100)
    line.end()
    assert to.getvalue() == "", "a short run shows nothing"
    now = 102.0
    line(25, 100)
    assert to.getvalue() == f"\r{'█' * 10}{'░' * 30}  25%  6 s left\x1b[K"


def test_a_notebook_has_a_bar_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        def update(self, html: str) -> None:
            shown.append(html)

    def display(html: str, display_id: bool) -> Handle:
        shown.append(html)
        return Handle()

    shell, page = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    vars(shell).update(get_ipython=ZMQInteractiveShell)
    vars(page).update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    monkeypatch.setattr(_progress, "QUIET_S", -1.0)
    bar = _progress.shown(True)
    assert isinstance(bar, _progress._Cell)
    bar(1, 4)
    bar(3, 4)
    assert [html.split(">")[0] for html in shown] == [
        '<progress max="1" value="0.250"',
        '<progress max="1" value="0.750"',
    ]
    bar.end()
    assert shown[2:] == [""]


def test_no_text_is_a_fault() -> None:
    """Whatever a text is, it is read or refused: no panic comes through."""
    from conftest import UPLINK

    words = (
        UPLINK.split()
        + FAIR.split()
        + ["\0", "é", "1e999", "-1", "{", "]]", "0x", "%", "@", "1..2", "9" * 40]
    )
    dice = random.Random(7)
    for _ in range(300):
        text = " ".join(dice.choice(words) for _ in range(dice.randrange(30)))
        cut = UPLINK[: dice.randrange(len(UPLINK))] + text
        for call in (
            lambda: txweir.check(text),
            lambda: txweir.explain(text, link="10mbit"),
            lambda: txweir.Scenario.from_text(cut),
            lambda: txweir.try_(text or "x", time="100ms", runs=1, link="1mbit"),
            lambda: txweir.try_(link=text),
            lambda: txweir.try_(dscp=text or "x"),
        ):
            try:
                call()
            except txweir.Error as error:
                assert "a fault" not in str(error)


FAIR = "qdisc add root handle 1: tbf rate 19mbit burst 16kb latency 300ms parent 1:1 fq_codel limit cake htb class classid filter"
