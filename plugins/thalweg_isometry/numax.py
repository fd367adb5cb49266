"""NuMax (Hegde, Sankaranarayanan, Yin and Baraniuk): least nuclear norm, by ADMM.

``min ||P||_*  s.t.  |A(P) - 1| <= delta, P >= 0`` in the splitting (2.10-2.12) of Luo
et al., with scaled multipliers Gamma and omega.  The P-step thresholds eigenvalues, so
that P stays positive semidefinite, which thresholding singular values does not; L and q
are found together, or one after the other as published.  MATHEMATICS.md says when separation
rounds take place, what a rank that is given changes, and how the published steps differ.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.linalg

from thalweg.parallel import agreed
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.normal_equations import LONG, InnerSolver, Steps, bounded_forms
from thalweg_isometry.search import AdmmSearch
from thalweg_isometry.search_state import Inner, SearchState

#: What the first P-step takes from the eigenvalues, as a share of the largest: where the rank
#: is free (by hand), and where it is given: 0.02 there spoils 3,000 secants of 15,000 images.
FIRST_STEP, GIVEN_RANK_STEP = 0.02, 0.001

#: Step length of the multipliers, below (1 + sqrt 5) / 2: the authors'.
DUAL_STEP = 1.618

#: Iterations in which delta over the cuts has to come down by a hundredth of its target, or an
#: attempt at a given rank is given up: such matrices are no convex set, and where it is empty
#: the residuals need not fall; chosen by hand.
STALLED_AFTER = 200


@dataclass(frozen=True, kw_only=True)
class NuMaxState(SearchState):
    """State of ``numax``."""

    penalty: float = 0.0  # factor of both penalties; 0 before the first iteration
    solved: bool = False  # whether P is the least over the cuts, or iterations are used up
    #: Delta over the cuts when it last came down, and after how many iterations.
    lowest: float = float("inf")
    lowest_at: int = 0
    #: The matrices L and Gamma of the attempt, if any.
    low: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    gamma: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True)
class NuMaxSearch(AdmmSearch[NuMaxState]):
    """Solver ``numax``; the rank is an outcome where none is given."""

    beta1: Annotated[float, Help("ADMM penalty of the constraint P = L", above=0)] = 1.0
    beta2: Annotated[float, Help("ADMM penalty of the constraint A(L) = q", above=0)] = 1.0
    tolerance: Annotated[float, Help("relative residuals to reach", above=0)] = 1e-4
    steps: Steps = "joint"
    inner_solver: InnerSolver = "auto"
    sweep: Annotated[int, Help("ADMM iterations per step", minimum=1)] = 25
    limit: Annotated[int, Help("ADMM iterations per attempt", minimum=1)] = 5000

    aim: ClassVar[float] = 0.98
    per_row: ClassVar[int] = 10  # few points have few rows: with less a round adds few cuts
    state_type: ClassVar[type[Any]] = NuMaxState

    def inner(self, state: NuMaxState, active: ActiveSecants) -> tuple[NuMaxState, Inner]:
        """Some ADMM iterations; met when the bounds hold, at the rank that is wanted if any."""
        forms = bounded_forms(state, self.inner_solver)
        published = self.steps == "published"
        aim, wanted = 1.0 if published else self.aim, state.problem.wanted_rank
        delta, goal = aim * state.attempt.delta, 0.5 * (1.0 + aim) * state.attempt.delta
        low = state.low if len(state.low) else agreed(active.comm, state.psi.T @ state.psi)
        gamma = state.gamma if len(state.gamma) else np.zeros_like(low)
        omega = state.dual
        lowest, lowest_at, penalty = state.lowest, state.lowest_at, state.penalty
        if not np.isfinite(state.attempt.nearest.delta):  # a new attempt, or further cuts
            lowest, lowest_at = np.inf, state.attempt.iterations
        if not penalty:
            share = GIVEN_RANK_STEP if wanted else FIRST_STEP
            largest = agreed(active.comm, float(np.linalg.norm(low, 2)))
            penalty = 1.0 if published else 1.0 / (share * self.beta1 * largest)
        rows = wanted or state.objective.layout.rows
        psi, primal, dual, worst = state.psi, np.inf, np.inf, np.inf
        used, solved = 0, False
        while used < self.sweep and not solved:
            used += 1
            factor = _thresholded(low + gamma, 1.0 / (self.beta1 * penalty), rows)
            factor, p = agreed(active.comm, (factor, factor.T @ factor))
            psi = factor[::-1]
            worst = active.delta(psi)
            if worst < lowest - 0.01 * goal:
                lowest, lowest_at = worst, state.attempt.iterations + used
            state = self.approach(state, psi, worst)
            if wanted and worst <= goal:
                break
            before = low
            beta = self.beta2 / self.beta1
            low, excess = forms.nearest(p - gamma, -omega, beta, delta, low, self.steps)
            gamma = gamma - DUAL_STEP * (p - low)
            omega = omega - DUAL_STEP * (excess + omega)
            primal, dual = _residuals(active, excess + omega, p - low, low, low - before, gamma)
            # Small residuals are not yet the bounds, nor a proof that these cannot be met.
            solved = max(primal, dual) < self.tolerance
            solved = solved and (published or worst <= state.attempt.delta)
        exhausted = state.attempt.iterations + used >= self.limit
        if not (published or wanted or solved or state.attempt.iterations >= self.limit // 2):
            # Both penalties together, so that the equations stay as they are.
            multiple = 2.0 if primal > 2.0 * dual else 0.5 if dual > 2.0 * primal else 1.0
            penalty *= multiple
            gamma, omega = gamma / multiple, omega / multiple
        state = replace(
            state, dual=omega, low=low, gamma=gamma, penalty=penalty, lowest=lowest,
            lowest_at=lowest_at, residual=primal, dual_residual=dual, solved=solved or exhausted,
        )  # fmt: skip
        stalled = state.attempt.iterations + used - lowest_at >= STALLED_AFTER
        within = worst <= state.attempt.delta
        met = worst <= goal if wanted else within and state.solved
        failed = (exhausted or (bool(wanted) and stalled) or (published and solved)) and not within
        capped, due = exhausted and not solved, within and not met
        return state, Inner(psi, met, failed, worst, used, capped, due)

    def _after_success(self, state: NuMaxState) -> NuMaxState:
        if state.problem.wanted_rank is not None:
            return super()._after_success(state)
        if state.stride > 1:
            state = self._ended(replace(state, served=state.psi), "served")
            return self._next_subset(state, len(state.psi))
        if not state.solved:
            return state
        return replace(self._ended(state, "served"), outcome=Status.CONVERGED)

    def _after_failure(self, state: NuMaxState) -> NuMaxState:
        if state.problem.wanted_rank is None:
            return replace(self._ended(state, "failed"), outcome=Status.TARGET_NOT_REACHED)
        return super()._after_failure(state)


def _thresholded(matrix: np.ndarray, threshold: float, rows: int) -> np.ndarray:
    """Factor of a matrix whose eigenvalues are lessened; at most so many stay above zero."""
    if len(matrix) < LONG:
        values, vectors = np.linalg.eigh(matrix)
    else:  # of many only those that stay
        values, vectors = scipy.linalg.eigh(matrix, subset_by_value=(threshold, np.inf))
    values = np.maximum(values - threshold, 0.0)
    values[:-rows] = 0.0
    return (np.sqrt(values) * vectors).T[values > 0.0]


def _residuals(active: ActiveSecants, miss: np.ndarray, *matrices: np.ndarray) -> tuple[float, ...]:
    """Primal and dual residual: of misses of the bounds, P - L, L, its change, and Gamma.

    Both relative, to L and to the multiplier, so that they can be compared: a penalty that only
    followed the size of P would fall until Gamma swamps P.
    """
    norms = [float(np.linalg.norm(matrix)) for matrix in matrices]
    gap, scale, moved, multiplier = agreed(active.comm, norms)
    primal = active.norm(miss) / np.sqrt(max(1, active.count))
    return max(gap / max(1.0, scale), primal), moved / max(1e-300, multiplier)
