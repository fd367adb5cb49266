"""NuMax (Hegde, Sankaranarayanan, Yin and Baraniuk): least nuclear norm, by ADMM.

``min ||P||_*  s.t.  |A(P) - 1| <= delta, P >= 0`` in the splitting (2.10-2.12) of Luo
et al., with scaled multipliers Gamma and omega.  The P-step thresholds eigenvalues, so
that P stays positive semidefinite, which thresholding singular values does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.map_ranks import truncated
from thalweg_isometry.normal_equations import InnerSolver, kept_equations
from thalweg_isometry.search import SecantSearch
from thalweg_isometry.search_state import Inner, SearchState


@dataclass(kw_only=True)
class NuMaxState(SearchState):
    """State of ``numax``.

    Attributes
    ----------
    low, gamma
        The matrices L and Gamma of the attempt, if any.
    penalty
        Factor of both penalties.
    """

    penalty: float = 1.0
    low: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    gamma: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True)
class NuMaxSearch(SecantSearch[NuMaxState]):
    """Solver ``numax``; the rank is an outcome, not an option."""

    cuts_per_round: int = 3000
    all_below: int = 5000
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

    def begin_attempt(self, state: NuMaxState) -> None:
        """Forget the matrices."""
        state.low = state.gamma = np.empty((0, 0))
        state.penalty = 1.0

    def inner(self, state: NuMaxState, active: ActiveSecants) -> Inner:
        """Some ADMM iterations; met when the residuals are small and the bounds hold."""
        ratio = self.beta2 / self.beta1
        equations = kept_equations(state, self.inner_solver, ratio)
        rows = equations.rows
        delta = self.aim * state.target_delta
        low = state.low if len(state.low) else state.psi.T @ state.psi
        gamma = state.gamma if len(state.gamma) else np.zeros_like(low)
        omega = state.dual.copy()
        image = rows.forward(low)
        primal = dual = np.inf
        factor = state.psi
        used = 0
        while used < self.sweep:
            used += 1
            values, vectors = np.linalg.eigh(low + gamma)
            values = np.maximum(values - 1.0 / (self.beta1 * state.penalty), 0.0)
            kept = values > 0.0
            factor = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
            p = factor.T @ factor
            q = 1.0 + np.clip(image - omega - 1.0, -delta, delta)
            before = low
            low = equations.solve(p - gamma + ratio * rows.adjoint(q + omega), low)
            image = rows.forward(low)
            gamma = gamma - self.dual_step * (p - low)
            omega = omega - self.dual_step * (image - q)
            scale = max(1.0, float(np.linalg.norm(low)))
            primal = float(np.linalg.norm(p - low)) / scale
            primal = max(primal, active.norm(image - q) / np.sqrt(max(1, rows.count)))
            dual = float(np.linalg.norm(low - before)) / scale
            if max(primal, dual) < self.tolerance:
                break
        exhausted = state.attempt_iterations + used >= self.limit
        solved = max(primal, dual) < self.tolerance
        if self.balance and not solved and state.attempt_iterations < self.limit // 2:
            # Both penalties together, so that the equations stay as they are factored.
            multiple = 2.0 if primal > 2.0 * dual else 0.5 if dual > 2.0 * primal else 1.0
            state.penalty *= multiple
            gamma, omega = gamma / multiple, omega / multiple
        state.dual = omega
        state.low, state.gamma = low, gamma
        state.residual, state.dual_residual = primal, dual
        psi = factor[::-1][: state.objective.layout.rows]
        change = active.ratios(active.images(psi)) - 1.0 if len(psi) else -np.ones(len(image))
        worst = active.largest(change)
        return Inner(
            psi=psi,
            met=worst <= state.target_delta and (solved or exhausted) and self._fits(state, psi),
            failed=(exhausted or (solved and worst > state.target_delta))
            or (solved and not self._fits(state, psi)),
            capped=exhausted and not solved,
            delta=worst,
            iterations=used,
            evaluations=used,
        )

    def _fits(self, state: NuMaxState, psi: np.ndarray) -> bool:
        wanted = state.problem.wanted_rank
        return wanted is None or len(psi) <= wanted

    def _serve(self, state: NuMaxState) -> None:
        if state.problem.wanted_rank is None:
            state.ended = Status.CONVERGED.name
        else:
            super()._serve(state)

    def _fail(self, state: NuMaxState) -> None:
        if state.problem.wanted_rank is None:
            state.ended = Status.TARGET_NOT_REACHED.name
        else:
            super()._fail(state)

    def _final(self, state: NuMaxState) -> np.ndarray:
        psi = super()._final(state)
        wanted = state.problem.wanted_rank
        return psi if wanted is None else truncated(psi, wanted)
