"""Base of the solvers: attempts, separation rounds, and the search around them.

An *attempt* is to reach a target delta at a target rank.  It works on the cuts only, then a
separation round scans the other secants (:mod:`~thalweg_isometry.cutting_planes`).  Around the
attempts a bracket closes, on the rank or on delta (:mod:`~thalweg_isometry.brackets`).  Attempts
begin with a subset of the points: what fails there fails on all, and map, cuts and a predicted rank
are handed on.  A map is only returned as a success after a complete scan of all secants.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from thalweg import InputError
from thalweg.engines.secants import SecantConstraints, SecantSet
from thalweg.errors import CheckpointError
from thalweg.interfaces import Objective
from thalweg.parallel import Array, agreed
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants, hinge_value, measured
from thalweg_isometry.brackets import RankBracket, predicted_rank
from thalweg_isometry.certificate import lower_bound
from thalweg_isometry.cutting_planes import Cuts, Subsets
from thalweg_isometry.map_ranks import (
    eigengap_rank,
    extended,
    guessed_rank,
    sampled_ratios,
    truncated,
)
from thalweg_isometry.search_state import Attempt, Inner, MeasuredMap, S, SearchState, Verdict
from thalweg_isometry.separation_rounds import SeparationRounds

#: With at most so many secants the trace's objective is over all of them; beyond, over
#: the cuts, which bounds it from below; chosen by hand.
FEW_SECANTS = 500_000

#: Columns of the trace, and where the state has them.
TRACED = {
    "delta": "delta", "rank": "scanned_rank", "best_rank": "best_rank", "best_delta": "best.delta",
    "target_rank": "attempt.rank", "target_delta": "attempt.delta", "points": "subset.n_points",
    "active": "count", "active_delta": "active_delta", "scanned": "scanned",
    "residual": "residual", "dual_residual": "dual_residual",
}  # fmt: skip

#: How a free rank is sought.
Adjust = Literal["bracket", "published", "eigengap"]

#: Norm of the noise of a map that failed (Luo et al., section 8.2), relative to the map's.
NOISE = 0.1

#: Relative excess of a subset's rank over the least with which it may predict the next, and of the
#: rank at which all points begin, from three sets (hpc/results/notes/isometry.md); by hand.
SHARP, FINAL_RISE = 0.25, 0.03


@dataclass(frozen=True)
class SecantSearch(SeparationRounds[S]):
    """Base of the solvers; the fields are the options that all have."""

    adjust: Annotated[
        Adjust,
        Help("how a free rank is sought: bracket, one by one, or where eigenvalues fall most"),
    ] = "bracket"
    perturbations: Annotated[
        int, Help("attempts from a map with noise after each that fails at a rank", minimum=0)
    ] = 0
    effort: Annotated[
        float | None,
        Help("ends the search where a lower rank takes so many times all work before", above=0),
    ] = None
    start_rank: Annotated[int | None, Help("first rank; guessed from the data", minimum=1)] = None
    precision: Annotated[float, Help("relative width of a closed bracket on delta", above=0)] = 0.02
    all_below: Annotated[
        int, Help("number of secants up to which all of them are cuts from the start", minimum=0)
    ] = 250_000
    smallest_subset: Annotated[
        int, Help("points of the subset that the search begins with; 0: all points", minimum=0)
    ] = 0

    requires = (SecantConstraints,)
    decreases: ClassVar[bool] = False
    trace_columns: ClassVar[tuple[str, ...]] = tuple(TRACED)
    shown_columns: ClassVar[tuple[str, ...]] = ("best_rank", "best_delta", "target_rank")

    weighs: ClassVar[bool] = True  # whether secants may have weights
    keeps_neighbors: ClassVar[bool] = False  # whether the goal is that, in place of delta

    #: Whether an attempt that missed delta at the given rank is followed by easier ones: what it
    #: ends with need not have the least delta there, but fits all cuts a little.
    lowers_missed: ClassVar[bool] = False

    #: Name of the option that limits the inner iterations of an attempt.
    limit_option: ClassVar[str] = "limit"

    #: Class of the state, with what the method remembers.
    state_type: ClassVar[type[Any]] = SearchState

    # -- what a method defines -------------------------------------------------------------

    @abstractmethod
    def inner(self, state: S, active: ActiveSecants) -> tuple[S, Inner]:
        """Work on the cuts for a while, from ``state.psi``; and what the method remembers of it."""

    def excess(self, iterations: int) -> float:
        """By how large a share a rank that took so many iterations exceeds the least, or 0."""
        return 0.0

    def first_rank(self, problem: SecantConstraints, secants: SecantSet) -> int:
        """Rank of the first attempt, if it is not given, by the secants of a subset."""
        assert problem.wanted_delta is not None
        return guessed_rank(secants, problem.wanted_delta, self.adjust)

    def begin_attempt(self, state: S) -> S:
        """Prepare what the method remembers for a new target."""
        return state

    # -- the solver ------------------------------------------------------------------------

    def init(self, objective: Objective, x: Array) -> S:
        problem = cast(SecantConstraints, objective)
        secants = problem.secants
        if secants.weighted and not self.weighs:
            raise InputError("this solver takes no weights of secants; use another, as hinge-lbfgs")
        if (getattr(problem, "neighbors", None) is not None) != self.keeps_neighbors:
            raise InputError("n_candidates and solver candidate-rounds go together; give both")
        state = self._first_state(objective, x)
        start = x[np.any(x != 0.0, axis=1)]
        # Orthonormal rows have no leading eigenvectors: the first rows are the leading ones.
        start, rank = start if len(start) else secants.directions, state.attempt.rank
        psi = self.balanced(state, self.resized(state, start[:rank], rank))
        psi = agreed(secants.comm, psi)
        state = replace(state, psi=psi)
        threshold = self.aim * state.attempt.delta
        if state.lowering:
            # The starting map itself is the first success of the search on delta.
            state, (scan, pairs) = self.scan(replace(state, fraction=1.0), psi, threshold)
            state = self.confirm(state, scan)
            bracket = state.delta_bracket
            if bracket.is_closed(self.precision):
                state = replace(state, outcome=Status.CONVERGED)
            state = state.in_attempt(delta=bracket.next_delta())
        else:
            state, (scan, pairs) = self.scan(state, psi, threshold)
            # Where it began is no answer.
            state = replace(state, closest=MeasuredMap(psi[:0]))
        if secants.n_pairs <= self.all_below:
            scan = secants.scan(psi, 0.0, secants.n_pairs, per_row=secants.n_points, share=True)
            pairs = scan.pairs
        state = self.add(state, pairs, scan.lengths)
        if problem.cuts is not None:
            state = self.add(state, *measured(secants, problem.cuts))
        return self._shown(self.begin_attempt(state))

    def _first_state(self, objective: Objective, x: Array) -> S:
        """The state before any work, with no map yet."""
        problem = cast(SecantConstraints, objective)
        secants, delta, rank = problem.secants, problem.wanted_delta, problem.wanted_rank
        subsets = Subsets(secants, self.smallest_subset if secants.n_pairs > self.all_below else 0)
        stride = subsets.strides[0] if delta is not None else 1
        top, low = objective.layout.rows, 0
        if rank is None:
            assert delta is not None
            low = max(0, lower_bound(secants, delta) - 1)
            rank = self.start_rank or agreed(
                secants.comm, self.first_rank(problem, subsets[stride])
            )
            rank = int(np.clip(rank, low + 1, top))
        psi = np.zeros((0, secants.dimension))
        state = self.state_type(
            objective=objective, x=x, value=0.0, psi=psi, set_digest=secants.digest,
            attempt=Attempt(rank, 1.0 if delta is None else delta, MeasuredMap(psi)),
            excluded=low, cuts=Cuts(), dual=np.empty(0), best=MeasuredMap(psi), served=psi,
            closest=MeasuredMap(psi), subsets=subsets, stride=stride,
            fraction=subsets.first_fraction(stride),
        )  # fmt: skip
        return cast(S, state)

    def step(self, state: S) -> S:
        state = state.placed()
        scanning = state.progress.before is not None
        state, verdict = self.separate(state) if scanning else self._work(state)
        if verdict == "served":
            state = self._after_success(state)
        elif verdict == "failed":
            state = self._after_failure(state)
        # A lower rank may have taken more work than the option ``effort`` allows.
        spent = 0.0 < state.best_work * (1.0 + (self.effort or np.inf)) < state.work
        if spent and state.outcome.running and state.problem.wanted_rank is None:
            state = replace(state, outcome=Status.CONVERGED)
        if not state.outcome.running:
            state = self._final(state)
            state.problem.last_cuts = state.cuts.pairs
        return self._shown(state)

    def _work(self, state: S) -> tuple[S, Verdict]:
        """Work on the cuts, and scan the others if that is due."""
        state, done = self.inner(state, state.active)
        state = replace(
            state, psi=done.psi, active_delta=done.delta,
            evaluations=state.evaluations + done.evaluations,
            work=state.work + done.evaluations * max(1, state.count),
        )  # fmt: skip
        iterations = state.attempt.iterations + done.evaluations
        state = state.in_attempt(iterations=iterations, capped=done.capped)
        state = self.approach(state, done.psi, done.delta)
        if done.met or (done.separate and not self.everything_active(state)):
            return self.separate(state.in_attempt(met=done.met))
        if done.failed:
            state, serves = self.nearest_serves(state)
            return state, "served" if serves else "failed"
        return state, "open"

    def status(self, state: S) -> Status:
        """Running until the bracket is closed."""
        if state.set_digest != state.secants.digest:
            raise CheckpointError("the checkpoint belongs to another run, whose data differ")
        return state.outcome

    def trace_row(self, state: S) -> Mapping[str, float]:
        return {name: float(attrgetter(field)(state)) for name, field in TRACED.items()}

    def notes(self, state: S) -> Sequence[str]:
        """Which rank failed, and whether attempts ended because of their limit of iterations."""
        notes, bracket = [], state.bracket
        searched = state.problem.wanted_rank is None and state.stride == 1 and bracket.served
        if searched and state.failures:
            notes.append(
                f"no attempt at rank {bracket.failed} or below served, which proves nothing of "
                f"other methods; rank {bracket.served} did"
            )
        if searched and not bracket.is_closed and state.work > state.best_work > 0.0:
            notes.append(
                f"rank {bracket.served} is certified; the search below it ended after "
                f"{state.work / state.best_work - 1.0:.1f} times the work before, at rank "
                f"{state.attempt.rank}: ranks from {bracket.failed + 1} on are open"
            )
        capped = sum(ended.capped for ended in state.attempts)
        if capped:
            notes.append(
                f"{capped} of {len(state.attempts)} attempts ended at the limit of "
                f"{getattr(self, self.limit_option)} inner iterations "
                f"(option '{self.limit_option}'), not by themselves"
            )
        return notes

    # -- searching -------------------------------------------------------------------------

    def _ended(self, state: S, outcome: Verdict) -> S:
        """With the present attempt among those that ended."""
        attempt = state.attempt
        ended = replace(
            attempt, outcome=outcome, stride=state.stride, cuts=state.count, work=state.work,
            rank=len(state.psi) if outcome == "served" else attempt.rank,
            excess=self.excess(attempt.iterations), nearest=MeasuredMap(state.psi[:0]),
        )  # fmt: skip
        return replace(state, attempts=(*state.attempts, ended))

    def _after_success(self, state: S) -> S:
        """Go on after an attempt that reached its target on the present subset."""
        state = self._ended(state, "served")
        if state.lowering:
            return self._next_delta(state)
        state = replace(state, served=state.psi)
        if state.problem.wanted_rank is not None:
            if state.stride > 1:
                return self._next_subset(state, state.problem.wanted_rank)
            return replace(state, outcome=Status.CONVERGED)
        if state.stride > 1 and self._sharp_enough(state.bracket):
            return self._next_subset(state, None)
        return self._next_rank(state)

    def _after_failure(self, state: S) -> S:
        """Go on after an attempt that did not reach its target."""
        last = [ended.outcome for ended in state.attempts[-self.perturbations :]]
        if last.count("open") < self.perturbations:
            return self._perturbed(self._ended(state, "open"))
        missed = state.problem.wanted_rank is not None and not state.lowering
        state = self._ended(state, "failed")
        nearest = state.attempt.nearest.psi
        if missed:
            # Where every secant is a cut an attempt costs little.
            if not (self.lowers_missed and len(nearest) and self.everything_active(state)):
                return replace(state, outcome=Status.TARGET_NOT_REACHED)
            state, _ = self.scan(replace(state, fraction=1.0), nearest, np.inf)
        if state.lowering:
            if state.closest.delta < state.best.delta:
                state = replace(state, best=state.closest)
            return self._next_delta(state)
        if state.stride > 1 and state.bracket.served and self._sharp_enough(state.bracket):
            return self._next_subset(state, None)
        return self._next_rank(state)

    def _perturbed(self, state: S) -> S:
        """Try the same target again: the map that came nearest, with noise."""
        nearest = state.attempt.nearest.psi
        psi = nearest if len(nearest) else state.psi
        noise = np.random.default_rng((self.seed, len(state.attempts))).standard_normal(psi.shape)
        noise *= NOISE * np.linalg.norm(psi) / np.linalg.norm(noise)
        return self._attempt(state, psi + noise, state.attempt.rank)

    def _sharp_enough(self, bracket: RankBracket) -> bool:
        """Whether the rank of a subset is known well enough to predict that of the next."""
        return bracket.is_closed or bracket.served <= (1.0 + SHARP) * bracket.least_expected

    def _next_subset(self, state: S, rank: int | None) -> S:
        """Hand the map and the cuts on to the next larger subset, at a predicted rank."""
        strides, bracket = state.subsets.strides, state.bracket
        place = strides.index(state.stride) + 1
        state = replace(state, stride=strides[place])
        if rank is None:
            points = [-(-state.secants.n_points // stride) for stride in strides[: place + 1]]
            ranks = [state.bracket_of(stride).least_expected for stride in strides[:place]]
            rise = 0.125 if strides[place] > 1 else FINAL_RISE
            rank = predicted_rank(points[:-1], ranks, points[-1], rise)
            rank = int(np.clip(agreed(state.secants.comm, rank), bracket.failed + 1, bracket.top))
        return self._attempt(state, state.served, rank)

    def _next_rank(self, state: S) -> S:
        bracket = state.bracket
        served, failed = bracket.served, bracket.failed
        # The published adjustment ends where a rank fails, but not before one has served.
        stepped_too_low = self.adjust == "published" and failed >= state.attempt.rank
        if bracket.is_closed or (stepped_too_low and served):
            return replace(state, outcome=Status.CONVERGED if served else Status.TARGET_NOT_REACHED)
        if self.adjust == "eigengap" and served:
            low, high = max(failed + 1, served // 2), served - 1
            rank = agreed(state.secants.comm, eigengap_rank(state.served, low, high))
        elif self.adjust != "published":
            rank = bracket.next_rank()
            if failed and len(state.psi) <= failed < rank:
                # One more row keeps what the attempt reached; a row less loses it.
                nearest = state.attempt.nearest.psi
                return self._attempt(state, nearest if len(nearest) else state.psi, rank)
        elif served:
            rank = served - 1
        else:
            rank = min(bracket.top, max(failed + 1, int(np.ceil(1.2 * state.attempt.rank))))
        return self._attempt(state, state.served if served else state.psi, rank)

    def _next_delta(self, state: S) -> S:
        bracket, wanted = state.delta_bracket, state.problem.wanted_delta
        reached = wanted is None or state.best.delta <= wanted
        if bracket.is_closed(self.precision) or (wanted is not None and reached):
            done = Status.CONVERGED if reached else Status.TARGET_NOT_REACHED
            return replace(state, outcome=done)
        state = state.in_attempt(delta=bracket.next_delta())
        return self._attempt(state, state.best.psi, len(state.best.psi))

    def _attempt(self, state: S, source: np.ndarray, rank: int) -> S:
        """Begin an attempt at this rank from a map of another."""
        psi = self.resized(state, source, rank)
        attempt = Attempt(rank, state.attempt.delta, MeasuredMap(psi[:0]))
        state = replace(
            state, psi=psi, attempt=attempt, fraction=state.subsets.first_fraction(state.stride),
            dual=np.zeros(len(state.cuts)), pairs=(),
        )  # fmt: skip
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
        chosen, nearest = state.closest, state.attempt.nearest
        if len(state.best.psi):
            chosen = state.best
        elif not len(chosen.psi) or nearest.delta < chosen.delta:
            other = nearest.psi if len(nearest.psi) else state.psi
            _, (scan, _) = self.scan(replace(state, stride=1, fraction=1.0), other, np.inf)
            if scan.delta < chosen.delta or not len(chosen.psi):
                chosen = MeasuredMap(other, scan.delta)
        psi = chosen.psi
        return replace(state, psi=psi, delta=chosen.delta, scanned_rank=len(psi))

    def _shown(self, state: S) -> S:
        """With the best map as x, and the objective there: over all secants if they are few.

        Whenever a budget ends the run, x is then the best map confirmed so far.
        """
        best = state.best.psi
        psi = best if state.outcome.running and len(best) else state.psi
        for known in (state.closest, state.best):
            if psi is known.psi and known.scan is not None:
                # The certificate of x is known, also after later scans and a resumption.
                state.secants.remember(psi, known.scan)
        x = np.zeros(state.objective.layout.shape)
        x[: len(psi)] = psi
        if state.secants.n_pairs <= FEW_SECANTS:
            return replace(state, x=x, value=state.objective.value(x))
        value = hinge_value(state.active, psi, state.problem.wanted_delta or 0.0)
        return replace(state, x=x, value=value)


@dataclass(frozen=True)
class AdmmSearch(SecantSearch[S]):
    """Base of the solvers by ADMM, which take more cuts at a time and begin with few points."""

    cuts_per_round: int = 3000
    all_below: int = 5000
    smallest_subset: int = 800
