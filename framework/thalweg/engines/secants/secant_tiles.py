"""What a scan is asked for, and the pairs of two blocks of points, cut into tiles.

Tiles lie on one grid of global row numbers, whatever the blocks of the ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np


@dataclass(frozen=True)
class ScanOptions:
    """What a scan keeps, which tiles it takes, and by which products."""

    #: Least distortion, in absolute value, of the pairs that are kept.
    threshold: float = np.inf
    #: At most so many pairs are kept.
    max_pairs: int = 0
    #: At most so many are kept of a point's pairs with the later points of a tile: no cluster.
    per_row: int = 3
    #: Share of the tiles that is scanned, the same tiles at any number of ranks.
    fraction: float = 1.0
    #: Chooses the tiles.
    seed: int = 0
    #: Coordinates in the tiles' products, the others being bounded by their norms, and further
    #: ones for pairs that these leave undecided; None chooses both by cost, 0 means all.
    n_leading: int | None = None
    n_further: int = 0
    #: Number of a part, from 0, and how many parts the tiles are scanned in, one a call, so that
    #: work can be saved in between.  After the last part the scan is that in one part.
    part: tuple[int, int] = (0, 1)
    #: Where among the tiles part 0 begins, the same for all parts: a scan may so go on
    #: where that of another map ended.
    first: int = 0
    #: Whether each rank gets some of the worst pairs, not every rank all of them.
    share: bool = False

    @property
    def is_last_part(self) -> bool:
        """Whether no part follows."""
        return self.part[0] == self.part[1] - 1


@dataclass(frozen=True)
class Scan:
    """Result of one pass over the secants; the same on every rank.

    Attributes
    ----------
    delta, delta_lower
        The largest distortion in absolute value among the pairs seen lies between these two,
        rounding included; over all secants if ``complete``.
    pair
        The numbers (i, j), i < j, of the points whose measured distortion is the
        largest; (-1, -1) if all are measured as zero or there is no secant.
    complete
        Whether every secant was seen, and not a sample of the tiles.
    pairs, distortions, lengths
        The worst pairs, worst first, ties by number: global numbers (m, 2) int64, signed
        distortions (m,), squared lengths ``||x_i - x_j||^2`` (m,).  Of a scan that was asked to
        share them each rank has some, each pair on one rank; so a checkpoint stores them.
    n_pairs, n_coincident
        Pairs seen, and how many of them are two points at the same place.
    n_measured
        Pairs that were measured in float64; the others were bounded.
    n_leading
        Number of coordinates in the tiles' products.
    largest
        The largest distortion as it was measured.
    """

    delta: float
    delta_lower: float
    pair: tuple[int, int]
    complete: bool
    pairs: Annotated[np.ndarray, "own rows"]
    distortions: Annotated[np.ndarray, "own rows"]
    lengths: Annotated[np.ndarray, "own rows"]
    n_pairs: int
    n_coincident: int
    n_measured: int
    n_leading: int
    largest: float

    @property
    def n_secants(self) -> int:
        """Pairs of distinct points seen."""
        return self.n_pairs - self.n_coincident

    def without_pairs(self) -> Self:
        """The facts alone."""
        lists = self.pairs[:0], self.distortions[:0], self.lengths[:0]
        return replace(self, pairs=lists[0], distortions=lists[1], lengths=lists[2])


#: Edge of the tiles.
TILE = 1024

#: Rows of a tile that are processed together: products of this size are still in the cache when
#: they are filtered.
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

    def part(self, rows: slice) -> Self:
        """Some of the points, by local numbers."""
        first, last, _ = rows.indices(len(self.arrays[0]))
        arrays = tuple(array[first:last] for array in self.arrays)
        return replace(self, start=self.start + first, arrays=arrays)

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


#: First and last row, first and last column of a strip of a tile, global numbers.
Edges = tuple[int, int, int, int]


class TileChoice:
    """Which cells of the global grid of tiles a scan of ``n_points`` points takes."""

    def __init__(self, options: ScanOptions, n_points: int) -> None:
        self._options = options
        self._limit = int(options.fraction * 2.0**64)
        self._seed = _mixed(options.seed)
        # However small the share, one cell is chosen.
        edge = -(-n_points // TILE)
        row, column = self._seed % edge, _mixed(self._seed) % edge
        self._always = min(row, column), max(row, column)

    def __call__(self, row: int, column: int) -> bool:
        """Whether the cell of this pair of global numbers is scanned."""
        row, column = row // TILE, column // TILE
        part, parts = self._options.part
        if (row + column - self._options.first) % parts != part:
            return False
        # By a hash of the cell: a list of the chosen ones would grow as the square of the points.
        return (
            self._options.fraction >= 1.0
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


def strips_of(low: Block, high: Block, chosen: TileChoice) -> Iterator[Edges]:
    """Strips of the chosen tiles of two blocks, or of one with itself: each pair once.

    In a strip whose rows are its first columns, a pair of these is met once where i < j.
    """
    for r0, r1 in _cuts(low.start, low.stop):
        for c0, c1 in _cuts(high.start, high.stop):
            if (low is not high or c0 >= r0) and chosen(r0, c0):
                for first in range(r0, r1, STRIP):
                    # Below the diagonal of a tile nothing is left to do.
                    left = first if low is high and r0 == c0 else c0
                    yield first, min(r1, first + STRIP), left, c1
