"""A scenario with other values, a run for each combination."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed

from txweir import _native
from txweir._error import Error
from txweir._progress import Progress, shown

Value = str | int | float | bool
"""A value of a scenario."""

RUNS_MAX = 10_000
"""Most runs of a sweep: the results of all of them are in memory."""


class _Stopped(Exception):
    """Another run of the sweep has failed, or the caller gives up."""


def _run(scenario: _native.Scenario, values: dict[str, Value]) -> _native.Result:
    """Make one run. A process of its own takes it by its name."""
    return scenario.with_(values).run(progress=False)


class Sweep:
    """The results of a sweep, in the order of its runs: the last place changes fastest."""

    def __init__(
        self,
        places: Sequence[str],
        values: Sequence[Sequence[Value]],
        results: Sequence[_native.Result],
    ) -> None:
        self.places = tuple(places)
        """The places of the scenario."""
        self.values = tuple(tuple(one) for one in values)
        """The values of each run, one of each place."""
        self.results = tuple(results)
        """The result of each run."""

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[tuple[dict[str, Value], _native.Result]]:
        for values, result in zip(self.values, self.results):
            yield dict(zip(self.places, values)), result

    def table(self, name: str = "measurements") -> _native.Table:
        """Return a table of the results of all runs, below each other, behind the number of the run
        and its values."""
        keys: list[tuple[str, str, list[object]]] = [("run", "whole", list(range(len(self))))]
        for place, column in zip(self.places, zip(*self.values)):
            kind, values = _column(column)
            keys.append((place, kind, values))
        tables: list[_native.Table] = [getattr(result, name) for result in self.results]
        return _native.stacked(tables, keys)


def _column(values: Iterable[Value]) -> tuple[str, list[object]]:
    """Return the kind of a column and its values."""
    all_values = list(values)
    if all(isinstance(value, bool) for value in all_values):
        return "flag", list(all_values)
    if any(isinstance(value, (str, bool)) for value in all_values):
        return "text", [str(value) for value in all_values]
    if all(isinstance(value, int) for value in all_values):
        return "whole", list(all_values)
    return "number", [float(value) for value in all_values]


def _refused(key: str, expected: str, given: str) -> Error:
    message = f"sweep: {key}: expected {expected}, given {given}"
    return Error(message, object="sweep", key=key, expected=expected, given=given)


def sweep(
    scenario: _native.Scenario,
    over: Mapping[str, Iterable[Value]],
    *,
    executor: Executor | None = None,
    progress: Progress = True,
) -> Sweep:
    """Run a scenario with each combination of values of some of its places.

    ``over`` has the values of each place, whose keys are those of ``Scenario.with_``. Runs are
    independent; without an executor, threads of this process make them, one for each processor. Any
    executor of ``concurrent.futures`` may make them, such as a pool of processes or Dask's. The
    results do not depend on it. ``progress`` counts runs.
    """
    axes = {place: list(values) for place, values in over.items()}
    for place, values in axes.items():
        if isinstance(over[place], str) or not values:
            raise _refused(place, "a list of values", repr(over[place]))
    number = math.prod(len(values) for values in axes.values())
    if number > RUNS_MAX:
        raise _refused("runs", f"at most {RUNS_MAX}", str(number))
    runs = [list(values) for values in itertools.product(*axes.values())]
    each: list[dict[str, Value]] = [dict(zip(axes, values)) for values in runs]
    # A value that a place does not take is found before the first run.
    for place, values in axes.items():
        for value in values:
            scenario.with_({**each[0], place: value})
    results = (
        _on_threads(scenario, each, progress) if executor is None else _by(executor, scenario, each, progress)
    )
    return Sweep(list(axes), runs, results)


def _on_threads(
    scenario: _native.Scenario, each: Sequence[dict[str, Value]], progress: Progress
) -> list[_native.Result]:
    """Make the runs on threads, which end soon if the caller gives up."""
    stop = threading.Event()

    def look(_done: int, _whole: int) -> None:
        if stop.is_set():
            raise _Stopped

    def run(values: dict[str, Value]) -> _native.Result:
        look(0, 0)
        return scenario.with_(values).run(progress=look)

    with ThreadPoolExecutor(os.cpu_count() or 1, "txweir-sweep") as pool:
        try:
            return _gathered([pool.submit(run, values) for values in each], progress)
        except BaseException:
            stop.set()
            raise


def _by(
    executor: Executor,
    scenario: _native.Scenario,
    each: Sequence[dict[str, Value]],
    progress: Progress,
) -> list[_native.Result]:
    return _gathered([executor.submit(_run, scenario, values) for values in each], progress)


def _gathered(futures: list[Future[_native.Result]], progress: Progress) -> list[_native.Result]:
    """Wait for all runs; after an error no further one begins."""
    display = shown(progress)
    try:
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            if display is not None:
                display(done, len(futures))
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        if display is not None:
            display.end()
