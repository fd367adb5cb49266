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
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from thalweg import InputError
from thalweg.engines.secants import SecantConstraints
from thalweg.errors import CheckpointError
from thalweg.interfaces import Objective
from thalweg.parallel import Array, agreed
from thalweg.plugins import Help, check_declared
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants, hinge_value, measured
from thalweg_isometry.brackets import DeltaBracket, RankBracket, predicted_rank
from thalweg_isometry.certificate import lower_bound
from thalweg_isometry.cutting_planes import Cuts, Separation
from thalweg_isometry.map_ranks import extended, guessed_rank, sampled_ratios, truncated
from thalweg_isometry.rounds import SeparationRounds, Verdict
from thalweg_isometry.search_state import Inner, S, SearchState, placed

#: With at most so many secants the trace's objective is over all of them; beyond, over
#: the cuts, which bounds it from below.
FEW_SECANTS = 500_000

#: Relative excess of a subset's rank over the least with which it may predict the next.
SHARP = 0.25


@dataclass(frozen=True)
class SecantSearch(SeparationRounds[S]):
    """Base of the solvers; the fields are the options that all have."""

    adjust: Annotated[
        Literal["bracket", "published"],
        Help("how a free rank is sought: closing a bracket, or one by one as published"),
    ] = "bracket"
    start_rank: Annotated[
        int | None, Help("rank of the first attempt; guessed from the data", minimum=1)
    ] = None
    precision: Annotated[float, Help("relative width of a closed bracket on delta", above=0)] = 0.02
    all_below: Annotated[
        int, Help("number of secants up to which all of them are cuts from the start", minimum=0)
    ] = 250_000
    smallest_subset: Annotated[
        int, Help("points of the subset that the search begins with; 0: all points", minimum=0)
    ] = 0

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
    def inner(self, state: S, active: ActiveSecants) -> tuple[S, Inner]:
        """Work on the cuts for a while, from ``state.psi``; and what the method remembers of it."""

    def excess(self, iterations: int) -> float:
        """By how large a share a rank that took so many iterations exceeds the least, or 0."""
        return 0.0

    def begin_attempt(self, state: S) -> S:
        """Prepare what the method remembers for a new target."""
        return state

    # -- the solver ------------------------------------------------------------------------

    def init(self, objective: Objective, x: Array) -> S:
        """Start the search with a scan of the starting map."""
        problem = cast(SecantConstraints, objective)
        secants = problem.secants
        if secants.weighted and not self.weighs:
            raise InputError("this solver takes no weights of secants; use hinge-lbfgs")
        given = x[np.any(x != 0.0, axis=1)]
        top = objective.layout.rows
        delta, rank = problem.wanted_delta, problem.wanted_rank
        smallest = self.smallest_subset if secants.n_pairs > self.all_below else 0
        separation = Separation(secants, smallest, self.cuts_per_round, self.per_row, self.seed)
        stride = separation.strides[0] if delta is not None else 1
        low = 0
        if rank is None:
            assert delta is not None
            low = max(0, lower_bound(secants, delta) - 1)
            rank = self.start_rank or agreed(
                secants.comm, guessed_rank(separation.over(stride), delta, self.adjust)
            )
            rank = int(np.clip(rank, low + 1, top))
        psi = np.zeros((0, secants.dimension))
        state = cast(
            S,
            self.state_type(
                objective=objective,
                x=x,
                value=0.0,
                psi=psi,
                set_digest=secants.digest,
                target_rank=rank,
                target_delta=delta if delta is not None else 1.0,
                failed_rank=low,
                cuts=Cuts(),
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
        psi = self.balanced(state, self.resized(state, given[:rank], rank))
        psi = agreed(secants.comm, psi)
        state = replace(state, psi=psi)
        threshold = self.aim * state.target_delta
        if delta is None:
            # The starting map itself is the first success of the search on delta.
            state, (scan, pairs) = self.scan(replace(state, fraction=1.0), psi, threshold)
            state = self.confirm(state, psi, scan)
            bracket = self._delta_bracket(state)
            ended = Status.CONVERGED.name if bracket.closed(self.precision) else ""
            state = replace(state, target_delta=bracket.next_delta(), ended=ended)
        else:
            state, (scan, pairs) = self.scan(state, psi, threshold)
            # Where it began is no answer.
            state = replace(state, closest=psi[:0], closest_delta=float("inf"))
        if secants.n_pairs <= self.all_below:
            scan = secants.scan(
                psi, 0.0, max_pairs=secants.n_pairs, per_row=secants.n_points, share=True
            )
            pairs = scan.pairs
        state = self.add(state, pairs, scan.lengths)
        if problem.cuts is not None:
            state = self.add(state, *measured(secants, problem.cuts))
        return self._shown(self.begin_attempt(state))

    def step(self, state: S) -> S:
        """Work on the cuts; scan the others, or a part of them, if the target is met there."""
        state = placed(state)
        state, verdict = self.separate(state) if state.begun else self._work(state)
        if verdict is Verdict.SERVED:
            state = self._after_success(state)
        elif verdict is Verdict.FAILED:
            state = self._after_failure(state)
        if state.ended:
            state = self._final(state)
            state.problem.last_cuts = state.cuts.pairs
        return self._shown(state)

    def _work(self, state: S) -> tuple[S, Verdict]:
        """Work on the cuts, and scan the others if that is due."""
        state, done = self.inner(state, state.active)
        state = replace(
            state,
            psi=done.psi,
            active_delta=done.delta,
            evaluations=state.evaluations + done.evaluations,
            attempt_iterations=state.attempt_iterations + done.iterations,
            capped=state.capped + done.capped,
        )
        state = self.approach(state, done.psi, done.delta)
        if done.met or (done.separate and not self.everything_active(state)):
            return self.separate(replace(state, met=done.met))
        if done.failed:
            state, serves = self.nearest_serves(state)
            return state, Verdict.SERVED if serves else Verdict.FAILED
        return state, Verdict.OPEN

    def status(self, state: S) -> Status:
        """Running until the bracket is closed."""
        if state.set_digest != state.secants.digest:
            raise CheckpointError("the checkpoint belongs to another run, whose data differ")
        return Status[state.ended] if state.ended else Status.RUNNING

    def trace_row(self, state: S) -> Mapping[str, float]:
        """Delta of the last scan, rank and targets, cuts, residuals."""
        return {
            "delta": state.delta,
            "rank": float(state.scanned_rank),
            "target_rank": float(state.target_rank),
            "target_delta": state.target_delta,
            "points": float(state.subset_size),
            "active": float(state.count),
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

    # -- searching -------------------------------------------------------------------------

    def _after_success(self, state: S) -> S:
        """Go on after an attempt that reached its target on the present subset."""
        if state.lowering:
            return self._next_delta(state)
        excess = self.excess(state.attempt_iterations)
        bracket = self._rank_bracket(state).after(len(state.psi), served=True, excess=excess)
        state = self._keep(replace(state, served=state.psi), bracket)
        if state.problem.wanted_rank is not None:
            if state.stride > 1:
                return self._next_subset(state, state.problem.wanted_rank)
            return replace(state, ended=Status.CONVERGED.name)
        if state.stride > 1 and self._sharp_enough(state, bracket):
            return self._next_subset(state, None)
        return self._next_rank(state)

    def _after_failure(self, state: S) -> S:
        """Go on after an attempt that did not reach its target."""
        state = replace(state, failures=state.failures + 1)
        missed = state.problem.wanted_rank is not None and not state.lowering
        if missed and len(state.nearest) and self._goes_on_lower(state):
            state = replace(state, lowering=True, fraction=1.0)
            state, _ = self.scan(state, state.nearest, np.inf)
        if state.lowering:
            state = replace(state, failed_delta=state.target_delta)
            if state.closest_delta < state.best_delta:
                state = replace(
                    state,
                    best=state.closest,
                    best_delta=state.closest_delta,
                    best_scan=state.closest_scan,
                )
            return self._next_delta(state)
        if state.problem.wanted_rank is not None:
            return replace(state, ended=Status.TARGET_NOT_REACHED.name)
        bracket = self._rank_bracket(state).after(state.target_rank, served=False)
        state = self._keep(state, bracket)
        if state.stride > 1 and bracket.served and self._sharp_enough(state, bracket):
            return self._next_subset(state, None)
        return self._next_rank(state)

    def _goes_on_lower(self, state: S) -> bool:
        """Whether an attempt that missed delta at the given rank is followed by easier ones.

        What it ends with need not have the least delta there: it fits all cuts a little
        instead of the worst.
        """
        return False

    def _rank_bracket(self, state: S) -> RankBracket:
        top = state.objective.layout.rows
        return RankBracket(top, state.failed_rank, state.served_rank, state.streak, state.excess)

    def _keep(self, state: S, bracket: RankBracket) -> S:
        return replace(
            state,
            failed_rank=bracket.failed,
            served_rank=bracket.served,
            streak=bracket.streak,
            excess=bracket.excess,
        )

    def _sharp_enough(self, state: S, bracket: RankBracket) -> bool:
        """Whether the rank of a subset is known well enough to predict that of the next."""
        return bracket.closed or bracket.served <= (1.0 + SHARP) * bracket.least_expected

    def _next_subset(self, state: S, rank: int | None) -> S:
        """Hand the map and the cuts on to the next larger subset, at a predicted rank."""
        strides, least = state.separation.strides, state.failed_rank + 1
        state = replace(
            state,
            subset_points=(*state.subset_points, state.subset_size),
            subset_ranks=(*state.subset_ranks, self._rank_bracket(state).least_expected),
            stride=strides[strides.index(state.stride) + 1],
            served_rank=0,
            streak=0,
            excess=0.0,
        )
        if rank is None:
            count = state.subset_size
            predicted = predicted_rank(state.subset_points, state.subset_ranks, count)
            rank = int(
                np.clip(agreed(state.secants.comm, predicted), least, state.objective.layout.rows)
            )
        return self._attempt(state, state.served, rank)

    def _next_rank(self, state: S) -> S:
        bracket = self._rank_bracket(state)
        served, failed = bracket.served, bracket.failed
        # The published adjustment ends where a rank fails, but not before one has served.
        stepped_too_low = self.adjust == "published" and failed >= state.target_rank
        if bracket.closed or (stepped_too_low and served):
            done = Status.CONVERGED if served else Status.TARGET_NOT_REACHED
            return replace(state, ended=done.name)
        if self.adjust == "bracket":
            rank = bracket.next_rank()
            if failed and len(state.psi) <= failed < rank:
                # One more row keeps what the attempt reached; a row less loses it.
                nearest = state.nearest if len(state.nearest) else state.psi
                return self._attempt(state, nearest, rank)
        elif served:
            rank = served - 1
        else:
            rank = min(bracket.top, max(failed + 1, int(np.ceil(1.2 * state.target_rank))))
        return self._attempt(state, state.served if served else state.psi, rank)

    def _delta_bracket(self, state: S) -> DeltaBracket:
        return DeltaBracket(state.failed_delta, state.best_delta)

    def _next_delta(self, state: S) -> S:
        bracket = self._delta_bracket(state)
        wanted = state.problem.wanted_delta
        reached = wanted is None or state.best_delta <= wanted
        if bracket.closed(self.precision) or (wanted is not None and reached):
            done = Status.CONVERGED if reached else Status.TARGET_NOT_REACHED
            return replace(state, ended=done.name)
        state = replace(state, target_delta=bracket.next_delta())
        return self._attempt(state, state.best, len(state.best))

    def _attempt(self, state: S, source: np.ndarray, rank: int) -> S:
        """Begin an attempt at this rank from a map of another."""
        psi = self.resized(state, source, rank)
        state = replace(
            state,
            target_rank=rank,
            psi=psi,
            attempts=state.attempts + 1,
            attempt_iterations=0,
            violated=sys.maxsize,
            fraction=state.separation.first_fraction(state.stride),
            excesses=(),
            excesses_at=(),
            dual=np.zeros(len(state.cuts)),
            nearest=psi[:0],
            nearest_delta=float("inf"),
        )
        state = self.begin_attempt(state)
        return replace(state, psi=agreed(state.secants.comm, state.psi))

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

    def _final(self, state: S) -> S:
        """With the map that the run returns: the best confirmed one, or that of least delta."""
        if len(state.best):
            psi, delta = state.best, state.best_delta
        else:
            psi, delta = state.closest, state.closest_delta
            if not len(psi) or state.nearest_delta < delta:
                other = state.nearest if len(state.nearest) else state.psi
                stride, fraction = state.stride, state.fraction
                everything = replace(state, stride=1, fraction=1.0)
                state, (scan, _) = self.scan(everything, other, np.inf)
                state = replace(state, stride=stride, fraction=fraction)
                if scan.delta < delta or not len(psi):
                    psi, delta = other, scan.delta
        return replace(state, psi=psi, delta=delta, scanned_rank=len(psi))

    def _shown(self, state: S) -> S:
        """With the best map as x, and the objective there: over all secants if they are few.

        Whenever a budget ends the run, x is then the best map confirmed so far.
        """
        psi = state.psi if state.ended or not len(state.best) else state.best
        for known, scan in ((state.closest, state.closest_scan), (state.best, state.best_scan)):
            if psi is known and scan is not None:
                # The certificate of x is known, also after later scans and a resumption.
                state.secants.remember(psi, scan)
        x = np.zeros(state.objective.layout.shape)
        x[: len(psi)] = psi
        if state.secants.n_pairs <= FEW_SECANTS:
            return replace(state, x=x, value=state.objective.value(x))
        value = hinge_value(state.active, psi, state.problem.wanted_delta or 0.0)
        return replace(state, x=x, value=value)
