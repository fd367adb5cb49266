"""The pairs of two blocks of points, cut into tiles along one grid of global row numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

#: Edge of the tiles.
TILE = 1024


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
        """``(exact, size, image, low, high, image_low, image_high, tail, labels)`` of a range."""
        here = slice(first - self.start, last - self.start)
        points, sizes, images, _, _, bounds = self.arrays
        columns = np.ascontiguousarray(bounds[here].T)
        return (points[here], sizes[here], images[here], *columns, self.labels[first:last])

    def factors(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Factors of a tile's two products, of a range of global numbers."""
        here = slice(first - self.start, last - self.start)
        return self.arrays[3][here], self.arrays[4][here]


#: First and last row, first and last column of a tile, global numbers.
Edges = tuple[int, int, int, int]


class TileChoice:
    """Which cells of the global grid of tiles are scanned."""

    def __init__(self, fraction: float, seed: int, n_points: int) -> None:
        self._everything = fraction >= 1.0
        if not self._everything:
            edge = -(-n_points // TILE)
            cells = edge * (edge + 1) // 2
            wanted = max(1, min(cells, int(np.ceil(fraction * cells))))
            order = np.random.default_rng(seed).permutation(cells)[:wanted]
            self._chosen = np.zeros((edge, edge), dtype=bool)
            upper = np.triu_indices(edge)
            self._chosen[upper[0][order], upper[1][order]] = True

    def __call__(self, row: int, column: int) -> bool:
        """Whether the cell of this pair of global numbers is scanned."""
        return self._everything or bool(self._chosen[row // TILE, column // TILE])


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
