"""Memory that an embedding will take, checked and logged before a large one starts."""

from __future__ import annotations

import logging
import math
import os

from thalweg.errors import InputError
from thalweg.parallel import Layout, min_over_ranks

#: Bytes for a pair of points while affinities of all pairs are made.
DENSE_BYTES = 60.0

#: Arrays of the map's shape that a run holds: iterate, gradient, trials and L-BFGS's pairs.
MAP_ARRAYS = 32

#: Points from which the estimate is said.
LARGE_ROWS = 200_000

_logger = logging.getLogger("thalweg.embedding")


def estimated_bytes(layout: Layout, features: int, neighbors: int) -> float:
    """Bytes at the peak of a run on the rank with most rows, sparse affinities and a grid.

    Parameters
    ----------
    layout
        Rows of the map.
    features
        Columns of the data.
    neighbors
        Nearest neighbors per point.
    """
    local = int(layout.counts().max(initial=0))
    data = 3.0 * 8.0 * local * features
    # Neighbors and distances, conditional and transposed and joint probabilities.
    graph = 80.0 * local * neighbors
    # Cholesky factors of 7-nearest-neighbor graphs: 2 kB per row at 70,000 rows, and growing.
    factor = 3000.0 * layout.rows * max(1.0, layout.rows / 70_000) ** 0.25 / layout.comm.size
    return 4e8 + data + max(graph, 0.4 * graph + factor)


def memory_per_rank(layout: Layout) -> float:
    """Bytes of this machine's memory for each rank, as if all were on it.  Not collective."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / layout.comm.size


def require_room_for_dense(layout: Layout) -> None:
    """Refuse affinities of all pairs that would not fit.  Collective.

    Raises
    ------
    InputError
        Neighbors, conditional and joint probabilities of all pairs need more than there is.
    """
    free = min_over_ranks(layout.comm, memory_per_rank(layout))
    wanted = DENSE_BYTES * float(layout.counts().max(initial=0)) * layout.rows
    if wanted > free:
        fitting = math.sqrt(free * layout.comm.size / DENSE_BYTES)
        raise InputError(
            f"affinities of all pairs of {layout.rows:,} points would take about "
            f"{wanted / 2**30:,.0f} GiB on each rank, and there are {free / 2**30:.0f} GiB, enough "
            f"for about {int(fitting / 1000):,},000 points; use graph = 'sparse'"
        )


def require_room_for_map(layout: Layout) -> None:
    """Refuse a map of more columns than its points can use, or than fit.  Collective.

    Raises
    ------
    InputError
        N points lie in N - 1 dimensions whatever their distances are.
    """
    rows, columns = layout.rows, layout.columns
    if columns > max(1, rows - 1):
        raise InputError(
            f"a map of {rows:,} points has at most {rows - 1:,} dimensions, not {columns:,}"
        )
    free = min_over_ranks(layout.comm, memory_per_rank(layout))
    wanted = MAP_ARRAYS * 8.0 * float(layout.counts().max(initial=0)) * columns
    if wanted > free:
        raise InputError(
            f"a run with a map of {rows:,} points in {columns:,} dimensions would take about "
            f"{wanted / 2**30:,.0f} GiB on each rank, and there are {free / 2**30:.0f} GiB; use at "
            f"most {max(1, int(columns * free / wanted)):,} dimensions"
        )


def announce(layout: Layout, features: int, neighbors: int) -> None:
    """Say on rank 0, through ``logging``, what a large run will take.  Not collective."""
    if layout.rows < LARGE_ROWS or layout.comm.rank != 0:
        return
    wanted = estimated_bytes(layout, features, neighbors) / 2**30
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    _logger.warning(
        "an embedding of %d points with %d neighbors each takes about %.1f GiB on each of %d "
        "ranks; this machine has %.1f GiB",
        layout.rows,
        neighbors,
        wanted,
        layout.comm.size,
        there,
    )
