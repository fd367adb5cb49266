"""The active secants of a run, and subsets of the points whose secants separation rounds scan.

A method works on the *cuts*, the secants that matter so far; a separation round scans the others,
adds the worst violated, and drops cuts that have long been far inside (Luo et al., Algorithm 4).  A
cut that comes back after it was dropped stays, so that the rounds cannot cycle.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

from thalweg import InputError
from thalweg.engines.secants import Scan, SecantSet
from thalweg.interfaces import TRANSIENT, OwnRows
from thalweg_isometry.active import ActiveSecants

#: A scan of fewer pairs than this is always complete; chosen by hand.
FEW_PAIRS = 40_000_000

#: Nanoseconds that a part of a scan, or evaluations between two steps, take by estimate: signals
#: and limits wait so long.
PART = 2e10

#: Bounds of the number of cuts that a round adds, where it is not given; chosen by hand.
MIN_CUTS, MAX_CUTS = 30_000, 500_000

#: Consecutive separation rounds that a cut lies far inside before it is dropped; chosen by hand.
IDLE_ROUNDS = 3

#: Share of the wanted delta below which a secant is far inside; chosen by hand.
FAR_INSIDE = 0.7


@dataclass(frozen=True)
class Cuts:
    """Active secants, those of this rank."""

    #: Point numbers (m, 2), and squared lengths (m,).
    pairs: OwnRows = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    lengths: OwnRows = field(default_factory=lambda: np.empty(0))
    #: Rounds in a row that each cut was far inside; -1 for one that is never dropped.
    idle: OwnRows = field(default_factory=lambda: np.empty(0, dtype=np.int8))
    #: Keys of the cuts that were dropped, sorted.
    dropped: OwnRows = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: What was made of these cuts, to be kept as long as they are.
    made: dict[str, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False, metadata=TRANSIENT
    )

    def __len__(self) -> int:
        return len(self.pairs)

    def added(self, pairs: np.ndarray, lengths: np.ndarray, n_points: int) -> Cuts:
        """With these as well, those that are known left out."""
        keys = pairs[:, 0] * n_points + pairs[:, 1]
        fresh = ~np.isin(keys, self.pairs[:, 0] * n_points + self.pairs[:, 1])
        returned = np.isin(keys[fresh], self.dropped)
        return Cuts(
            np.concatenate([self.pairs, pairs[fresh]]),
            np.concatenate([self.lengths, lengths[fresh]]),
            np.concatenate([self.idle, np.where(returned, -1, 0).astype(np.int8)]),
            np.setdiff1d(self.dropped, keys[fresh][returned]),
        )

    def aged(self, distortions: np.ndarray, delta: float, n_points: int) -> tuple[Cuts, np.ndarray]:
        """After a round at a map with these distortions; and which cuts are kept."""
        inside = np.abs(distortions) < FAR_INSIDE * delta
        idle = np.where(self.idle < 0, -1, np.where(inside, self.idle + 1, 0)).astype(np.int8)
        keep = idle < IDLE_ROUNDS
        gone = self.pairs[~keep]
        dropped = np.union1d(self.dropped, gone[:, 0] * n_points + gone[:, 1])
        return Cuts(self.pairs[keep], self.lengths[keep], idle[keep], dropped), keep


@dataclass(frozen=True)
class ScanState:
    """How far the present scan is, or the last one came."""

    number: int = 0  # scans so far, with this one
    #: Where it began, the next part, and their number.
    first: int = 0
    part: int = 0
    parts: int = 1
    before: Scan | None = None  # what its parts so far found; None where no scan is under way


class Subsets:
    """The secants of nested subsets of the points, the last of which is all of them.

    Subsets have at least ``smallest`` points, each four times those of the one before, or twice the
    first time; 0 for none.
    """

    def __init__(self, secants: SecantSet, smallest: int) -> None:
        self._all = secants
        self._subsets: dict[int, SecantSet] = {1: secants}
        #: Every so many points make a subset, largest stride first.
        self.strides = strides = [1]
        if smallest and not secants.listed:
            while secants.n_points >= 4 * strides[0] * smallest:
                strides.insert(0, 4 * strides[0])
            if secants.n_points >= 2 * strides[0] * smallest:
                strides.insert(0, 2 * strides[0])

    def __getitem__(self, stride: int) -> SecantSet:
        """The secants of the subset; all of them where it has no two distinct points."""
        if stride not in self._subsets:
            try:
                self._subsets = {1: self._all, stride: self._all.subset(stride)}
            except InputError:
                self._subsets[stride] = self._all
        return self._subsets[stride]

    def first_fraction(self, stride: int) -> float:
        """Share of the tiles that the first rounds scan."""
        secants = self[stride]
        if secants.listed or secants.n_pairs <= FEW_PAIRS:
            return 1.0
        return max(0.2 if stride < self.strides[0] else 0.0, FEW_PAIRS / secants.n_pairs)

    def next_fraction(self, stride: int, scan: Scan, violated: int) -> float:
        """Share of the tiles for the round after one that found so many violated secants.

        A sample in which half as many are violated is to find one for each point.
        """
        secants = self[stride]
        if violated < 0.01 * secants.n_points:
            return 1.0
        seen = scan.n_pairs / secants.n_pairs
        share = 2.0 * secants.n_points * seen / violated
        share = max(min(share, 2.0 * seen), self.first_fraction(stride))
        return share if share < 0.7 else 1.0


def evaluations_per_scan(
    secants: SecantSet, fraction: float, active: ActiveSecants, psi: np.ndarray
) -> tuple[int, int]:
    """Evaluations of a method on the cuts that cost about as much as a scan; as a part of one.

    At least 8 of both.
    """
    rank, dimension = psi.shape
    # Nanoseconds: a pair of a scan; a product's term, a cut's term of an evaluation.
    scan = 5e6 + fraction * secants.n_pairs * (2.0 + 0.036 * (rank + 96))
    scan += 100_000 * (60.0 + 0.35 * dimension)
    evaluation = 1e5 + 0.05 * active.touched * dimension * rank + 3.0 * active.count * rank
    return max(8, int(scan / evaluation)), max(8, int(PART / (evaluation / active.comm.size)))


def parts_of(secants: SecantSet, fraction: float, rank: int) -> int:
    """Number of parts of a scan, between which a run can be saved."""
    if secants.listed:
        return 1
    share = fraction * secants.n_pairs / (secants.comm.size * numba.get_num_threads())
    return max(1, int(share * (2.0 + 0.018 * (rank + 96)) / PART))


@contextmanager
def scan_progress(
    secants: SecantSet, fraction: float, before: Scan | None = None
) -> Iterator[Callable[[int], None] | None]:
    """A progress bar: pairs, pairs per second, time left; on rank 0 and only on a terminal."""
    done = 0 if before is None else before.n_pairs // secants.comm.size
    total = int(fraction * secants.n_pairs)
    on_terminal = getattr(sys.stderr, "isatty", bool)() and importlib.util.find_spec("tqdm")
    if secants.comm.rank or not on_terminal or total < 10**8:
        yield None
        return
    from tqdm import tqdm

    total //= secants.comm.size
    with tqdm(total=total, initial=done, unit="pair", unit_scale=True, leave=False) as bar:
        yield bar.update
