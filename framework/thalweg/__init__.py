"""Optimization of problems whose curvature has structure, on one rank or many.

>>> import thalweg
>>> result = thalweg.minimize(objective, solver="lbfgs", preconditioner="spectral")

Names are imported when first used, so that ``thalweg --help`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg.data import Dataset
    from thalweg.driver import HomotopySchedule, Stop
    from thalweg.driver.minimize import minimize
    from thalweg.errors import InputError, NumericalError, ThalwegError
    from thalweg.interfaces import Objective, Preconditioner, RowObjective, Solver
    from thalweg.job import run
    from thalweg.parallel import abort_on_error
    from thalweg.result import Result, Status, Trace

_WHERE = {
    "Dataset": "data",
    "HomotopySchedule": "driver",
    "InputError": "errors",
    "NumericalError": "errors",
    "Objective": "interfaces",
    "Preconditioner": "interfaces",
    "Result": "result",
    "RowObjective": "interfaces",
    "Solver": "interfaces",
    "Status": "result",
    "Stop": "driver",
    "ThalwegError": "errors",
    "Trace": "result",
    "abort_on_error": "parallel",
    "minimize": "driver",
    "run": "job",
}

__all__ = [
    "Dataset",
    "HomotopySchedule",
    "InputError",
    "NumericalError",
    "Objective",
    "Preconditioner",
    "Result",
    "RowObjective",
    "Solver",
    "Status",
    "Stop",
    "ThalwegError",
    "Trace",
    "abort_on_error",
    "minimize",
    "run",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("thalweg")
    if name not in _WHERE:
        raise AttributeError(f"module 'thalweg' has no attribute {name!r}")
    return getattr(importlib.import_module(f"thalweg.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
