"""Sums and decisions over the ranks that come out the same on every rank.

``Allreduce`` may round differently from rank to rank on a mixed cluster, and from one MPI
library to another.  Here the ranks' numbers are exchanged as they are, and added in a fixed
order, so that no two ranks ever take different branches on one number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar, cast

import numpy as np
from mpi4py import MPI

from thalweg.errors import NumericalError
from thalweg.parallel.traffic import count_messages

T = TypeVar("T")


def values_of_all_ranks(comm: MPI.Comm, values: float | np.ndarray) -> np.ndarray:
    """A number, or a small array, of every rank, in the order of ranks.  Collective.

    Parameters
    ----------
    values
        A float, or an array of the same shape and dtype on all ranks.

    Returns
    -------
    ndarray, shape (comm.size, ...)
    """
    array = isinstance(values, np.ndarray)
    mine = np.ascontiguousarray(values) if array else np.array(values)
    if comm.size == 1:
        return mine[None].copy()
    count_messages(mine.nbytes)
    found = np.empty((comm.size, *mine.shape), mine.dtype)
    comm.Allgather(mine, found)
    return found


def sum_over_ranks(comm: MPI.Comm, values: float | np.ndarray) -> float | np.ndarray:
    """Sum of a float, or of a small array, over the ranks.  Collective.

    The partial sums are added exactly (``math.fsum``) in float64, so that the
    order of the ranks does not matter; infinities and NaN add up as usual.
    """
    if not isinstance(values, np.ndarray):
        return exact_sum(values_of_all_ranks(comm, float(values)).tolist())
    parts = values_of_all_ranks(comm, values.astype(float, copy=False))
    if comm.size == 1:
        return parts[0]
    columns = parts.reshape(comm.size, -1).T.tolist()
    return np.array([exact_sum(column) for column in columns]).reshape(values.shape)


def exact_sum(terms: Sequence[float] | np.ndarray) -> float:
    """``math.fsum``, but infinite or NaN where that raises."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        with np.errstate(all="ignore"):
            return float(np.sum(terms))


def max_over_ranks(comm: MPI.Comm, value: float) -> float:
    """Largest value over the ranks; NaN on any rank gives NaN.  Collective."""
    return float(values_of_all_ranks(comm, float(value)).max())


def min_over_ranks(comm: MPI.Comm, value: float) -> float:
    """Smallest value over the ranks; NaN on any rank gives NaN.  Collective."""
    return float(values_of_all_ranks(comm, float(value)).min())


def agreed(comm: MPI.Comm, value: T) -> T:
    """Rank 0's value, on all ranks, of what every rank computed for itself.  Collective.

    On different processors LAPACK and BLAS give the same input different bits.  What ranks
    decide by such results, and matrices that all ranks are to have alike, are one rank's.
    """
    return value if comm.size == 1 else cast(T, comm.bcast(value))


def same_on_all_ranks(comm: MPI.Comm, values: Sequence[float], what: str) -> list[float]:
    """Numbers that every rank computed for itself, as rank 0 has them.  Collective.

    On all ranks a ``NumericalError``, where one differs from rank 0's by more than 1e-9 of it, or
    is NaN or infinite where rank 0's is not: the ranks would go different ways.
    """
    found = values_of_all_ranks(comm, np.array(values, dtype=float))
    same = np.isclose(found, found[0], rtol=1e-9, atol=0.0, equal_nan=True)
    if not same.all():
        rank = int(np.argmin(same.all(axis=1)))
        place = int(np.argmin(same[rank]))
        first, other = found[[0, rank], place].tolist()
        raise NumericalError(
            f"{what} differs between ranks: {first} on rank 0, {other} on rank {rank}; it must be "
            "reduced over the ranks"
        )
    return found[0].tolist()  # type: ignore[no-any-return]


def any_over_ranks(comm: MPI.Comm, flag: bool) -> bool:
    """Whether the flag is set on any rank.  Collective."""
    return True in values_of_all_ranks(comm, bool(flag)).tolist()


def nth_over_ranks(comm: MPI.Comm, values: np.ndarray, n: int) -> float:
    """The value that has place ``n``, from 0, when all ranks' values ascend.  Collective.

    Parameters
    ----------
    values
        This rank's, of one type on all ranks: int64 or float64, none negative.  No rank needs any.
    n
        Less than the number of all ranks' values.

    Notes
    -----
    Exact, by bisection on the bits, whose order as integers is that of the values: no more than
    63 counts are exchanged, and no values.
    """
    left = values.view(np.int64)
    low, high = 0, 2**63 - 1
    while low < high:
        middle = low + (high - low) // 2
        smaller = left <= middle
        count = int(values_of_all_ranks(comm, np.count_nonzero(smaller)).sum())
        if n < count:
            left, high = left[smaller], middle
        else:
            left, low, n = left[~smaller], middle + 1, n - count
    return np.array([low]).view(values.dtype)[0].item()  # type: ignore[no-any-return]
