"""Which rank, or which delta, to try: at first, and after those that failed and that served."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.engines.secants import SecantSet

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
        return (
            0.75 * self.served if self.failed == 0.0 else float(np.sqrt(self.failed * self.served))
        )


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


def truncated(psi: np.ndarray, rank: int) -> np.ndarray:
    """``Gamma^(1/2) U^T`` from the leading eigenpairs of ``Psi^T Psi`` (eq. 2.9)."""
    _, values, vectors = np.linalg.svd(psi, full_matrices=False)
    return np.asarray(values[:rank, None] * vectors[:rank])


def eigengap_rank(psi: np.ndarray, low: int, high: int) -> int:
    """Rank from ``low`` to ``high`` after which the eigenvalues of ``Psi^T Psi`` fall most.

    By the largest factor: their differences are those of the leading few, whatever the rank.
    """
    values = np.maximum(np.linalg.svd(psi, compute_uv=False), 1e-150)
    return low + int(np.argmax(values[low - 1 : high] / values[low : high + 1]))


def extended(psi: np.ndarray, rank: int, directions: np.ndarray, seed: int) -> np.ndarray:
    """``psi`` with more rows: the directions, most important first, that it does not see."""
    rest = directions - directions @ np.linalg.pinv(psi) @ psi if len(psi) else directions
    norms = np.linalg.norm(rest, axis=1)
    some = np.flatnonzero(norms > 0.5)[: rank - len(psi)]
    added = rest[some] / norms[some, None]
    if len(psi) + len(added) < rank:  # fewer directions than rows: any will do
        shape = rank - len(psi) - len(added), psi.shape[1]
        added = np.concatenate([added, np.random.default_rng(seed).standard_normal(shape) * 1e-3])
    return np.concatenate([psi, added])


def guessed_rank(secants: SecantSet, delta: float, adjust: str) -> int:
    """Rank to try first.

    The bracket begins where the leading directions alone are within twice delta on the
    secants of a sample: from there it goes down, by steps that double.  The published
    adjustment, which goes down by one, needs a first rank that serves: where the leading
    directions hold most of the variance.
    """
    if adjust == "published":
        share = np.cumsum(secants.spread) / max(float(secants.spread.sum()), 1e-300)
        return int(np.searchsorted(share, min(1.0 - 0.1 * delta, 1.0 - 1e-12)) + 1)
    _, points = secants.sample(200)
    points = points - points.mean(axis=0)
    upper = np.triu_indices(len(points), 1)
    lengths, good = _lengths(points)
    if not good.any():
        return 1
    mapped = np.zeros(int(good.sum()))
    for rank, direction in enumerate(secants.directions, start=1):
        at = points @ direction
        mapped += ((at[:, None] - at)[upper][good]) ** 2
        ratio = mapped / lengths[good]
        if ratio.max() - ratio.min() <= 2.0 * delta * (ratio.max() + ratio.min()):
            return rank
    return len(secants.directions)


def secant_moments(secants: SecantSet) -> np.ndarray:
    """Mean of ``(q^T v)^2`` over sampled unit secants v, for each principal direction q."""
    _, points = secants.sample(400)
    steps = [o for o in (1, 2, 3, 5) if o < len(points)]
    differences = np.concatenate([points[o:] - points[:-o] for o in steps])
    lengths = np.einsum("ij,ij->i", differences, differences)
    good = lengths > 0.0
    if not good.any():
        return np.ones(len(secants.directions))
    parts = differences[good] @ secants.directions.T
    return np.asarray((parts**2 / lengths[good, None]).mean(axis=0))


def sampled_ratios(points: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """``||Psi v||^2`` of the secants among some points."""
    points = points - points.mean(axis=0)
    lengths, good = _lengths(points)
    mapped, _ = _lengths(points @ psi.T)
    return np.asarray(mapped[good] / lengths[good])


def _lengths(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared lengths of the secants, and which are longer than the rounding of their ends."""
    size = np.einsum("ij,ij->i", rows, rows)
    upper = np.triu_indices(len(rows), 1)
    both = (size[:, None] + size)[upper]
    lengths = np.maximum(both - 2.0 * (rows @ rows.T)[upper], 0.0)
    return lengths, lengths > 1e-12 * both
