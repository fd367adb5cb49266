"""Base of the solvers: attempts, separation rounds, and the search around them.

A run makes *attempts*: reach a target delta at a target rank.  An attempt works on the
cuts only, then a separation round scans the other secants, adds the worst violated and
goes on, until no secant violates the target (:mod:`~thalweg_isometry.cutting_planes`).
Around the attempts a bracket closes, on the rank if that is free, on delta if that is
free (:mod:`~thalweg_isometry.brackets`; Algorithm 3 of Luo et al. steps down by one
instead, which ``adjust="published"`` does).

Where delta is wanted, the attempts begin with a subset of the points.  What fails there
fails on all points, and the map, the cuts, and the rank predicted from the subsets
before, are handed on to the next larger one.  A map is only ever returned as a success
after a complete scan of all secants.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast

import numpy as np

from thalweg import InputError
from thalweg.interfaces import Objective, SecantConstraints, Solver, SolverState
from thalweg.parallel import Layout, PETSc
from thalweg.parallel.pairs import Scan, SecantSet
from thalweg.plugins import Help, check_declared
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.brackets import DeltaBracket, RankBracket, predicted_rank
from thalweg_isometry.certificate import lower_bound
from thalweg_isometry.cutting_planes import MIN_CUTS, Cuts, Separation, measured
from thalweg_isometry.map_ranks import extended, guessed_rank, sampled_ratios, truncated

#: With at most so many secants the trace's objective is over all of them; beyond, over
#: the cuts, which bounds it from below.
FEW_SECANTS = 500_000

#: Relative excess of a subset's rank over the least with which it may predict the next.
SHARP = 0.25


@dataclass(kw_only=True)
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
    pairs, lengths, idle, dropped
        The cuts.
    dual
        Multiplier of each cut, for the methods that have one.
    stride
        Every so many points make the subset of the present attempt.
    subset_points, subset_ranks
        Sizes of the subsets that are done, and about the least rank there.
    best, best_delta
        Best map that a complete scan of all secants confirmed, and its delta.
    served
        Map that served the present subset at the least rank so far.
    closest, closest_delta
        Map of least delta seen by a complete scan, a success or not.
    nearest, nearest_delta
        Map of this attempt that came nearest to the target on the cuts.
    delta, scanned_rank, scanned
        Delta of the last scan, the rank of its map, and the number of pairs.
    fraction
        Share of the tiles that the next scan takes.
    part, parts, begun, met
        Of the present scan: the next part, their number, what the parts before found, and
        whether the target holds on the cuts.
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
    """

    psi: np.ndarray
    target_rank: int
    target_delta: float
    failed_rank: int = 0
    served_rank: int = 0
    streak: int = 0
    excess: float = 0.0
    failed_delta: float = 0.0
    pairs: np.ndarray
    lengths: np.ndarray
    idle: np.ndarray
    dropped: np.ndarray
    dual: np.ndarray
    stride: int = 1
    subset_points: list[int] = field(default_factory=list)
    subset_ranks: list[float] = field(default_factory=list)
    best: np.ndarray
    best_delta: float = float("inf")
    served: np.ndarray
    closest: np.ndarray
    closest_delta: float = float("inf")
    nearest: np.ndarray
    nearest_delta: float = float("inf")
    delta: float = float("nan")
    scanned_rank: int = 0
    scanned: int = 0
    active_delta: float = float("nan")
    residual: float = float("nan")
    dual_residual: float = float("nan")
    fraction: float = 1.0
    part: int = 0
    parts: int = 1
    begun: dict[str, Any] = field(default_factory=dict)
    met: bool = False
    violated: int = sys.maxsize
    scans: int = 0
    attempts: int = 1
    attempt_iterations: int = 0
    excesses: list[float] = field(default_factory=list)
    excesses_at: list[int] = field(default_factory=list)
    lowering: bool = False
    failures: int = 0
    capped: int = 0
    ended: str = ""
    separation: Separation = field(metadata={"transient": True})
    #: The array of the cuts, and what methods keep while it is the same.
    kept_with: tuple[Any, dict[str, Any]] = field(default=(None, {}), metadata={"transient": True})

    @property
    def cuts(self) -> Cuts:
        """The cuts as a value."""
        return Cuts(self.pairs, self.lengths, self.idle, self.dropped)

    @cuts.setter
    def cuts(self, cuts: Cuts) -> None:
        self.pairs, self.lengths, self.idle, self.dropped = (
            cuts.pairs,
            cuts.lengths,
            cuts.idle,
            cuts.dropped,
        )

    @property
    def kept(self) -> dict[str, Any]:
        """Data that methods keep while the cuts do not change; made anew after a resumption."""
        if self.kept_with[0] is not self.pairs:
            self.kept_with = (self.pairs, {})
        return self.kept_with[1]

    @property
    def problem(self) -> SecantConstraints:
        """The objective, as what the search needs of it."""
        return cast(SecantConstraints, self.objective)

    @property
    def secants(self) -> SecantSet:
        """All secants."""
        return self.problem.secants

    @property
    def active(self) -> ActiveSecants:
        """The cuts as products need them.  Collective."""
        if "active" not in self.kept:
            self.kept["active"] = ActiveSecants(self.secants, self.pairs, self.lengths)
        return cast(ActiveSecants, self.kept["active"])


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
    iterations: int
    evaluations: int
    capped: bool = False
    separate: bool = False


@dataclass(frozen=True)
class SecantSearch(Solver[S], Generic[S]):
    """Base of the solvers; the fields are the options that all have."""

    adjust: Annotated[
        Literal["bracket", "published"],
        Help("how a free rank is sought: closing a bracket, or one by one as published"),
    ] = "bracket"
    start_rank: Annotated[
        int | None, Help("rank of the first attempt; guessed from the data", minimum=1)
    ] = None
    cuts_per_round: Annotated[
        int | None,
        Help(
            "largest number of secants that a separation round adds; 4 per point, but at least "
            "30,000 and at most 500,000",
            minimum=1,
            formerly=("columns",),
        ),
    ] = None
    per_row: Annotated[int, Help("of those, the most for one point in one tile", minimum=1)] = 3
    precision: Annotated[float, Help("relative width of a closed bracket on delta", above=0)] = 0.02
    all_below: Annotated[
        int, Help("number of secants up to which all of them are cuts from the start", minimum=0)
    ] = 250_000
    smallest_subset: Annotated[
        int, Help("points of the subset that the search begins with; 0: all points", minimum=0)
    ] = 0
    seed: Annotated[int, Help("seed of the choice of tiles in sampled scans", minimum=0)] = 0

    requires = (SecantConstraints,)
    decreases: ClassVar[bool] = False
    trace_columns: ClassVar[tuple[str, ...]] = (
        "delta",
        "rank",
        "target_rank",
        "target_delta",
        "points",
        "active",
        "active_delta",
        "scanned",
        "residual",
        "dual_residual",
    )

    #: Share of the wanted delta that a method aims at, so that unseen secants fit too.
    aim: ClassVar[float] = 0.9

    #: Whether secants may have weights.
    weighs: ClassVar[bool] = False

    #: Name of the option that limits the inner iterations of an attempt.
    limit_option: ClassVar[str] = "limit"

    #: Class of the state, with what the method remembers.
    state_type: ClassVar[type[Any]] = SearchState

    def __post_init__(self) -> None:
        check_declared(self)

    # -- what a method defines -------------------------------------------------------------

    @abstractmethod
    def inner(self, state: S, active: ActiveSecants) -> Inner:
        """Work on the cuts for a while, from ``state.psi``."""

    def excess(self, iterations: int) -> float:
        """By how large a share a rank that took so many iterations exceeds the least, or 0."""
        return 0.0

    def begin_attempt(self, state: S) -> None:
        """Prepare what the method remembers for a new target."""

    # -- the solver ------------------------------------------------------------------------

    def init(self, objective: Objective, x: PETSc.Vec) -> S:
        """Start the search with a scan of the starting map."""
        problem = cast(SecantConstraints, objective)
        secants = problem.secants
        if secants.weighted and not self.weighs:
            raise InputError(
                f"solver {type(self).__name__} takes no weights of secants; use hinge-lbfgs"
            )
        rows = np.array(objective.layout.reading(x))
        given = rows[np.any(rows != 0.0, axis=1)]
        top = objective.layout.rows
        delta, rank = problem.wanted_delta, problem.wanted_rank
        smallest = self.smallest_subset if secants.n_pairs > self.all_below else 0
        separation = Separation(secants, smallest, self.cuts_per_round, self.per_row, self.seed)
        stride = separation.strides[0] if delta is not None else 1
        low = 0
        if rank is None:
            assert delta is not None
            low = max(0, lower_bound(secants, delta) - 1)
            rank = self.start_rank or guessed_rank(separation.over(stride), delta, self.adjust)
            rank = int(np.clip(rank, low + 1, top))
        empty = Cuts()
        psi = np.zeros((0, secants.dimension))
        state = cast(
            S,
            self.state_type(
                objective=objective,
                x=x,
                value=0.0,
                psi=psi,
                target_rank=rank,
                target_delta=delta if delta is not None else 1.0,
                failed_rank=low,
                pairs=empty.pairs,
                lengths=empty.lengths,
                idle=empty.idle,
                dropped=empty.dropped,
                dual=np.empty(0),
                best=psi,
                served=psi,
                closest=psi,
                nearest=psi,
                separation=separation,
                lowering=delta is None,
                stride=stride,
                fraction=separation.first_fraction(stride),
            ),
        )
        # Orthonormal rows have no leading eigenvectors: the first rows are the leading ones.
        given = given if len(given) else secants.directions
        state.psi = self.balanced(state, self.resized(state, given[:rank], rank))
        threshold = self.aim * state.target_delta
        if delta is None:
            # The starting map itself is the first success of the search on delta.
            state.fraction = 1.0
            scan, pairs = self.scan(state, state.psi, threshold)
            self.confirm(state, state.psi, scan)
            state.target_delta = self._delta_bracket(state).next_delta()
        else:
            scan, pairs = self.scan(state, state.psi, threshold)
            state.closest, state.closest_delta = psi, float("inf")  # where it began is no answer
        if secants.n_pairs <= self.all_below:
            scan = secants.scan(
                state.psi, threshold=0.0, max_pairs=secants.n_pairs, per_row=secants.n_points
            )
            pairs = scan.pairs
        self.add(state, pairs, scan.lengths)
        if problem.cuts is not None:
            self.add(state, *measured(secants, problem.cuts))
        self.begin_attempt(state)
        self._show(state)
        return state

    def step(self, state: S) -> S:
        """Work on the cuts; scan the others, or a part of them, if the target is met there."""
        if state.begun:
            if self._separate(state):
                self._serve(state)
            self._show(state)
            return state
        done = self.inner(state, state.active)
        state.psi = done.psi
        state.active_delta = done.delta
        state.evaluations += done.evaluations
        state.attempt_iterations += done.iterations
        state.capped += done.capped
        self.approach(state, done.psi, done.delta)
        if done.met or (done.separate and not self.everything_active(state)):
            state.met = done.met
            if self._separate(state):
                self._serve(state)
        elif done.failed:
            if self._nearest_serves(state):
                self._serve(state)
            else:
                self._fail(state)
        if state.ended:
            state.psi = self._final(state)
            state.problem.last_cuts = state.pairs
        self._show(state)
        return state

    def status(self, state: S) -> Status:
        """Running until the bracket is closed."""
        return Status[state.ended] if state.ended else Status.RUNNING

    def trace_row(self, state: S) -> Mapping[str, float]:
        """Delta of the last scan, rank and targets, cuts, residuals."""
        return {
            "delta": state.delta,
            "rank": float(state.scanned_rank),
            "target_rank": float(state.target_rank),
            "target_delta": state.target_delta,
            "points": float(self._n_points(state)),
            "active": float(len(state.pairs)),
            "active_delta": state.active_delta,
            "scanned": float(state.scanned),
            "residual": state.residual,
            "dual_residual": state.dual_residual,
        }

    def notes(self, state: S) -> Sequence[str]:
        """Which rank failed, and whether attempts ended because of their limit of iterations."""
        notes = []
        served, failed = state.served_rank, state.failed_rank
        if state.problem.wanted_rank is None and state.failures and state.stride == 1 and served:
            notes.append(
                f"no attempt at rank {failed} or below reached delta, which proves nothing of "
                f"other methods; rank {served} did"
            )
        if state.capped:
            notes.append(
                f"{state.capped} of {state.attempts} attempts ended at the limit of "
                f"{getattr(self, self.limit_option)} inner iterations "
                f"(option '{self.limit_option}'), not by themselves"
            )
        return notes

    # -- separation ------------------------------------------------------------------------

    def scan(self, state: S, psi: np.ndarray, threshold: float) -> tuple[Scan, np.ndarray]:
        """Scan the present subset for secants that reach the threshold; and their numbers.

        A complete scan of all secants is remembered if no other saw a lower delta.
        """
        found = self.scan_part(state, psi, threshold)
        while found is None:
            found = self.scan_part(state, psi, threshold)
        return found

    def scan_part(
        self, state: S, psi: np.ndarray, threshold: float
    ) -> tuple[Scan, np.ndarray] | None:
        """As :meth:`scan`, a part of it at each call; None before the last."""
        separation = state.separation
        if not state.begun:
            state.scans += 1
            state.part = 0
            state.parts = separation.parts(state.stride, state.fraction, len(psi))
        before = Scan(**state.begun) if state.begun else None
        scan, pairs = separation.scan(
            psi,
            state.stride,
            state.fraction,
            threshold,
            state.scans,
            (state.part, state.parts),
            before,
        )
        state.scanned_rank = len(psi)
        state.delta, state.scanned = scan.delta, scan.n_pairs
        state.part += 1
        state.begun = vars(scan) if state.part < state.parts else {}
        if state.begun:
            return None
        if scan.complete and state.stride == 1 and scan.delta < state.closest_delta:
            state.closest, state.closest_delta = psi, scan.delta
        return scan, pairs

    def everything_active(self, state: S) -> bool:
        """Whether every secant is a cut."""
        return len(state.pairs) >= state.secants.n_pairs

    def _separate(self, state: S) -> bool:
        """One round or a part of it; whether a complete scan of the subset found none violated."""
        goal, met = state.target_delta, state.met
        # Secants that are nearly violated are taken too: it spares scans.  Where few are left
        # the cuts of earlier rounds are enough of those.
        share = 0.8 if state.violated > 0.01 * self._n_points(state) else 0.95
        found = self.scan_part(state, state.psi, share * goal)
        if found is None:
            return False
        scan, pairs = found
        before = len(state.pairs)
        self.add(state, pairs, scan.lengths)
        added = len(state.pairs) - before
        violated = state.violated = int((np.abs(scan.distortions) > goal).sum())
        if scan.complete:
            if met:
                state.excesses, state.excesses_at = [], []
            else:
                # Not delta of the scan: one pair that no cut is near says nothing of the rank.
                state.excesses = [*state.excesses, state.active_delta - goal]
                state.excesses_at = [*state.excesses_at, state.attempt_iterations]
            if scan.delta <= goal:
                if state.stride == 1:
                    self.confirm(state, state.psi, scan)
                return True
            if added == 0 and met:
                # Everything that violates is a cut already: the margins were too thin.
                self._fail(state)
                return False
        state.fraction = state.separation.next_fraction(state.stride, scan, violated)
        if added and len(state.pairs) > (self.cuts_per_round or MIN_CUTS):
            self._drop(state)
        return False

    def out_of_reach(self, state: S, iterations: int) -> bool:
        """Whether delta on the cuts, at the rate of this attempt, stays above its target.

        ``iterations`` is what the attempt may take; half as much again is allowed for, since
        attempts that succeed are fastest in the end.
        """
        if len(state.excesses) < 4 or state.excesses_at[-1] < 60:
            return False
        at = np.array(state.excesses_at, dtype=float)
        least = np.minimum.accumulate(np.maximum(state.excesses, 1e-12))
        half = int(np.searchsorted(at, 0.5 * at[-1], side="right")) - 1
        half = max(0, min(half, len(at) - 2))
        rate = np.log(least[half] / least[-1]) / max(1.0, at[-1] - at[half])
        left = 1.5 * max(0.0, iterations - at[-1])
        return bool(np.log(least[-1] / (0.02 * state.target_delta)) > rate * left)

    def add(self, state: S, pairs: np.ndarray, lengths: np.ndarray) -> None:
        """Make these secants cuts, if they are not."""
        before = len(state.pairs)
        cuts = state.cuts.added(pairs, lengths, state.secants.n_points)
        if len(cuts) == before:
            return
        state.cuts = cuts
        state.dual = np.concatenate([state.dual, np.zeros(len(cuts) - before)])
        # What was measured on fewer secants can no longer be compared.
        state.nearest, state.nearest_delta = state.nearest[:0], float("inf")

    def _drop(self, state: S) -> None:
        """Drop the cuts that have been far inside for several rounds."""
        change = state.active.ratios(state.active.images(state.psi)) - 1.0
        cuts, keep = state.cuts.aged(change, state.target_delta, state.secants.n_points)
        if keep.all():
            state.idle = cuts.idle
        else:
            state.cuts, state.dual = cuts, state.dual[keep]

    def approach(self, state: S, psi: np.ndarray, delta: float) -> None:
        """Remember the map if no other of this attempt has a lower delta on the cuts."""
        if delta < state.nearest_delta:
            state.nearest, state.nearest_delta = psi, delta

    def _nearest_serves(self, state: S) -> bool:
        """Whether the best map that a failing attempt passed on its way is worth having.

        A method need not end at the best of its iterates, and may aim below what it
        must reach.  Where delta is free, whatever is below the best delta is a gain.
        """
        limit = state.best_delta if state.lowering else state.target_delta
        if state.nearest_delta > limit:
            return False
        nearest = state.nearest
        state.fraction = 1.0
        scan, pairs = self.scan(state, nearest, self.aim * state.target_delta)
        self.add(state, pairs, scan.lengths)
        if scan.delta > state.target_delta:
            return False
        state.psi = nearest
        if state.stride == 1:
            self.confirm(state, nearest, scan)
        return True

    def confirm(self, state: S, psi: np.ndarray, scan: Scan) -> None:
        """Take over a map that a complete scan of all secants found to serve."""
        state.best, state.best_delta = psi, scan.delta

    # -- searching -------------------------------------------------------------------------

    def _serve(self, state: S) -> None:
        """Go on after an attempt that reached its target on the present subset."""
        if state.lowering:
            self._next_delta(state)
            return
        state.served = state.psi
        excess = self.excess(state.attempt_iterations)
        bracket = self._rank_bracket(state).after(len(state.psi), served=True, excess=excess)
        self._keep(state, bracket)
        if state.problem.wanted_rank is not None:
            if state.stride > 1:
                self._next_subset(state, state.problem.wanted_rank)
            else:
                state.ended = Status.CONVERGED.name
        elif state.stride > 1 and self._sharp_enough(state, bracket):
            self._next_subset(state, None)
        else:
            self._next_rank(state)

    def _fail(self, state: S) -> None:
        """Go on after an attempt that did not reach its target."""
        state.failures += 1
        missed = state.problem.wanted_rank is not None and not state.lowering
        if missed and len(state.nearest) and self._goes_on_lower(state):
            state.lowering = True
            state.fraction = 1.0
            self.scan(state, state.nearest, np.inf)
        if state.lowering:
            state.failed_delta = state.target_delta
            if state.closest_delta < state.best_delta:
                state.best, state.best_delta = state.closest, state.closest_delta
            self._next_delta(state)
        elif state.problem.wanted_rank is not None:
            state.ended = Status.TARGET_NOT_REACHED.name
        else:
            bracket = self._rank_bracket(state).after(state.target_rank, served=False)
            self._keep(state, bracket)
            if state.stride > 1 and bracket.served and self._sharp_enough(state, bracket):
                self._next_subset(state, None)
            else:
                self._next_rank(state)

    def _goes_on_lower(self, state: S) -> bool:
        """Whether an attempt that missed delta at the given rank is followed by easier ones.

        What it ends with need not have the least delta there: it fits all cuts a little
        instead of the worst.
        """
        return False

    def _rank_bracket(self, state: S) -> RankBracket:
        top = state.objective.layout.rows
        return RankBracket(top, state.failed_rank, state.served_rank, state.streak, state.excess)

    def _keep(self, state: S, bracket: RankBracket) -> None:
        state.failed_rank, state.served_rank = bracket.failed, bracket.served
        state.streak, state.excess = bracket.streak, bracket.excess

    def _sharp_enough(self, state: S, bracket: RankBracket) -> bool:
        """Whether the rank of a subset is known well enough to predict that of the next."""
        return bracket.closed or bracket.served <= (1.0 + SHARP) * bracket.least_expected

    def _next_subset(self, state: S, rank: int | None) -> None:
        """Hand the map and the cuts on to the next larger subset, at a predicted rank."""
        separation, least = state.separation, state.failed_rank + 1
        state.subset_points = [*state.subset_points, self._n_points(state)]
        state.subset_ranks = [*state.subset_ranks, self._rank_bracket(state).least_expected]
        strides = separation.strides
        state.stride = strides[strides.index(state.stride) + 1]
        state.served_rank = state.streak = 0
        state.excess = 0.0
        if rank is None:
            count = self._n_points(state)
            predicted = predicted_rank(state.subset_points, state.subset_ranks, count)
            rank = int(np.clip(predicted, least, state.objective.layout.rows))
        self._attempt(state, state.served, rank)

    def _next_rank(self, state: S) -> None:
        bracket = self._rank_bracket(state)
        served, failed = bracket.served, bracket.failed
        # The published adjustment ends where a rank fails, but not before one has served.
        stepped_too_low = self.adjust == "published" and failed >= state.target_rank
        if bracket.closed or (stepped_too_low and served):
            done = Status.CONVERGED if served else Status.TARGET_NOT_REACHED
            state.ended = done.name
            return
        if self.adjust == "bracket":
            rank = bracket.next_rank()
            if failed and len(state.psi) <= failed < rank:
                # One more row keeps what the attempt reached; a row less loses it.
                self._attempt(state, state.nearest if len(state.nearest) else state.psi, rank)
                return
        elif served:
            rank = served - 1
        else:
            rank = min(bracket.top, max(failed + 1, int(np.ceil(1.2 * state.target_rank))))
        self._attempt(state, state.served if served else state.psi, rank)

    def _delta_bracket(self, state: S) -> DeltaBracket:
        return DeltaBracket(state.failed_delta, state.best_delta)

    def _next_delta(self, state: S) -> None:
        bracket = self._delta_bracket(state)
        wanted = state.problem.wanted_delta
        reached = wanted is None or state.best_delta <= wanted
        if bracket.closed(self.precision) or (wanted is not None and reached):
            state.ended = (Status.CONVERGED if reached else Status.TARGET_NOT_REACHED).name
            return
        state.target_delta = bracket.next_delta()
        self._attempt(state, state.best, len(state.best))

    def _attempt(self, state: S, source: np.ndarray, rank: int) -> None:
        """Begin an attempt at this rank from a map of another."""
        state.target_rank = rank
        state.psi = self.resized(state, source, rank)
        state.attempts += 1
        state.attempt_iterations = 0
        state.violated = sys.maxsize
        state.fraction = state.separation.first_fraction(state.stride)
        state.excesses, state.excesses_at = [], []
        state.dual = np.zeros(len(state.pairs))
        state.nearest, state.nearest_delta = state.psi[:0], float("inf")
        self.begin_attempt(state)

    def resized(self, state: S, psi: np.ndarray, rank: int) -> np.ndarray:
        """A map of another rank near ``psi``: truncated, or extended by principal directions."""
        if len(psi) >= rank:
            return truncated(psi, rank)
        return extended(psi, rank, state.secants.directions, self.seed)

    def balanced(self, state: S, psi: np.ndarray) -> np.ndarray:
        """The map scaled so that its lengthening and shortening of sampled secants are alike."""
        _, points = state.secants.sample(600)
        ratio = sampled_ratios(points, psi)
        if len(ratio) and ratio.max() > 0:
            psi = psi * np.sqrt(2.0 / (ratio.max() + ratio.min()))
        return psi

    def _final(self, state: S) -> np.ndarray:
        """The map that the run returns: the best confirmed one, or else that of least delta."""
        if len(state.best):
            psi, delta = state.best, state.best_delta
        else:
            psi, delta = state.closest, state.closest_delta
            if not len(psi) or state.nearest_delta < delta:
                other = state.nearest if len(state.nearest) else state.psi
                stride, fraction = state.stride, state.fraction
                state.stride, state.fraction = 1, 1.0
                found = self.scan(state, other, np.inf)[0].delta
                state.stride, state.fraction = stride, fraction
                if found < delta or not len(psi):
                    psi, delta = other, found
        state.delta, state.scanned_rank = delta, len(psi)
        return psi

    def _n_points(self, state: S) -> int:
        return -(-state.secants.n_points // state.stride)

    def _show(self, state: S) -> None:
        """Put the best map into x, and the objective there: over all secants if they are few.

        Whenever a budget ends the run, x is then the best map confirmed so far.
        """
        psi = state.psi if state.ended or not len(state.best) else state.best
        layout: Layout = state.objective.layout
        with layout.writing(state.x) as rows:
            rows[...] = 0.0
            rows[: len(psi)] = psi
        if state.secants.n_pairs <= FEW_SECANTS:
            state.value = state.objective.value(state.x)
            return
        change = np.abs(state.active.ratios(state.active.images(psi)) - 1.0)
        theta = state.problem.wanted_delta or 0.0
        miss = np.maximum(change - theta, 0.0)
        state.value = 0.5 * float(miss @ miss)
