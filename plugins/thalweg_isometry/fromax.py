"""FroMax (Luo et al., Algorithm 1): a factor near a matrix that satisfies the bounds.

``min 1/2 ||P - Psi^T Psi||_F^2  s.t.  |A(P) - 1| <= delta`` with ``Psi = Y = X^T``, by
ADMM on (3.4).  Two things are put right: the multipliers of (3.4) are not scaled, so
that the q-step projects ``A(P) + lambda / beta_1`` (printed: ``A(P) - lambda``), and
lambda lives in R^S.  As printed, P itself is not kept positive semidefinite; the
answer is the factor, and it is the factor that is held against the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thalweg import InputError
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.normal_equations import normal_equations
from thalweg_isometry.search import Inner, SearchState, SecantSearch
from thalweg_isometry.secant_rows import SecantRows


@dataclass(frozen=True)
class FroMaxSearch(SecantSearch):
    """Solver ``fromax``.

    Attributes
    ----------
    beta1, beta2
        Penalties of ``A(P) = q`` and ``Y = X^T``.
    dual_step
        eta, step length of the multipliers.
    inner_solver
        Of the P-step: ``"auto"``, ``"woodbury"``, ``"cholesky"`` or ``"cg"``.
    sweep
        ADMM iterations a step.
    limit
        ADMM iterations an attempt.
    """

    adjust: str = "published"
    columns: int = 3000
    all_below: int = 5000
    beta1: float = 1.0
    beta2: float = 1.0
    dual_step: float = 1.0
    inner_solver: str = "auto"
    sweep: int = 100
    limit: int = 600

    aim: ClassVar[float] = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.beta1, self.beta2, self.dual_step) <= 0:
            raise InputError("beta1, beta2 and dual_step must be positive")

    def inner(self, state: SearchState, active: ActiveSecants) -> Inner:
        """Some ADMM iterations; met as soon as the factor satisfies the bounds."""
        rows = SecantRows(self._secants(state), state.pairs, state.lengths)
        equations = normal_equations(self.inner_solver, rows, self.beta1)
        delta = self.aim * state.target_delta
        goal = 0.5 * (1.0 + self.aim) * state.target_delta
        memory = state.memory
        y = state.psi
        rank = len(y)
        x = np.array(memory["X"]) if "X" in memory else y.T.copy()
        p = np.array(memory["P"]) if "P" in memory else x @ y
        gamma = np.array(memory["Gamma"]) if "Gamma" in memory else np.zeros_like(y)
        multiplier = state.dual.copy()
        ridge = self.beta2 * np.eye(rank)
        image = rows.forward(p)
        worst = np.inf
        used = 0
        while used < self.sweep:
            used += 1
            q = 1.0 + np.clip(image + multiplier / self.beta1 - 1.0, -delta, delta)
            right = x @ y + rows.adjoint(self.beta1 * q - multiplier)
            before = p
            p = equations.solve(0.5 * (right + right.T), p)
            x = np.linalg.solve(y @ y.T + ridge, (gamma.T + self.beta2 * y.T + p @ y.T).T).T
            y = np.linalg.solve(x.T @ x + ridge, x.T @ p - gamma + self.beta2 * x.T)
            image = rows.forward(p)
            multiplier = multiplier + self.dual_step * self.beta1 * (image - q)
            gamma = gamma + self.dual_step * self.beta2 * (y - x.T)
            worst = float(np.abs(active.ratios(active.images(y)) - 1.0).max(initial=0.0))
            self.approach(state, y, worst)
            if worst <= goal:
                break
        scale = max(1.0, float(np.linalg.norm(p)))
        state.residual = float(np.linalg.norm(p - x @ y)) / scale
        state.dual_residual = float(np.linalg.norm(p - before)) / scale
        state.dual = multiplier
        state.memory = {**memory, "X": x, "P": p, "Gamma": gamma}
        exhausted = state.attempt_iterations + used >= self.limit
        met = worst <= goal or (exhausted and worst <= state.target_delta)
        return Inner(
            psi=y,
            met=met,
            failed=exhausted and not met,
            delta=worst,
            iterations=used,
            evaluations=used,
        )
