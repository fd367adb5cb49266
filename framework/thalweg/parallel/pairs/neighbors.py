"""Exact nearest neighbors of distributed points, by tiles of matrix products.

Squared distances through norms and products cancel for close points, and in single
precision badly so.  The products here give only a rigorous *lower bound* of each
distance, which rules nearly all pairs out; what is left is evaluated in double precision
from the coordinates' differences.  The answer is therefore exact, and the same to the
bit at any number of ranks and threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import threadpoolctl

from thalweg.errors import InputError
from thalweg.parallel.failures import raise_on_all_ranks
from thalweg.parallel.layout import Layout
from thalweg.parallel.pairs.neighbor_kernels import (
    CHUNK,
    filter_columns,
    filter_rows,
    flush_candidates,
    merge_pairs,
    renew_limits,
    sort_rows,
)
from thalweg.parallel.pairs.ring import Ring, RingBlock
from thalweg.parallel.redistribution import swap_rows
from thalweg.parallel.reductions import max_over_ranks, sum_over_ranks

#: Half a unit in the last place of single precision, relative.
_ROUNDING = 2.0**-24

#: Rows and columns of a tile: 4 MiB of single-precision products.
_TILE_ROWS = 512
_TILE_COLUMNS = 2048

#: Products, of rows of one column each, that take as long as it takes to find one of the k best
#: pairs of a row at another rank, send it and take it over.
_WORK_OF_PAIR = 3000


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
    standard bound on inner products).  Its part that is a product of norms rides along in one more
    column.  A pair is dropped when it cannot be nearer than the k best pairs so far.

    Where neighbors of all rows are sought, each product serves both its rows.  On several ranks
    each pair of blocks meets once, and the k best pairs of a block's rows among those of another
    rank go back to their owner, 12 k bytes for each; where a rank has little to multiply, each
    meets all blocks instead.
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
    frame = _Frame.of(layout, exact)
    work = layout.rows * (exact.shape[1] + 1.0) / layout.comm.size
    once = rows is None and (layout.comm.size == 1 or work >= _WORK_OF_PAIR * k)
    rows = np.arange(layout.local_rows) if rows is None else np.asarray(rows, dtype=np.int64)
    mine = _Rows(exact[rows], layout.start + rows, frame, k)
    search = _Search(frame)
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        for block in Ring(layout).blocks(exact, each_pair_once=once):
            if once and block.own:
                search.run(mine, mine, _tiles_of_triangle(len(rows)), block.poll)
                continue
            numbers = np.arange(block.start, block.stop)
            theirs = _Rows(block.arrays[0], numbers, frame, k if once else 0)
            paired = block.rows if once else slice(0, len(rows))
            search.run(mine, theirs, _tiles(paired, len(numbers), once), block.poll)
            if once:
                _return_pairs(layout, theirs, block, mine)
    sort_rows(mine.distances, mine.indices)
    return mine.indices, mine.distances


@dataclass(frozen=True)
class _Frame:
    """What rows are measured from, and in units of, and the relative error of their products."""

    center: np.ndarray
    scale: float
    bound: float

    @classmethod
    def of(cls, layout: Layout, exact: np.ndarray) -> _Frame:
        # Where the center lies decides on speed alone, not on the answer.
        total = np.asarray(sum_over_ranks(layout.comm, exact.sum(axis=0)))
        center = total / layout.rows
        largest = float(np.abs(exact - center).max()) if exact.size else 0.0
        largest = max_over_ranks(layout.comm, largest)
        # A power of two: scaling is exact, and squares stay within single precision.
        scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0
        # Products and sums of columns + 2 terms, the rounding of both factors and of the
        # added column, with an allowance for second-order terms and for those of double precision.
        return cls(center, scale, (exact.shape[1] + 12) * _ROUNDING * 1.01)


class _Rows:
    """Rows with the global ``numbers``, and of each the ``k`` best pairs so far as a heap."""

    def __init__(self, exact: np.ndarray, numbers: np.ndarray, frame: _Frame, k: int) -> None:
        centered = (exact - frame.center) * frame.scale
        self.exact, self.numbers = exact, numbers
        self.norms = np.sqrt(np.einsum("ij,ij->i", centered, centered))
        self.halves = (0.5 * (1.0 - frame.bound) * self.norms**2).astype(np.float32)
        # The product of two such rows is an upper bound of their inner product.
        self.wide = np.empty((len(exact), exact.shape[1] + 1), dtype=np.float32)
        self.wide[:, :-1] = centered
        self.wide[:, -1] = np.sqrt(frame.bound) * self.norms
        self.indices = np.full((len(exact), k), -1, dtype=np.int64)
        self.distances = np.full((len(exact), k), np.inf)
        self._locks = [threading.Lock() for _ in range(0, len(exact), _TILE_COLUMNS)]

    def lock(self, rows: slice) -> threading.Lock:
        """What a thread holds while it finds pairs of these rows, which belong to one tile."""
        return self._locks[rows.start // _TILE_COLUMNS]


#: Rows and columns of a tile, and whether its columns are to have pairs too.
_Tile = tuple[slice, slice, bool]


def _tiles(rows: slice, columns: int, both: bool) -> Iterator[_Tile]:
    """All pairs of these rows and so many columns."""
    for band in _cut(rows.start, rows.stop, _TILE_ROWS):
        for part in _cut(0, columns, _TILE_COLUMNS):
            yield band, part, both


def _tiles_of_triangle(rows: int) -> Iterator[_Tile]:
    """Each pair of so many rows once."""
    for band in _cut(0, rows, _TILE_ROWS):
        yield band, band, False
        for part in _cut(band.stop, rows, _TILE_COLUMNS):
            yield band, part, True


def _cut(start: int, stop: int, step: int) -> Iterator[slice]:
    """The range, cut at multiples of ``step``."""
    edges = range(start // step * step, stop, step) if stop > start else ()
    for edge in edges:
        yield slice(max(edge, start), min(edge + step, stop))


class _Search:
    """Finds the best pairs of rows tile by tile."""

    def __init__(self, frame: _Frame) -> None:
        import numba

        self.frame = frame
        self.threads = numba.get_num_threads()
        self.compiled = False

    def run(
        self, mine: _Rows, theirs: _Rows, tiles: Iterable[_Tile], poll: Callable[[], None]
    ) -> None:
        """Search these tiles of pairs; ``theirs`` have places for pairs if a tile wants them."""

        def search(tile: _Tile) -> None:
            rows, columns, both = tile
            products = mine.wide[rows] @ theirs.wide[columns].T
            with mine.lock(rows):
                self._take(filter_rows, products, mine, rows, theirs, columns)
            if both:
                with theirs.lock(columns):
                    self._take(filter_columns, products, theirs, columns, mine, rows)

        tiles = list(tiles)
        if self.threads == 1 or len(tiles) < 2:
            for tile in tiles:
                search(tile)
                poll()
            return
        if not self.compiled:
            # One thread compiles the kernels.
            search(tiles.pop(next((n for n, tile in enumerate(tiles) if tile[2]), 0)))
            self.compiled = True
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(search, tiles):
                poll()  # this thread alone calls MPI

    def _take(
        self,
        choose: Callable[..., None],
        products: np.ndarray,
        asked: _Rows,
        rows: slice,
        others: _Rows,
        among: slice,
    ) -> None:
        """Take pairs of the rows asked for into their heaps."""
        count, k = rows.stop - rows.start, asked.indices.shape[1]
        capacity = 2 * (k + CHUNK)
        candidates = (
            np.empty((count, capacity), dtype=np.float32),
            np.empty((count, capacity), dtype=np.int32),
            np.zeros(count, dtype=np.int64),
            np.empty(count, dtype=np.float32),
        )
        found = asked.distances[rows], asked.indices[rows]
        norms = asked.norms[rows], others.norms[among]
        points = asked.exact[rows], others.exact[among], *norms, self.frame.scale, self.frame.bound
        own, start = asked.numbers[rows], int(others.numbers[among.start])
        renew_limits(*found, *candidates, *points)
        choose(products, others.halves[among], own, start, *found, *candidates, *points)
        flush_candidates(start, *found, *candidates, *points)


def _return_pairs(layout: Layout, theirs: _Rows, block: RingBlock, mine: _Rows) -> None:
    """Send a block's pairs to its owner, and take over those found for this rank's rows."""
    k, owner, holder = theirs.indices.shape[1], block.owner, block.holder
    # Numbers within a block are half as long.
    numbers = np.where(theirs.indices < 0, -1, theirs.indices - layout.start).astype(np.int32)
    count = block.held.stop - block.held.start
    distances, indices = np.empty((count, k)), np.empty((count, k), dtype=np.int32)
    swap_rows(layout.comm, theirs.distances, owner, distances, holder)
    swap_rows(layout.comm, numbers, owner, indices, holder)
    start = int(layout.starts[holder])
    found = mine.distances[block.held], mine.indices[block.held]
    merge_pairs(distances, indices, start, *found)
