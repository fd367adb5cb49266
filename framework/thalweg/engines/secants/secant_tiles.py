"""The pairs of two blocks of points, cut into tiles, and the threads that process them.

Tiles lie on one grid of global row numbers, whatever the blocks of the ranks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import threadpoolctl

#: Edge of the tiles.
TILE = 1024

#: Rows of a tile that are processed together.
STRIP = 512


@dataclass(frozen=True)
class Block:
    """Consecutive points with what a tile needs of them."""

    start: int
    arrays: tuple[np.ndarray, ...]
    labels: np.ndarray

    @property
    def stop(self) -> int:
        """Global number behind the last point."""
        return self.start + len(self.arrays[0])

    def part(self, rows: slice) -> Block:
        """Some of the points, by local numbers."""
        first, last, _ = rows.indices(len(self.arrays[0]))
        return Block(self.start + first, tuple(a[first:last] for a in self.arrays), self.labels)

    def cut(self, first: int, last: int) -> tuple[np.ndarray, ...]:
        """Of a range: exact points, sizes, images, the columns of bounds, labels, further.

        The columns are ``low, high, tail, image_low, image_high``, and again ``low, high, tail``
        where the further coordinates are used as well.
        """
        here = slice(first - self.start, last - self.start)
        points, sizes, images, _, _, bounds, further = self.arrays
        columns = np.ascontiguousarray(bounds[here].T)
        labels = self.labels[first:last]
        return (points[here], sizes[here], images[here], *columns, labels, further[here])

    def factors(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Factors of a tile's two products, of a range of global numbers."""
        here = slice(first - self.start, last - self.start)
        return self.arrays[3][here], self.arrays[4][here]


#: First and last row, first and last column of a tile, global numbers.
Edges = tuple[int, int, int, int]


class TileChoice:
    """Which cells of the global grid of tiles are scanned.

    Parameters
    ----------
    fraction, seed
        Share of the cells, and what chooses them.
    n_points
        Number of all points.
    part
        Which of how many parts of these cells; each cell is in one.
    first
        Diagonal of cells that part 0 begins with.
    """

    def __init__(
        self,
        fraction: float,
        seed: int,
        n_points: int,
        part: tuple[int, int] = (0, 1),
        first: int = 0,
    ) -> None:
        self._part, self._parts = part
        self._first = first
        self._everything = fraction >= 1.0
        self._limit = int(fraction * 2.0**64)
        self._seed = _mixed(seed)
        # However small the share, one cell is chosen.
        edge = -(-n_points // TILE)
        row, column = self._seed % edge, _mixed(self._seed) % edge
        self._always = min(row, column), max(row, column)

    def __call__(self, row: int, column: int) -> bool:
        """Whether the cell of this pair of global numbers is scanned."""
        row, column = row // TILE, column // TILE
        if (row + column - self._first) % self._parts != self._part:
            return False
        # By a hash of the cell: a list of the chosen ones would grow as the square of the points.
        return (
            self._everything
            or _mixed(self._seed ^ (row << 32 | column)) < self._limit
            or (row, column) == self._always
        )


def _mixed(number: int) -> int:
    """Hash of an integer to one of 64 bits (the finalizer of SplitMix64; Steele et al. 2014)."""
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
    return number ^ (number >> 31)


def _cuts(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Pieces of a range of rows along the global grid."""
    while start < stop:
        end = min(stop, (start // TILE + 1) * TILE)
        yield start, end
        start = end


def tiles_of(low: Block, high: Block, chosen: TileChoice, same: bool) -> Iterator[Edges]:
    """The chosen tiles of two blocks, or of one with itself: each pair once."""
    for r0, r1 in _cuts(low.start, low.stop):
        for c0, c1 in _cuts(high.start, high.stop):
            if (not same or c0 >= r0) and chosen(r0, c0):
                yield r0, r1, c0, c1


class Workspace(threading.local):
    """Buffers of one thread, made at first use."""

    products: np.ndarray | None = None

    def get(self) -> tuple[np.ndarray, np.ndarray]:
        """Space for two products of a strip of a tile."""
        if self.products is None:
            self.products = np.empty((2, STRIP * TILE), dtype=np.float32)
        return self.products[0], self.products[1]


class TilePool:
    """Threads that process tiles, each with BLAS kept to itself."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)
        self._workspace = Workspace()

    def __enter__(self) -> TilePool:
        if self._threads > 1:
            self._limit: Any = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
            self._executor = ThreadPoolExecutor(self._threads)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._threads > 1:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._limit.restore_original_limits()

    def run(
        self,
        tiles: list[Any],
        work: Callable[..., int],
        poll: Callable[[], None],
        progress: Callable[[int], None] | None,
    ) -> None:
        """Call ``work(*tile, workspace)`` for every tile, which returns its number of pairs."""
        if self._threads == 1 or len(tiles) == 1:
            results: Any = (work(*tile, self._workspace) for tile in tiles)
        else:
            results = self._executor.map(lambda tile: work(*tile, self._workspace), tiles)
        for count in results:
            poll()
            if progress is not None:
                progress(count)
