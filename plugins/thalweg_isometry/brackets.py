"""Which rank, or which delta, to try after those that failed and that served."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

#: Delta below which a map is exact: rounding widens the certificate by about as much.
EXACT = 1e-8


@dataclass(frozen=True)
class RankBracket:
    """Bracket of the least rank by the attempts so far."""

    top: int  # largest rank there is
    failed: int = 0  # largest rank that failed; 0 if none
    served: int = 0  # least rank that served; 0 if none
    streak: int = 0  # attempts in a row that ended as the last did, after the first: steps double
    #: By how large a share ``served`` is above the least rank, as the last success let expect; 0 if
    #: unknown.
    excess: float = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether no rank is left to try."""
        return 0 < self.served <= self.failed + 1 or (not self.served and self.failed >= self.top)

    @property
    def least_expected(self) -> float:
        """About the least rank; between the ends where nothing better is known."""
        if not self.excess:
            return 0.5 * (self.failed + self.served)
        return max(self.failed + 0.5, self.served / (1.0 + self.excess))

    def after(self, rank: int, served: bool, excess: float = 0.0) -> "RankBracket":
        """With the outcome of one more attempt."""
        if served:
            streak = self.streak + 1 if self.served else 0
            return replace(self, served=rank, streak=streak, excess=excess)
        streak = self.streak + 1 if not self.served else 0
        return replace(self, failed=max(self.failed, rank), streak=streak)

    def next_rank(self) -> int:
        """The rank to try next: half-way to what is expected, or steps that double; then halves."""
        if not self.served:
            return min(self.top, self.failed + (max(1, round(0.05 * self.failed)) << self.streak))
        step = max(1, round(0.05 * self.served)) << self.streak
        if self.excess:
            step = max(1, round(0.5 * (self.served - self.least_expected)))
        return max(self.served - step, (self.failed + self.served) // 2, self.failed + 1)


@dataclass(frozen=True)
class DeltaBracket:
    """Bracket of the least delta: the largest that failed, and the least found."""

    failed: float
    served: float

    def is_closed(self, precision: float) -> bool:
        """Whether the ends are within ``precision`` of each other, relatively, or all is kept."""
        return self.served - self.failed <= max(precision * self.served, EXACT)

    def next_delta(self) -> float:
        """The delta to try next."""
        return float(np.sqrt(self.failed * self.served)) if self.failed else 0.75 * self.served


def predicted_rank(points: Sequence[int], ranks: Sequence[float], wanted: int, rise: float) -> int:
    """Rank that ``wanted`` points need, from about the least ranks of nested subsets of them.

    The rank grows about as a power of the number of points, whose exponent is fitted, and drawn
    towards 1/4 while subsets are few or close in size.  It is given higher by the share ``rise``.
    """
    at, value = np.log(points), np.log(ranks)
    at, center = at - at.mean(), at.mean()
    exponent = (float(at @ value) + 0.25 * 0.25) / (float(at @ at) + 0.25)
    exponent = float(np.clip(exponent, 0.05, 0.4))
    rank = float(np.exp(value.mean() + exponent * (np.log(wanted) - center)))
    return int(np.ceil((1.0 + rise) * rank))
