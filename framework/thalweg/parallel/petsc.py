"""The one door to PETSc, imported where something needs it, by any of the ranks.

Import ``PETSc`` from here, never from petsc4py: the first import decides the options that PETSc
starts with.  Its signal handler stays out of the way, so that the driver's own can write a
checkpoint.
"""

import atexit
import ctypes
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from mpi4py import MPI

from thalweg.errors import InputError
from thalweg.parallel.layout import Array, Layout

try:
    import petsc4py
except ImportError as error:
    raise InputError(
        "this needs PETSc, which is not installed (pip install petsc petsc4py, or scripts/setup); "
        "without it take another method"
    ) from error

# PETSc starts on each rank by itself: ranks that never use it need not be there.  Where options
# ask for what it prints of all ranks, they start it together.
_alone = "petsc4py.PETSc" not in sys.modules and not os.environ.get("PETSC_OPTIONS")
petsc4py.init(["thalweg", "-no_signal_handler"], comm=MPI.COMM_SELF if _alone else None)

from petsc4py import PETSc  # noqa: E402


def _make_default(comm: PETSc.Comm) -> None:
    """What others make with PETSc is on all ranks, as ever; its end is not."""
    if _alone:
        PETSc.COMM_WORLD = comm
        PETSc.Sys.setDefaultComm(comm)


_make_default(PETSc.Comm(MPI.COMM_WORLD))
atexit.register(_make_default, PETSc.COMM_SELF)

# Products with several vectors at once go through one matrix product where the vectors happen
# to lie evenly in memory: another run, or a resumed one, then rounds otherwise.
if PETSc.Sys.getVersion() >= (3, 20):
    for _option in ("vec_mdot_use_gemv", "vec_maxpy_use_gemv"):
        if not PETSc.Options().hasName(_option):
            PETSc.Options().setValue(_option, False)
            PETSc.Options().getBool(_option)  # else PETSc warns at the end where none was used

__all__ = [
    "PETSc", "array_of", "fill_vec", "options_prefix", "sizes", "slepc", "temporary_options",
    "unused_options", "vec_over",
]  # fmt: skip

_numbers = itertools.count()

_kept: dict[int, PETSc.Comm] = {}


def slepc() -> Any:
    """SLEPc, or an ImportError.  It asks for PETSc's start, and so for its end, once more."""
    import slepc4py

    slepc4py.init()
    from slepc4py import SLEPc

    atexit.register(_make_default, PETSc.COMM_SELF)
    return SLEPc


def sizes(layout: Layout) -> tuple[int, int]:
    """Numbers of this rank, and of all, of an array that PETSc is to hold.  Collective at first.

    Raises
    ------
    InputError
        There are more than this PETSc counts.
    """
    comm, numbers = layout.comm, layout.size
    largest = int(np.iinfo(PETSc.IntType).max)
    if numbers > largest:
        raise InputError(
            f"{layout.rows:,} x {layout.columns:,} numbers are beyond the {largest:,} that this "
            "PETSc can index; take another method, or a PETSc with --with-64-bit-indices"
        )
    # PETSc's duplicate of a communicator is made anew, by all ranks together, once its last
    # object is gone: where an error's frames keep one on a single rank, the others would wait.
    if comm.py2f() not in _kept:
        _kept[comm.py2f()] = PETSc.Comm(comm).duplicate()
    return layout.local_rows * layout.columns, numbers


def vec_over(layout: Layout, array: Array) -> PETSc.Vec:
    """PETSc's view of this rank's rows, in the same memory.  Collective; the caller destroys it."""
    flat, width = array.reshape(-1), max(1, layout.columns)
    return PETSc.Vec().createWithArray(flat, sizes(layout), width, layout.comm)


def array_of(layout: Layout, vec: PETSc.Vec) -> Array:
    """This rank's rows of what PETSc holds, as a new array."""
    return np.array(vec.getArray(readonly=True)).reshape(layout.shape)


def fill_vec(vec: PETSc.Vec, array: Array) -> None:
    """Overwrite this rank's rows of what PETSc holds."""
    vec.setArray(array.reshape(-1))


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
    known, added = options.getAll(), []  # to ask for a name would count as a use of it
    for name, value in values.items():
        key = prefix + name
        if key not in known:
            options.setValue(key, value)
            added.append(key)
    try:
        yield
    finally:
        for key in added:
            options.delValue(key)


def unused_options(names: Iterable[str]) -> list[str]:
    """Those of these options that nothing on this rank has read since they were set."""
    library, used, unused = ctypes.CDLL(PETSc.__file__), ctypes.c_int(), []
    for name in names:
        library.PetscOptionsUsed(None, name.encode(), ctypes.byref(used))
        if not used.value:
            unused.append(name)
    return unused
