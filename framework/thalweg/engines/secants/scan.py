"""What a scan of secants is asked for, and its result."""

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
