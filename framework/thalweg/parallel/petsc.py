"""PETSc, initialized once in the way thalweg needs it.

Import ``PETSc`` from here, never from petsc4py: the first import decides the
options that PETSc starts with.  Its signal handler stays out of the way, so
that the driver's own can write a checkpoint.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import petsc4py
from mpi4py import MPI

petsc4py.init(["thalweg", "-no_signal_handler"])

from petsc4py import PETSc  # noqa: E402

# Products with several vectors at once go through one matrix product where the vectors happen
# to lie evenly in memory: another run, or a resumed one, then rounds otherwise.
if PETSc.Sys.getVersion() >= (3, 20):
    for _option in ("vec_mdot_use_gemv", "vec_maxpy_use_gemv"):
        if not PETSc.Options().hasName(_option):
            PETSc.Options().setValue(_option, False)
            PETSc.Options().getBool(_option)  # else PETSc warns at the end where none was used

__all__ = ["PETSc", "options_prefix", "temporary_options"]

_numbers = itertools.count()

_kept: dict[int, PETSc.Comm] = {}


def keep_inner_communicator(comm: MPI.Comm) -> None:
    """Let PETSc's duplicate of a communicator last.  Collective at first.

    It is made anew, by all ranks together, once its last object is gone: where an error's frames
    keep one on a single rank, the others would wait there.
    """
    if comm.py2f() not in _kept:
        _kept[comm.py2f()] = PETSc.Comm(comm).duplicate()


def options_prefix(purpose: str) -> str:
    """A PETSc options prefix that no other object of this process has.

    Solvers are created collectively and in the same order everywhere, so the
    running number is the same on every rank.
    """
    return f"thalweg_{purpose}_{next(_numbers)}_"


@contextmanager
def temporary_options(prefix: str, values: Mapping[str, object]) -> Iterator[None]:
    """Set ``-<prefix><name> <value>`` for a ``with`` block, and remove them after it.

    A value that the user gave on PETSc's options database under the same key takes precedence.
    """
    options = PETSc.Options()
    added = []
    for name, value in values.items():
        key = prefix + name
        if not options.hasName(key):
            options.setValue(key, value)
            added.append(key)
    try:
        yield
    finally:
        for key in added:
            options.delValue(key)
