"""State of a search for a near-isometry, and what a method reports of its work on the cuts."""

import sys
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar, cast

import numpy as np

from thalweg.engines.secants import Scan, SecantConstraints, SecantSet
from thalweg.interfaces import TRANSIENT, OwnRows, SolverState
from thalweg.parallel import RowRoutes, any_over_ranks, sum_over_ranks
from thalweg_isometry.active import ActiveSecants, holders
from thalweg_isometry.brackets import DeltaBracket, RankBracket
from thalweg_isometry.cutting_planes import Cuts, Progress, Subsets


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
    #: Which of the run's attempts it is, from 1, and inner iterations so far.
    number: int = 1
    iterations: int = 0
    met: bool = False  # whether the target holds on the cuts
    perturbed: int = 0  # attempts before it with the same targets, from which noise made its map
    violated: int = sys.maxsize  # violated secants that the last round found
    #: By how much delta on the cuts missed its target at each complete scan since it was last met,
    #: and after how many inner iterations.
    excesses: tuple[float, ...] = ()
    excesses_at: tuple[int, ...] = ()

    def out_of_reach(self, iterations: int) -> bool:
        """Whether delta on the cuts, at the rate so far, stays above its target.

        ``iterations`` is what the attempt may take; half as much again is allowed for, since
        attempts that succeed are fastest in the end.
        """
        if len(self.excesses) < 4 or self.excesses_at[-1] < 60:
            return False
        at = np.array(self.excesses_at, dtype=float)
        least = np.minimum.accumulate(np.maximum(self.excesses, 1e-12))
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
    #: The bracket on the rank; the lower end of that on delta, whose upper is that of ``best``.
    bracket: RankBracket
    failed_delta: float = 0.0
    #: Whether attempts lower delta at a given rank: where none is wanted, or where the wanted one
    #: was missed.
    lowering: bool = False
    cuts: Cuts  # this rank's cuts
    dual: OwnRows  # multiplier of each, for the methods that have one
    stride: int = 1  # every so many points make the subset of the present attempt
    #: Of each subset that is done, the number of its points and about the least rank there.
    least_ranks: tuple[tuple[int, float], ...] = ()
    best: MeasuredMap  # best map that a complete scan of all secants confirmed
    served: np.ndarray  # map that served the present subset at the least rank so far
    closest: MeasuredMap  # map of least delta seen by a complete scan, a success or not
    fraction: float = 1.0  # share of the tiles that the next scan takes
    progress: Progress = field(default_factory=Progress)  # of the present scan
    #: Delta of the last scan, the rank of its map, and the number of pairs.
    delta: float = float("nan")
    scanned_rank: int = 0
    scanned: int = 0
    #: Delta on the cuts, and residuals of the methods that have some.
    active_delta: float = float("nan")
    residual: float = float("nan")
    dual_residual: float = float("nan")
    #: Attempts that failed; attempts that ended at the limit of inner iterations.
    failures: int = 0
    capped: int = 0
    #: Evaluations so far times cuts, and those until ``best`` was confirmed.
    work: float = 0.0
    best_work: float = 0.0
    gave_up: bool = False  # whether the option ``effort`` ended the search
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
    def subset_size(self) -> int:
        """Number of points of the present subset."""
        return -(-self.secants.n_points // self.stride)

    @property
    def delta_bracket(self) -> DeltaBracket:
        """The bracket on delta."""
        return DeltaBracket(self.failed_delta, self.best.delta)

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


S = TypeVar("S", bound=SearchState)


def placed(state: S) -> S:
    """The state with its cuts at their ranks: a run that was saved may go on on others.

    Collective.
    """
    layout, cuts = state.secants.layout, state.cuts
    if "active" in cuts.made:  # they are in use
        return state
    ranks = holders(layout, cuts.pairs)
    if not any_over_ranks(layout.comm, bool((ranks != layout.comm.rank).any())):
        return state
    routes = RowRoutes(layout.comm, ranks)
    keys = np.stack(np.divmod(cuts.dropped, layout.rows), axis=1)
    dropped_routes = RowRoutes(layout.comm, holders(layout, keys))
    dual, pairs, lengths, idle = (
        routes.deliver(rows) for rows in (state.dual, cuts.pairs, cuts.lengths, cuts.idle)
    )
    dropped = np.sort(dropped_routes.deliver(cuts.dropped))
    return replace(state, dual=dual, cuts=Cuts(pairs, lengths, idle, dropped))


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
    iterations: int
    evaluations: int
    capped: bool = False
    separate: bool = False
