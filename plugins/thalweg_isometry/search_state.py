"""State of a search for a near-isometry, and what a method reports of its work on the cuts."""

import sys
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np

from thalweg.engines.secants import Scan, SecantConstraints, SecantSet
from thalweg.interfaces import TRANSIENT, OwnRows, SolverState
from thalweg.parallel import RowRoutes, any_over_ranks, sum_over_ranks
from thalweg_isometry.active import ActiveSecants, holders
from thalweg_isometry.brackets import DeltaBracket, RankBracket
from thalweg_isometry.cutting_planes import Cuts, ScanState, Subsets
from thalweg_isometry.small_lbfgs import Pair

#: What is known of an attempt after a round; of one that ended, open: it is repeated with noise.
Verdict = Literal["served", "failed", "open"]


@dataclass(frozen=True)
class MeasuredMap:
    """A map, without rows where there is none yet, and its delta.

    ``scan``: the facts of the complete scan of all secants that told delta, but for the pairs.
    """

    psi: np.ndarray
    delta: float = float("inf")
    scan: Scan | None = None


@dataclass(frozen=True)
class Attempt:
    """An attempt to reach a delta at a rank, on the cuts of a subset of the points."""

    #: Its targets.
    rank: int
    delta: float
    nearest: MeasuredMap  # map that came nearest to the target on the cuts
    iterations: int = 0  # inner iterations so far
    capped: bool = False  # whether their limit ended it
    met: bool = False  # whether the target holds on the cuts
    violated: int = sys.maxsize  # violated secants that the last round found
    #: Of complete scans, or rounds, since the target was last met: inner iterations until then, and
    #: by how much delta on the cuts missed it, or how many rows too many lose neighbors.
    misses: tuple[tuple[int, float], ...] = ()
    #: Of one that ended: how; every how many points were its subset; cuts; the run's work so far.
    outcome: Verdict = "open"
    stride: int = 0
    cuts: int = 0
    work: float = 0.0
    excess: float = 0.0  # by what share its rank is above the least, by its iterations; 0: unknown

    def out_of_reach(self, iterations: int) -> bool:
        """Whether delta on the cuts, at the rate so far, stays above its target.

        ``iterations`` is what the attempt may take; half as much again is allowed for, since
        attempts that succeed are fastest in the end.
        """
        if len(self.misses) < 4 or self.misses[-1][0] < 60:
            return False
        at, excesses = np.array(self.misses).T
        least = np.minimum.accumulate(np.maximum(excesses, 1e-12))
        half = int(np.searchsorted(at, 0.5 * at[-1], side="right")) - 1
        half = max(0, min(half, len(at) - 2))
        rate = np.log(least[half] / least[-1]) / max(1.0, at[-1] - at[half])
        left = 1.5 * max(0.0, iterations - at[-1])
        return bool(np.log(least[-1] / (0.02 * self.delta)) > rate * left)


@dataclass(frozen=True, kw_only=True)
class SearchState(SolverState):
    """State of a search; see :class:`SolverState`."""

    psi: np.ndarray  # present map, shape ``(rank, dimension)``
    set_digest: str  # digest of the secants, to which all scans belong
    attempt: Attempt  # the present attempt
    attempts: tuple[Attempt, ...] = ()  # those before it
    excluded: int = 0  # largest rank that a lower bound excludes
    cuts: Cuts  # this rank's cuts
    dual: OwnRows  # multiplier of each, for the methods that have one
    pairs: tuple[Pair, ...] = ()  # of L-BFGS, for the methods that use it
    stride: int = 1  # every so many points make the subset of the present attempt
    best: MeasuredMap  # best map that a complete scan of all secants confirmed
    served: np.ndarray  # map that served the present subset at the least rank so far
    closest: MeasuredMap  # map of least delta seen by a complete scan, a success or not
    fraction: float = 1.0  # share of the tiles that the next scan takes
    progress: ScanState = field(default_factory=ScanState)  # of the present scan
    #: Delta of the last scan, the rank of its map, and the number of pairs.
    delta: float = float("nan")
    scanned_rank: int = 0
    scanned: int = 0
    #: Delta on the cuts, and residuals of the methods that have some.
    active_delta: float = float("nan")
    residual: float = float("nan")
    dual_residual: float = float("nan")
    work: float = 0.0  # evaluations so far times cuts
    subsets: Subsets = field(metadata=TRANSIENT)  # of the secants

    def in_attempt(self, **changes: Any) -> Self:
        """With these changes of the present attempt."""
        return replace(self, attempt=replace(self.attempt, **changes))

    @property
    def problem(self) -> SecantConstraints:
        """The objective, as what the search needs of it."""
        return cast(SecantConstraints, self.objective)

    @property
    def secants(self) -> SecantSet:
        """All secants."""
        return self.problem.secants

    @property
    def subset(self) -> SecantSet:
        """Those of the present subset of the points."""
        return self.subsets[self.stride]

    @property
    def failures(self) -> list[Attempt]:
        """The attempts that failed, and were not repeated."""
        return [ended for ended in self.attempts if ended.outcome == "failed"]

    @property
    def lowering(self) -> bool:
        """Whether attempts lower delta at a rank: no delta is wanted, or it was missed."""
        missed = self.problem.wanted_rank is not None and bool(self.failures)
        return self.problem.wanted_delta is None or missed

    @property
    def delta_bracket(self) -> DeltaBracket:
        """The bracket on delta."""
        return DeltaBracket(max((a.delta for a in self.failures), default=0.0), self.best.delta)

    def bracket_of(self, stride: int) -> RankBracket:
        """The bracket on the rank of a subset; what failed on smaller ones fails on it."""
        failed = max((a.rank for a in self.failures if a.stride > stride), default=self.excluded)
        bracket = RankBracket(self.objective.layout.rows, failed)
        for ended in self.attempts:
            if ended.stride == stride and ended.outcome != "open":
                bracket = bracket.after(ended.rank, ended.outcome == "served", ended.excess)
        return bracket

    @property
    def bracket(self) -> RankBracket:
        """That of the present subset."""
        return self.bracket_of(self.stride)

    @property
    def best_work(self) -> float:
        """Work until the last attempt on all points that reached its target; 0: none did."""
        served = [a.work for a in self.attempts if a.stride == 1 and a.outcome == "served"]
        return max(served, default=0.0)

    @property
    def best_rank(self) -> int:
        """Rank of the best map that is certified; 0 before there is one."""
        return len(self.best.psi)

    @property
    def active(self) -> ActiveSecants:
        """The cuts as products need them.  Collective."""
        made, cuts = self.cuts.made, self.cuts
        if "active" not in made:
            made["active"] = ActiveSecants(self.secants, cuts.pairs, cuts.lengths)
        return cast(ActiveSecants, made["active"])

    @property
    def count(self) -> int:
        """Number of cuts on all ranks.  Collective."""
        if "count" not in self.cuts.made:
            self.cuts.made["count"] = int(sum_over_ranks(self.secants.comm, len(self.cuts)))
        return cast(int, self.cuts.made["count"])

    def placed(self) -> Self:
        """With the cuts at their ranks: a run that was saved may go on on others.  Collective."""
        layout, cuts = self.secants.layout, self.cuts
        if "active" in cuts.made:  # they are in use
            return self
        ranks = holders(layout, cuts.pairs)
        if not any_over_ranks(layout.comm, bool((ranks != layout.comm.rank).any())):
            return self
        routes = RowRoutes(layout.comm, ranks)
        keys = np.stack(np.divmod(cuts.dropped, layout.rows), axis=1)
        dual, pairs, lengths, idle = (
            routes.deliver(rows) for rows in (self.dual, cuts.pairs, cuts.lengths, cuts.idle)
        )
        dropped = np.sort(RowRoutes(layout.comm, holders(layout, keys)).deliver(cuts.dropped))
        return replace(self, dual=dual, cuts=Cuts(pairs, lengths, idle, dropped))


S = TypeVar("S", bound=SearchState)


@dataclass(frozen=True)
class Inner:
    """Result of a method's work on the cuts.

    ``met``: the target holds on them; ``failed``: the method gives this attempt up;
    ``capped``: because its limit of iterations was reached; ``separate``: a separation
    round is due though the target does not hold yet.
    """

    psi: np.ndarray
    met: bool
    failed: bool
    delta: float
    evaluations: int
    capped: bool = False
    separate: bool = False
