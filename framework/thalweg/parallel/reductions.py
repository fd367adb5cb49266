"""Sums and decisions over the ranks that come out the same on every rank.

``Allreduce`` may round differently from rank to rank on a mixed cluster, and from one MPI
library to another.  Here the ranks' numbers are exchanged as they are, and added in a fixed
order, so that no two ranks ever take different branches on one number.
"""

import math
from collections.abc import Sequence
from typing import TypeVar, cast

import numpy as np
from mpi4py import MPI

from thalweg.errors import NumericalError
from thalweg.parallel.traffic import count_messages

T = TypeVar("T")

#: Numbers, received from all ranks together, up to which one message was quicker than two
#: between the ranks of one machine.
_SMALL = 2**15

#: Numbers of a large array that are summed at once: 32 MiB, of which a second copy is made.
_STEP = 2**22


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
    mine = np.ascontiguousarray(values) if isinstance(values, np.ndarray) else np.array(values)
    if comm.size == 1:
        return mine[None].copy()
    count_messages(mine.nbytes)
    every = np.empty((comm.size, *mine.shape), mine.dtype)
    comm.Allgather(mine, every)
    return every


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
    every = values_of_all_ranks(comm, np.array(values, dtype=float))
    same = np.isclose(every, every[0], rtol=1e-9, atol=0.0, equal_nan=True)
    if not same.all():
        rank = int(np.argmin(same.all(axis=1)))
        first, other = every[[0, rank], int(np.argmin(same[rank]))].tolist()
        raise NumericalError(
            f"{what} differs between ranks: {first} on rank 0, {other} on rank {rank}; it must be "
            "reduced over the ranks"
        )
    return every[0].tolist()  # type: ignore[no-any-return]


def any_over_ranks(comm: MPI.Comm, flag: bool) -> bool:
    """Whether the flag is set on any rank.  Collective."""
    return True in values_of_all_ranks(comm, bool(flag)).tolist()


def nth_over_ranks(comm: MPI.Comm, values: np.ndarray, n: int) -> float:
    """The value that has place ``n``, from 0, when all ranks' values ascend.  Collective.

    Exact, by bisection on the bits, whose order as integers is that of the values: no more than
    63 counts are exchanged, and no values.

    Parameters
    ----------
    values
        This rank's, of one type on all ranks: int64 or float64, none negative.  No rank needs any.
    n
        Less than the number of all ranks' values.
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


def even_starts(rows: int, parts: int) -> np.ndarray:
    """Where even parts of the rows begin, and the last ends; the first ones may have one more."""
    numbers = np.arange(parts + 1, dtype=np.int64)
    share, rest = divmod(rows, parts)
    return share * numbers + np.minimum(numbers, rest)


def sum_large(comm: MPI.Comm, array: np.ndarray, root: int | None = None) -> np.ndarray:
    """Sum of a large array over the ranks, in place, the same bits on every rank.  Collective.

    Parameters
    ----------
    array
        C-contiguous, of the same shape and dtype on all ranks.
    root
        Rank that needs the sum: on the others the array then holds no sum.  None: all do.

    Notes
    -----
    Each rank receives its part of the array from all others, adds the parts in the order of
    ranks, and sends the sum to all: it sends and receives ``2 (P - 1) / P`` of the array, for P
    ranks.  MPI's own ``Reduce_scatter`` sends as much, but the standard leaves the order of its
    sums open, and libraries change it with the size and the place of the ranks.
    """
    if comm.size == 1:
        return array
    if not array.flags.c_contiguous:
        raise ValueError("the array must be C-contiguous")
    numbers = array.reshape(-1)
    for first in range(0, array.size, _STEP):
        part = numbers[first : first + _STEP]
        if part.size * comm.size <= _SMALL:
            part[:] = _sum_in_order(values_of_all_ranks(comm, part))
            continue
        starts = even_starts(part.size, comm.size)
        counts, places = np.diff(starts), starts[:-1]
        mine = part[starts[comm.rank] : starts[comm.rank + 1]]
        others = comm.size - 1
        count_messages(part.nbytes - mine.nbytes, others)
        received = np.empty((comm.size, mine.size), part.dtype)
        comm.Alltoallv([part, (counts, places)], received)
        mine[:] = _sum_in_order(received)
        if root is None:
            count_messages(mine.nbytes * others, others)
            comm.Allgatherv(MPI.IN_PLACE, [part, (counts, places)])
        elif comm.rank == root:
            comm.Gatherv(MPI.IN_PLACE, [part, (counts, places)], root)
        else:
            count_messages(mine.nbytes)
            comm.Gatherv(mine, None, root)
    return array


def _sum_in_order(parts: np.ndarray) -> np.ndarray:
    total = parts[0]  # nobody else has it
    for part in parts[1:]:
        total += part
    return total
