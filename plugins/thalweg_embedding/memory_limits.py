"""Memory that there is for an embedding, and what would not fit, whatever else it takes."""

from __future__ import annotations

import math
import os

from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, min_over_ranks

#: Bytes for a pair of points while affinities of all pairs are made.
DENSE_BYTES = 60.0

#: Arrays of the map's shape that a run holds: iterate, gradient, trials and L-BFGS's pairs.
MAP_ARRAYS = 32


def memory_per_rank(comm: MPI.Comm) -> float:
    """Bytes of a machine's memory for each of its ranks, the least there is.  Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = node.size
    node.Free()
    return min_over_ranks(comm, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / ranks)


def require_room_for_dense(layout: Layout) -> None:
    """Refuse affinities of all pairs that would not fit.  Collective."""
    free = memory_per_rank(layout.comm)
    needed = DENSE_BYTES * float(layout.counts().max(initial=0)) * layout.rows
    if needed > free:
        fitting = math.sqrt(free * layout.comm.size / DENSE_BYTES)
        raise InputError(
            f"affinities of all pairs of {layout.rows:,} points would take about "
            f"{needed / 2**30:,.0f} GiB on each rank, and there are {free / 2**30:.0f} GiB, enough "
            f"for about {int(fitting / 1000):,},000 points; use graph = 'sparse'"
        )


def require_room_for_map(layout: Layout) -> None:
    """Refuse a map of more columns than fit, or than the N - 1 that N points use.  Collective."""
    rows, columns = layout.rows, layout.columns
    if columns > max(1, rows - 1):
        raise InputError(
            f"a map of {rows:,} points has at most {rows - 1:,} dimensions, not {columns:,}"
        )
    free = memory_per_rank(layout.comm)
    needed = MAP_ARRAYS * 8.0 * float(layout.counts().max(initial=0)) * columns
    if needed > free:
        raise InputError(
            f"a run with a map of {rows:,} points in {columns:,} dimensions would take about "
            f"{needed / 2**30:,.0f} GiB on each rank, and there are {free / 2**30:.0f} GiB; use at "
            f"most {max(1, int(columns * free / needed)):,} dimensions"
        )
