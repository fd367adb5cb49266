"""NuMax (Hegde, Sankaranarayanan, Yin and Baraniuk): least nuclear norm, by ADMM.

``min ||P||_*  s.t.  |A(P) - 1| <= delta, P >= 0`` in the splitting (2.10-2.12) of Luo
et al., with scaled multipliers Gamma and omega.  The P-step thresholds eigenvalues, so
that P stays positive semidefinite, which thresholding singular values does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from thalweg import InputError
from thalweg.interfaces import SecantConstraints
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.map_ranks import truncated
from thalweg_isometry.normal_equations import normal_equations
from thalweg_isometry.search import Inner, SearchState, SecantSearch
from thalweg_isometry.secant_rows import SecantRows


@dataclass(frozen=True)
class NuMaxSearch(SecantSearch):
    """Solver ``numax``; the rank is an outcome, not an option.

    Attributes
    ----------
    beta1, beta2
        Penalties of ``P = L`` and ``A(L) = q``; the authors' default is 1.
    dual_step
        Step length of the multipliers, below (1 + sqrt 5) / 2.
    tolerance
        Relative residuals at which the active problem is solved.
    inner_solver
        Of the L-step: ``"auto"``, ``"woodbury"``, ``"cholesky"`` or ``"cg"``.
    sweep
        ADMM iterations a step.
    limit
        ADMM iterations an attempt.
    """

    columns: int = 3000
    all_below: int = 5000
    beta1: float = 1.0
    beta2: float = 1.0
    dual_step: float = 1.618
    tolerance: float = 1e-4
    inner_solver: str = "auto"
    sweep: int = 100
    limit: int = 5000

    aim: ClassVar[float] = 0.98

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.beta1, self.beta2, self.tolerance) <= 0:
            raise InputError("beta1, beta2 and tolerance must be positive")

    def inner(self, state: SearchState, active: ActiveSecants) -> Inner:
        """Some ADMM iterations; met when the residuals are small and the bounds hold."""
        rows = SecantRows(self._secants(state), state.pairs, state.lengths)
        n = rows.rows.shape[1]
        ratio = self.beta2 / self.beta1
        equations = normal_equations(self.inner_solver, rows, ratio)
        delta = self.aim * state.target_delta
        memory = state.memory
        low = np.array(memory["L"]) if "L" in memory else state.psi.T @ state.psi
        gamma = np.array(memory["Gamma"]) if "Gamma" in memory else np.zeros((n, n))
        omega = state.dual.copy()
        image = rows.forward(low)
        primal = dual = np.inf
        factor = state.psi
        used = 0
        while used < self.sweep:
            used += 1
            values, vectors = np.linalg.eigh(low + gamma)
            values = np.maximum(values - 1.0 / self.beta1, 0.0)
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
            primal = max(primal, float(np.linalg.norm(image - q)) / np.sqrt(max(1, rows.count)))
            dual = float(np.linalg.norm(low - before)) / scale
            if max(primal, dual) < self.tolerance:
                break
        state.dual = omega
        state.memory = {**memory, "L": low, "Gamma": gamma}
        state.residual, state.dual_residual = primal, dual
        psi = factor[::-1][: state.objective.layout.rows]
        change = active.ratios(active.images(psi)) - 1.0 if len(psi) else -np.ones(rows.count)
        worst = float(np.abs(change).max(initial=0.0))
        solved = max(primal, dual) < self.tolerance
        exhausted = state.attempt_iterations + used >= self.limit
        return Inner(
            psi=psi,
            met=worst <= state.target_delta and (solved or exhausted) and self._fits(state, psi),
            failed=(exhausted or (solved and worst > state.target_delta))
            or (solved and not self._fits(state, psi)),
            delta=worst,
            iterations=used,
            evaluations=used,
        )

    def _fits(self, state: SearchState, psi: np.ndarray) -> bool:
        wanted = cast(SecantConstraints, state.objective).wanted_rank
        return wanted is None or len(psi) <= wanted

    def _succeed(self, state: SearchState) -> None:
        if cast(SecantConstraints, state.objective).wanted_rank is None:
            state.ended = Status.CONVERGED.name
        else:
            super()._succeed(state)

    def _fail(self, state: SearchState) -> None:
        if cast(SecantConstraints, state.objective).wanted_rank is None:
            state.ended = Status.TARGET_NOT_REACHED.name
        else:
            super()._fail(state)

    def _final(self, state: SearchState) -> np.ndarray:
        psi = super()._final(state)
        wanted = cast(SecantConstraints, state.objective).wanted_rank
        return psi if wanted is None else truncated(psi, wanted)
