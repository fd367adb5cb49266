"""How much memory an embedding will take, said before a large one starts."""

from __future__ import annotations

import logging
import os

from thalweg.parallel import Layout

#: Points from which the estimate is said.
LARGE_ROWS = 200_000

_logger = logging.getLogger("thalweg.embedding")


def estimated_bytes(layout: Layout, features: int, neighbours: int) -> float:
    """Bytes at the peak of a run on the rank with most rows, sparse affinities and a grid.

    Parameters
    ----------
    layout
        Rows of the map.
    features
        Columns of the data.
    neighbours
        Nearest neighbours a point.
    """
    local = int(layout.counts().max(initial=0))
    data = 3.0 * 8.0 * local * features
    # Neighbours and distances, conditional and transposed and joint probabilities.
    graph = 80.0 * local * neighbours
    # Cholesky factors of 7-nearest-neighbour graphs: 2 kB a row at 70,000 rows, and growing.
    factor = 3000.0 * layout.rows * max(1.0, layout.rows / 70_000) ** 0.25 / layout.comm.size
    return 4e8 + data + max(graph, 0.4 * graph + factor)


def announce(layout: Layout, features: int, neighbours: int) -> None:
    """Say on rank 0, through ``logging``, what a large run will take.  Not collective."""
    if layout.rows < LARGE_ROWS or layout.comm.rank != 0:
        return
    wanted = estimated_bytes(layout, features, neighbours) / 2**30
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    _logger.warning(
        "an embedding of %d points with %d neighbours each takes about %.1f GiB on each of %d "
        "ranks; this machine has %.1f GiB",
        layout.rows,
        neighbours,
        wanted,
        layout.comm.size,
        there,
    )
