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

from thalweg.errors import NumericalError
from thalweg.parallel.layout import even_starts
from thalweg.parallel.traffic import count_messages


def sum_over_ranks(comm: MPI.Comm, values: float | np.ndarray) -> float | np.ndarray:
    """Sum of a float, or of a small array, over the ranks.  Collective.

    The partial sums are added exactly (``math.fsum``) in float64, so that the
    order of the ranks does not matter; infinities and NaN add up as usual.
    """
    if not isinstance(values, np.ndarray):
        return exact_sum(_of_each_rank(comm, values))
    array = np.ascontiguousarray(values, dtype=float)
    if comm.size == 1:
        return array.copy()
    count_messages(array.nbytes)
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


def sum_large(comm: MPI.Comm, array: np.ndarray, step: int = 2**28) -> np.ndarray:
    """Sum of a large array over the ranks, in place, the same bits on every rank.  Collective.

    Each rank sums a part, and all gather the parts: a rank sends 2 (1 - 1/P) times the array.

    Parameters
    ----------
    array
        C-contiguous, of the same shape on all ranks.
    step
        Numbers in one message: MPI counts below 2**31.
    """
    if comm.size > 1:
        if not array.flags.c_contiguous:
            raise ValueError("the array must be C-contiguous")
        count_messages(2 * array.nbytes * (comm.size - 1) // comm.size, 2 * (comm.size - 1))
        numbers = array.reshape(-1)
        for first in range(0, array.size, step):
            part = numbers[first : first + step]
            starts = even_starts(len(part), comm.size)
            counts = np.diff(starts)
            own = np.empty(counts[comm.rank], part.dtype)
            comm.Reduce_scatter(part, own, counts.tolist(), op=MPI.SUM)
            comm.Allgatherv(own, [part, (counts, starts[:-1])])
    return array


def max_over_ranks(comm: MPI.Comm, value: float) -> float:
    """Largest value over the ranks; NaN on any rank gives NaN.  Collective."""
    return float(np.max(_of_each_rank(comm, value)))


def min_over_ranks(comm: MPI.Comm, value: float) -> float:
    """Smallest value over the ranks; NaN on any rank gives NaN.  Collective."""
    return float(np.min(_of_each_rank(comm, value)))


def _of_each_rank(comm: MPI.Comm, value: float) -> np.ndarray:
    found = np.empty(comm.size)
    comm.Allgather(np.array([value], dtype=float), found)
    return found


def same_on_all_ranks(comm: MPI.Comm, values: Sequence[float], what: str) -> list[float]:
    """Numbers that every rank computed for itself, as rank 0 has them.  Collective.

    Parameters
    ----------
    values
        As many on each rank.
    what
        Name of the values, for the error's text.

    Raises
    ------
    NumericalError
        On all ranks, where one differs from rank 0's by more than 1e-9 of it, or is NaN or
        infinite where rank 0's is not: the ranks would go different ways.
    """
    mine = np.array(values, dtype=float)
    if comm.size == 1:
        return mine.tolist()
    found = np.empty((comm.size, len(mine)))
    comm.Allgather(mine, found)
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
    found = np.array([bool(flag)], dtype=np.int32)
    comm.Allreduce(MPI.IN_PLACE, found, op=MPI.MAX)
    return bool(found[0])


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
        count = int(sum_over_ranks(comm, np.count_nonzero(smaller)))
        if n < count:
            left, high = left[smaller], middle
        else:
            left, low, n = left[~smaller], middle + 1, n - count
    return np.array([low]).view(values.dtype)[0].item()  # type: ignore[no-any-return]
