"""Exact nearest neighbors of distributed points, by tiles of matrix products.

Squared distances through norms and products cancel for close points, and in single
precision badly so.  The products here give only a rigorous *lower bound* of each
distance, which rules nearly all pairs out; what is left is evaluated in double precision
from the coordinates' differences.  The answer is therefore exact, and the same to the
bit at any number of ranks and threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import threadpoolctl

from thalweg.errors import InputError
from thalweg.parallel.failures import raise_on_all_ranks
from thalweg.parallel.layout import Layout
from thalweg.parallel.pairs.neighbor_kernels import (
    CHUNK,
    filter_candidates,
    flush_candidates,
    renew_limits,
    sort_rows,
)
from thalweg.parallel.pairs.ring import Ring
from thalweg.parallel.reductions import max_over_ranks, sum_over_ranks

#: Half a unit in the last place of single precision, relative.
_ROUNDING = 2.0**-24

#: Rows and columns of a tile: 4 MiB of single-precision products.
_TILE_ROWS = 512
_TILE_COLUMNS = 2048


def nearest_neighbors(
    layout: Layout, values: np.ndarray, k: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` nearest other rows of each row, in Euclidean distance.  Collective.

    Parameters
    ----------
    layout
        Distribution of the rows, of which there are N; its columns have no meaning here.
    values
        This rank's rows, shape ``(local_rows, d)``, float32 or float64.
    k
        Number of neighbors, from 1 to N - 1.
    rows
        Rows of this rank, counted from its first, whose neighbors are sought among
        all rows; by default each of them.

    Returns
    -------
    indices : ndarray of int64, shape (len(rows), k)
        Global row numbers, nearest first.  A row is not its own neighbor, but another
        row with the same values is, at distance 0.  Among equal distances the lower row
        number comes first.
    squared_distances : ndarray of float64, shape (len(rows), k)
        Sums of squared differences in double precision.

    Raises
    ------
    InputError
        Fewer than ``k + 1`` rows, ``k < 1``, or values that are not finite.

    Notes
    -----
    With x and y centered, ``s = |y|^2 / 2 - x.y`` orders the neighbors y of x.  Its
    value from single-precision products of length d is off by at most
    ``(d + c) u (|x| |y| + |y|^2 / 2)``, u the unit roundoff and c a small constant (the
    standard bound on inner products).  The bound rides along in two more columns of the
    product.  A pair is dropped when it cannot be nearer than the k best pairs so far.
    """
    if not 1 <= k < layout.rows:
        raise InputError(
            f"{k} nearest neighbors of each row need at least {max(k, 1) + 1} rows and a "
            f"number of at least 1; there are {layout.rows} rows"
        )
    exact = np.ascontiguousarray(values, dtype=np.float64)
    with raise_on_all_ranks(layout.comm):
        wrong = np.flatnonzero(~np.isfinite(exact).all(axis=1))
        if len(wrong):
            raise InputError(f"row {layout.start + wrong[0]} has values that are not finite")
    center, scale = _center_and_scale(layout, exact)
    if rows is None:
        rows, asked = np.arange(layout.local_rows), exact
    else:
        rows = np.asarray(rows, dtype=np.int64)
        asked = exact[rows]
    queries, norms = _centered(asked, center, scale)
    bound = _bound(exact.shape[1])
    ones = np.ones_like(norms)
    left = _augmented(queries, ones, bound * norms)

    indices = np.full((len(rows), k), -1, dtype=np.int64)
    distances = np.full((len(rows), k), np.inf)
    search = _Search(asked, layout.start + rows, left, norms, indices, distances, scale, bound)
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        for block in Ring(layout).blocks(exact):
            (theirs,) = block.arrays
            search.add(theirs, center, block.start, block.poll)
    sort_rows(distances, indices)
    return indices, distances


def _center_and_scale(layout: Layout, exact: np.ndarray) -> tuple[np.ndarray, float]:
    # Where the center lies decides on speed alone, not on the answer.
    total = np.asarray(sum_over_ranks(layout.comm, exact.sum(axis=0)))
    center = total / layout.rows
    largest = float(np.abs(exact - center).max()) if exact.size else 0.0
    largest = max_over_ranks(layout.comm, largest)
    # A power of two: scaling is exact, and squares stay within single precision.
    return center, 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0


def _centered(rows: np.ndarray, center: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    centered = (rows - center) * scale
    return centered.astype(np.float32), np.sqrt(np.einsum("ij,ij->i", centered, centered))


def _augmented(centered: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    wide = np.empty((centered.shape[0], centered.shape[1] + 2), dtype=np.float32)
    wide[:, :-2] = centered
    wide[:, -2] = first
    wide[:, -1] = second
    return wide


def _bound(columns: int) -> float:
    # Products and sums of columns + 2 terms, the rounding of both factors and of the
    # added columns, with an allowance for second-order terms and for those of double precision.
    return (columns + 12) * _ROUNDING * 1.01


class _Search:
    """The k best pairs so far of each of the rows asked for, which have the numbers ``own``."""

    def __init__(
        self,
        exact: np.ndarray,
        own: np.ndarray,
        left: np.ndarray,
        norms: np.ndarray,
        indices: np.ndarray,
        distances: np.ndarray,
        scale: float,
        bound: float,
    ) -> None:
        import numba

        self.exact, self.own, self.left, self.norms = exact, own, left, norms
        self.indices, self.distances = indices, distances
        self.scale, self.bound = scale, bound
        self.threads = numba.get_num_threads()
        self.compiled = False

    def add(
        self,
        theirs: np.ndarray,
        center: np.ndarray,
        start: int,
        poll: Callable[[], None],
    ) -> None:
        """Search a received block, whose first row has the global number ``start``."""
        centered, norms = _centered(theirs, center, self.scale)
        halves = 0.5 * norms * norms
        right = _augmented(-centered, (1.0 - self.bound) * halves, -norms).T.copy()
        columns, height, k = right.shape[1], len(self.exact), self.indices.shape[1]
        capacity = 2 * (k + CHUNK)

        def search_band(top: int) -> None:
            rows = slice(top, min(top + _TILE_ROWS, height))
            count = rows.stop - top
            products = np.empty(count * min(_TILE_COLUMNS, columns), dtype=np.float32)
            candidates = (
                np.empty((count, capacity), dtype=np.float32),
                np.empty((count, capacity), dtype=np.int32),
                np.zeros(count, dtype=np.int64),
                np.empty(count, dtype=np.float32),
            )
            found = self.distances[rows], self.indices[rows]
            points = self.exact[rows], theirs, self.norms[rows], norms, self.scale, self.bound
            renew_limits(*found, *candidates, *points)
            for first in range(0, columns, _TILE_COLUMNS):
                last = min(first + _TILE_COLUMNS, columns)
                tile = products[: count * (last - first)].reshape(count, last - first)
                np.matmul(self.left[rows], right[:, first:last], out=tile)
                filter_candidates(tile, first, self.own[rows], start, *found, *candidates, *points)
            flush_candidates(start, *found, *candidates, *points)

        bands = list(range(0, height, _TILE_ROWS)) if columns else []
        if self.threads == 1 or len(bands) < 2:
            for top in bands:
                search_band(top)
                poll()
            return
        if not self.compiled:
            search_band(bands.pop(0))  # one thread compiles the kernels
            self.compiled = True
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(search_band, bands):
                poll()  # this thread alone calls MPI
