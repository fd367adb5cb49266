"""Sums of large arrays over the ranks, the same bits on every rank."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from thalweg.parallel.layout import even_starts
from thalweg.parallel.reductions import values_of_all_ranks
from thalweg.parallel.traffic import count_messages

#: Numbers, received from all ranks together, up to which one message is quicker than two.
_SMALL = 2**15


def sum_large(
    comm: MPI.Comm, array: np.ndarray, step: int = 2**22, root: int | None = None
) -> np.ndarray:
    """Sum of a large array over the ranks, in place, the same bits on every rank.  Collective.

    Parameters
    ----------
    array
        C-contiguous, of the same shape and dtype on all ranks.
    step
        Numbers that are summed at once, of which a second copy is made.
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
    for first in range(0, array.size, step):
        part = numbers[first : first + step]
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
