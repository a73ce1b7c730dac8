"""Linux traffic control in virtual time.

``try_`` runs policies side by side, ``check`` finds the mistakes of one, a ``Scenario`` runs hosts,
links and traffic of a file, ``sweep`` runs one with other values. Results are tables that polars,
pandas and pyarrow take without a copy. Nothing here changes the machine or needs root.
"""

from __future__ import annotations

from txweir._error import Error
from txweir._findings import Finding, Wait
from txweir._native import Result, Scenario, Table, Trial, check, explain
from txweir._progress import Progress
from txweir._sweep import Sweep, sweep
from txweir._try import try_

__all__ = [
    "Error",
    "Finding",
    "Progress",
    "Result",
    "Scenario",
    "Sweep",
    "Table",
    "Trial",
    "Wait",
    "check",
    "explain",
    "sweep",
    "try_",
]
