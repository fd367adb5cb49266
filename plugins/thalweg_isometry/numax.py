"""NuMax (Hegde, Sankaranarayanan, Yin and Baraniuk): least nuclear norm, by ADMM.

``min ||P||_*  s.t.  |A(P) - 1| <= delta, P >= 0`` in the splitting (2.10-2.12) of Luo
et al., with scaled multipliers Gamma and omega.  The P-step thresholds eigenvalues, so
that P stays positive semidefinite, which thresholding singular values does not; L and q
are found together.

The least nuclear norm over a few thousand cuts has a rank far too low for the other
secants.  Therefore separation rounds take place whenever P is within the bounds at the
cuts, long before it is the least; and where the rank is given, the leading eigenpairs of P
(2.9), times a number, are the answer as soon as they are within all bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.parallel import max_over_ranks, min_over_ranks
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.normal_equations import InnerSolver, bounded_forms
from thalweg_isometry.search import SecantSearch
from thalweg_isometry.search_state import Inner, SearchState

#: What the first P-step takes from the eigenvalues, as a share of the largest.
FIRST_STEP = 0.02


@dataclass(kw_only=True)
class NuMaxState(SearchState):
    """State of ``numax``.

    Attributes
    ----------
    low, gamma
        The matrices L and Gamma of the attempt, if any.
    penalty
        Factor of both penalties; 0 before the first iteration.
    solved
        Whether P is the least over the cuts, or iterations are used up.
    """

    penalty: float = 0.0
    solved: bool = False
    low: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    gamma: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True)
class NuMaxSearch(SecantSearch[NuMaxState]):
    """Solver ``numax``; the rank is an outcome, not an option."""

    cuts_per_round: int = 3000
    all_below: int = 5000
    smallest_subset: int = 800
    beta1: Annotated[float, Help("ADMM penalty of the constraint P = L", above=0)] = 1.0
    beta2: Annotated[float, Help("ADMM penalty of the constraint A(L) = q", above=0)] = 1.0
    dual_step: Annotated[
        float, Help("step length of the multipliers, below (1 + sqrt 5) / 2", above=0)
    ] = 1.618
    tolerance: Annotated[float, Help("relative residuals to reach", above=0)] = 1e-4
    balance: Annotated[
        bool, Help("whether the penalties follow the residuals, doubled or halved after a sweep")
    ] = True
    inner_solver: InnerSolver = "auto"
    sweep: Annotated[int, Help("ADMM iterations per step", minimum=1)] = 25
    limit: Annotated[int, Help("ADMM iterations per attempt", minimum=1)] = 5000

    aim: ClassVar[float] = 0.98
    state_type: ClassVar[type[Any]] = NuMaxState

    def inner(self, state: NuMaxState, active: ActiveSecants) -> Inner:
        """Some ADMM iterations; met when the bounds hold, at the rank that is wanted if any."""
        ratio = self.beta2 / self.beta1
        forms = bounded_forms(state, self.inner_solver)
        delta, wanted = self.aim * state.target_delta, state.problem.wanted_rank
        goal = 0.5 * (1.0 + self.aim) * state.target_delta
        low = state.low if len(state.low) else state.psi.T @ state.psi
        gamma = state.gamma if len(state.gamma) else np.zeros_like(low)
        omega = state.dual.copy()
        if not state.penalty:
            state.penalty = 1.0 / (FIRST_STEP * self.beta1 * float(np.linalg.norm(low, 2)))
        rows = wanted or state.objective.layout.rows
        psi, primal, dual, worst = state.psi, np.inf, np.inf, np.inf
        used = 0
        while used < self.sweep:
            used += 1
            values, vectors = np.linalg.eigh(low + gamma)
            less = 1.0 / (self.beta1 * state.penalty)
            if wanted:  # no more than leaves P this rank: with less it would fit the cuts too well
                less = min(less, max(0.0, values[-wanted - 1])) if wanted < len(values) else 0.0
            values = np.maximum(values - less, 0.0)
            factor = (np.sqrt(values) * vectors).T[values > 0.0]
            p = factor.T @ factor
            psi = factor[::-1][:rows]
            ratios = active.ratios(active.images(psi))
            if wanted:
                psi, ratios = self._scaled(active, psi, ratios)
            worst = active.largest(ratios - 1.0)
            self.approach(state, psi, worst)
            if wanted and worst <= goal:
                break
            before = low
            low, excess = forms.nearest(p - gamma, -omega, ratio, delta, low)
            gamma = gamma - self.dual_step * (p - low)
            omega = omega - self.dual_step * (excess + omega)
            scale = max(1.0, float(np.linalg.norm(low)))
            primal = float(np.linalg.norm(p - low)) / scale
            primal = max(primal, active.norm(excess + omega) / np.sqrt(max(1, active.count)))
            dual = float(np.linalg.norm(low - before)) / scale
            if max(primal, dual) < self.tolerance:
                break
        exhausted = state.attempt_iterations + used >= self.limit
        solved = max(primal, dual) < self.tolerance
        if self.balance and not solved and state.attempt_iterations < self.limit // 2:
            # Both penalties together, so that the equations stay as they are.
            multiple = 2.0 if primal > 2.0 * dual else 0.5 if dual > 2.0 * primal else 1.0
            state.penalty *= multiple
            gamma, omega = gamma / multiple, omega / multiple
        state.dual = omega
        state.low, state.gamma = low, gamma
        state.residual, state.dual_residual = primal, dual
        state.solved = solved or exhausted
        within = worst <= state.target_delta
        met = worst <= goal if wanted else within and state.solved
        return Inner(
            psi=psi,
            met=met,
            failed=state.solved and not within,
            separate=within and not met,
            capped=exhausted and not solved,
            delta=worst,
            iterations=used,
            evaluations=used,
        )

    @staticmethod
    def _scaled(
        active: ActiveSecants, psi: np.ndarray, ratios: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The map, cut off at a rank, times a number: lengthening and shortening are alike."""
        low = min_over_ranks(active.comm, float(ratios.min(initial=np.inf)))
        high = max_over_ranks(active.comm, float(ratios.max(initial=0.0)))
        if not high > 0.0:
            return psi, ratios
        return np.sqrt(2.0 / (high + low)) * psi, ratios * (2.0 / (high + low))

    def _serve(self, state: NuMaxState) -> None:
        if state.problem.wanted_rank is not None:
            super()._serve(state)
        elif state.stride > 1:
            state.served = state.psi
            self._next_subset(state, len(state.psi))
        elif state.solved:
            state.ended = Status.CONVERGED.name

    def _fail(self, state: NuMaxState) -> None:
        if state.problem.wanted_rank is None:
            state.ended = Status.TARGET_NOT_REACHED.name
        else:
            super()._fail(state)
