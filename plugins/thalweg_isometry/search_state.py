"""State of a search for a near-isometry, and what a method reports of its work on the cuts."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from thalweg.engines.secants import Scan, SecantConstraints, SecantSet
from thalweg.interfaces import TRANSIENT, OwnRows, SolverState
from thalweg.parallel import RowRoutes, any_over_ranks, sum_over_ranks
from thalweg_isometry.active import ActiveSecants, holders
from thalweg_isometry.cutting_planes import Cuts, Separation


@dataclass(frozen=True, kw_only=True)
class SearchState(SolverState):
    """State of a search; see :class:`SolverState`.

    Attributes
    ----------
    psi
        Present map, shape ``(rank, dimension)``.
    target_rank, target_delta
        Targets of the present attempt.
    failed_rank, served_rank, streak, excess
        The bracket on the rank.
    failed_delta
        Lower end of the bracket on delta; the upper is ``best_delta``.
    cuts
        This rank's cuts.
    dual
        Multiplier of each, for the methods that have one.
    stride
        Every so many points make the subset of the present attempt.
    subset_points, subset_ranks
        Sizes of the subsets that are done, and about the least rank there.
    best, best_delta, best_scan
        Best map that a complete scan of all secants confirmed, its delta, and the facts of that
        scan but for the pairs.
    served
        Map that served the present subset at the least rank so far.
    closest, closest_delta, closest_scan
        Map of least delta seen by a complete scan, a success or not.
    nearest, nearest_delta
        Map of this attempt that came nearest to the target on the cuts.
    delta, scanned_rank, scanned
        Delta of the last scan, the rank of its map, and the number of pairs.
    fraction
        Share of the tiles that the next scan takes.
    first, part, parts, begun, begun_found, met
        Of the present scan: where it began, the next part, their number, what the parts before
        found, the worst pairs in columns i, j, distortion and squared length, and whether the
        target holds on the cuts.
    violated
        Violated secants that the last round of this attempt found.
    attempt_iterations
        Inner iterations of this attempt.
    excesses, excesses_at
        By how much delta on the cuts missed its target at each complete scan since it was
        last met, and after how many inner iterations.
    lowering
        Whether attempts lower delta at a given rank: where none is wanted, or where the wanted
        one was missed.
    failures, capped
        Attempts that failed; attempts that ended at the limit of inner iterations.
    ended
        Name of the status once the search is over.
    separation
        The oracle.
    set_digest
        Digest of the secants, to which all scans belong.
    """

    psi: np.ndarray
    set_digest: str
    target_rank: int
    target_delta: float
    failed_rank: int = 0
    served_rank: int = 0
    streak: int = 0
    excess: float = 0.0
    failed_delta: float = 0.0
    cuts: Cuts
    dual: OwnRows
    stride: int = 1
    subset_points: tuple[int, ...] = ()
    subset_ranks: tuple[float, ...] = ()
    best: np.ndarray
    best_delta: float = float("inf")
    best_scan: Scan | None = None
    served: np.ndarray
    closest: np.ndarray
    closest_delta: float = float("inf")
    closest_scan: Scan | None = None
    nearest: np.ndarray
    nearest_delta: float = float("inf")
    delta: float = float("nan")
    scanned_rank: int = 0
    scanned: int = 0
    active_delta: float = float("nan")
    residual: float = float("nan")
    dual_residual: float = float("nan")
    fraction: float = 1.0
    first: int = 0
    part: int = 0
    parts: int = 1
    begun: dict[str, Any] = field(default_factory=dict)
    begun_found: OwnRows = field(default_factory=lambda: np.empty((0, 4)))
    met: bool = False
    violated: int = sys.maxsize
    scans: int = 0
    attempts: int = 1
    attempt_iterations: int = 0
    excesses: tuple[float, ...] = ()
    excesses_at: tuple[int, ...] = ()
    lowering: bool = False
    failures: int = 0
    capped: int = 0
    ended: str = ""
    separation: Separation = field(metadata=TRANSIENT)

    @property
    def problem(self) -> SecantConstraints:
        """The objective, as what the search needs of it."""
        return cast(SecantConstraints, self.objective)

    @property
    def secants(self) -> SecantSet:
        """All secants."""
        return self.problem.secants

    @property
    def subset_size(self) -> int:
        """Number of points of the present subset."""
        return -(-self.secants.n_points // self.stride)

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
    held = holders(layout, cuts.pairs)
    if not any_over_ranks(layout.comm, bool((held != layout.comm.rank).any())):
        return state
    routes = RowRoutes(layout.comm, held)
    keys = np.stack(np.divmod(cuts.dropped, layout.rows), axis=1)
    gone = RowRoutes(layout.comm, holders(layout, keys))
    dual, pairs, lengths, idle = (
        routes.deliver(rows) for rows in (state.dual, cuts.pairs, cuts.lengths, cuts.idle)
    )
    dropped = np.sort(gone.deliver(cuts.dropped))
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
