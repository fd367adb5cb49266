"""Sums and decisions over the ranks that come out the same on every rank.

``Allreduce`` may round differently from rank to rank on a mixed cluster; a sum
on one rank that is then broadcast cannot, so that no two ranks ever take
different branches on one number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI


def sum_over_ranks(comm: MPI.Comm, values: float | np.ndarray) -> float | np.ndarray:
    """Sum of a float, or of a small array, over the ranks.  Collective.

    The partial sums are added exactly (``math.fsum``) in float64, so that the
    order of the ranks does not matter; infinities and NaN add up as usual.
    """
    if not isinstance(values, np.ndarray):
        return exact_sum(comm.allgather(float(values)))
    array = np.ascontiguousarray(values, dtype=float)
    if comm.size == 1:
        return array.copy()
    parts = np.empty((comm.size, *array.shape))
    comm.Allgather(array, parts)
    total = np.empty(array.size)
    for index, column in enumerate(parts.reshape(comm.size, -1).T):
        total[index] = exact_sum(column)
    return total.reshape(array.shape)


def exact_sum(terms: Sequence[float] | np.ndarray) -> float:
    """``math.fsum``, but infinite or NaN where that raises."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        with np.errstate(all="ignore"):
            return float(np.sum(terms))


def sum_large(comm: MPI.Comm, array: np.ndarray) -> np.ndarray:
    """Sum of a large array over the ranks, in place, the same bits on every rank.  Collective."""
    if comm.size > 1:
        if comm.rank == 0:
            comm.Reduce(MPI.IN_PLACE, array, op=MPI.SUM, root=0)
        else:
            comm.Reduce(array, None, op=MPI.SUM, root=0)
        comm.Bcast(array, root=0)
    return array


def max_over_ranks(comm: MPI.Comm, value: float) -> float:
    """Largest value over the ranks; NaN on any rank gives NaN.  Collective."""
    return float(np.max(comm.allgather(float(value))))


def min_over_ranks(comm: MPI.Comm, value: float) -> float:
    """Smallest value over the ranks; NaN on any rank gives NaN.  Collective."""
    return float(np.min(comm.allgather(float(value))))


def any_over_ranks(comm: MPI.Comm, flag: bool) -> bool:
    """Whether the flag is set on any rank.  Collective."""
    return bool(comm.allreduce(bool(flag), op=MPI.LOR))
