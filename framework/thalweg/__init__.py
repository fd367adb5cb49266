"""Optimization of problems whose curvature has structure, on one rank or many.

>>> import thalweg
>>> result = thalweg.minimize(objective, solver="lbfgs", preconditioner="spectral")

Names are imported when first used, so that ``thalweg --help`` stays quick.
"""

import os
from typing import TYPE_CHECKING, Any

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg.data import Dataset
    from thalweg.driver import HomotopySchedule, Stop
    from thalweg.driver.minimize import minimize
    from thalweg.errors import InputError, NumericalError, ThalwegError
    from thalweg.interfaces import Objective, Preconditioner, Solver
    from thalweg.parallel import abort_on_error
    from thalweg.result import Result, Status, Trace
    from thalweg.workbench.run import run

__all__ = [
    "Dataset", "HomotopySchedule", "InputError", "NumericalError", "Objective", "Preconditioner",
    "Result", "Solver", "Status", "Stop", "ThalwegError", "Trace", "abort_on_error",
    "minimize", "run",
]  # fmt: skip

_get, __dir__ = lazy_names(__name__)

# Threads that wait would spin, and where programs share the cores take them from the very threads
# that they wait for.  OpenMP reads this when it is loaded, with MPI or Numba, and OpenBLAS, whose
# threads else spin for some 50 ms after each product, with NumPy: 2^4 cycles are its least.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("thalweg")
    return _get(name)
