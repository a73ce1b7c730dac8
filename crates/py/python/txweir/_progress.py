"""Progress of long runs: a line in a terminal, a bar in a notebook, a function of the caller."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

Progress = bool | Callable[[int, int], object]
"""``True`` shows progress to a person, if there is one; ``False`` shows none; a function gets the
virtual time that is over and all of it, in nanoseconds."""

QUIET_S = 1.0
"""Seconds of a run that show nothing."""
WIDTH = 40
"""Characters of a bar."""


class Shown(Protocol):
    """A place that shows progress."""

    def __call__(self, done: int, whole: int) -> object: ...

    def end(self) -> None: ...


class _Told:
    """A function of the caller."""

    def __init__(self, function: Callable[[int, int], object]) -> None:
        self._function = function

    def __call__(self, done: int, whole: int) -> object:
        return self._function(done, whole)

    def end(self) -> None:
        pass


class _Timed:
    """A display for a run that takes more than a second; it tells how much longer."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._open = False

    def __call__(self, done: int, whole: int) -> None:
        passed = time.monotonic() - self._begun
        if passed > QUIET_S and done > 0:
            self._open = True
            share = min(done / max(whole, 1), 1.0)
            self._draw(share, f"{share:4.0%}  {passed / share - passed:.0f} s left")

    def end(self) -> None:
        if self._open:
            self._clear()

    def _draw(self, share: float, text: str) -> None:
        raise NotImplementedError

    def _clear(self) -> None:
        raise NotImplementedError


class _Line(_Timed):
    """A line of a terminal, which is gone at the end."""

    def __init__(self, to: TextIO) -> None:
        super().__init__()
        self._to = to

    def _draw(self, share: float, text: str) -> None:
        full = round(share * WIDTH)
        self._to.write(f"\r{'█' * full}{'░' * (WIDTH - full)} {text}\x1b[K")
        self._to.flush()

    def _clear(self) -> None:
        self._to.write("\r\x1b[K")
        self._to.flush()


class _Cell(_Timed):
    """A bar in a notebook's output, which is gone at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None

    def _show(self, html: str) -> None:
        # It has no types, and is there in a notebook only.
        ipython: Any = importlib.import_module("IPython.display")
        if self._handle is None:
            self._handle = ipython.display(ipython.HTML(html), display_id=True)
        else:
            self._handle.update(ipython.HTML(html))

    def _draw(self, share: float, text: str) -> None:
        self._show(f'<progress max="1" value="{share:.3f}"></progress> <small>{text}</small>')

    def _clear(self) -> None:
        self._show("")


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal. A program may have none, a closed one, or an object of
    its own that cannot tell."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):
        return False


def shown(progress: Progress) -> Shown | None:
    """Return the place that shows this progress; ``None`` if nobody watches."""
    if callable(progress):
        return _Told(progress)
    if progress is not True:
        return None
    if _in_notebook():
        return _Cell()
    # A person watches if both are a terminal: what is printed may go into a file.
    if _is_terminal(sys.stdout) and _is_terminal(sys.stderr):
        return _Line(sys.stderr)
    return None
