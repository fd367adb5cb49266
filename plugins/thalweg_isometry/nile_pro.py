"""NILE-Pro (Luo et al., Algorithm 2): the largest distortion itself, by ADMM.

``min ||q - 1||_inf  s.t.  q = A(Psi^T Psi)``, the q-step by Moreau's decomposition and
the exact projection onto the l1 ball, the Psi-step by gradient steps.  One thing is
put right: with the scaled multiplier of (4.3) its update is
``omega <- omega - (A(Psi^T Psi) - q)``, without the factor beta that is printed.  The
length of the gradient step, which the paper leaves open, is the inverse of a bound
on the curvature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thalweg import InputError
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.search import Inner, SearchState, SecantSearch


@dataclass(frozen=True)
class NileProSearch(SecantSearch):
    """Solver ``nile-pro``.

    Attributes
    ----------
    beta
        Penalty of ``q = A(Psi^T Psi)``; None for 50 over the number of secants, which
        keeps the l1 ball of the q-step in proportion.
    step_scale
        Gradient steps in units of the inverse curvature bound, which is far from tight.
    gradient_steps
        Gradient steps an iteration; the paper takes one.
    sweep
        ADMM iterations a step.
    limit
        ADMM iterations an attempt.
    """

    adjust: str = "published"
    beta: float | None = None
    step_scale: float = 4.0
    gradient_steps: int = 1
    sweep: int = 200
    limit: int = 2000

    aim: ClassVar[float] = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.beta or 1.0, self.step_scale) <= 0 or self.gradient_steps < 1:
            raise InputError("beta, step_scale and gradient_steps must be positive")

    def inner(self, state: SearchState, active: ActiveSecants) -> Inner:
        """Some ADMM iterations; met as soon as delta(Psi) is small enough."""
        goal = 0.5 * (1.0 + self.aim) * state.target_delta
        if state.delta <= state.target_delta and self._everything_active(state):
            goal = state.target_delta
        psi = state.psi
        omega = state.dual.copy()
        curvature = secant_norm(active, psi.shape[1])
        images = active.images(psi)
        ratios = active.ratios(images)
        worst = float(np.abs(ratios - 1.0).max(initial=0.0))
        residual = change = np.inf
        beta = self.beta or 50.0 / max(1, active.count)
        used = 0
        while used < self.sweep and worst > goal:
            used += 1
            tau = ratios - omega - 1.0
            q = tau - onto_l1_ball(beta * tau) / beta + 1.0
            before = psi
            for _ in range(self.gradient_steps):
                miss = ratios - q - omega
                # Curvature of 1/2 ||A - b||^2: at most 4 max rho ||V^T V|| + 2 ||A*(miss)||.
                bound = curvature * (4.0 * ratios.max() + 2.0 * np.abs(miss).max())
                step = self.step_scale / max(bound, 1e-300)
                psi = psi - 2.0 * step * active.adjoint_times(miss, images)
                images = active.images(psi)
                ratios = active.ratios(images)
            omega = omega - (ratios - q)
            worst = float(np.abs(ratios - 1.0).max(initial=0.0))
            self.approach(state, psi, worst)
            residual = float(np.linalg.norm(ratios - q)) / np.sqrt(max(1, active.count))
            change = float(np.linalg.norm(psi - before)) / max(1e-300, float(np.linalg.norm(psi)))
        state.residual, state.dual_residual = residual, change
        state.dual = omega
        exhausted = state.attempt_iterations + used >= self.limit
        met = worst <= goal or (exhausted and worst <= state.target_delta)
        return Inner(
            psi=psi,
            met=met,
            failed=exhausted and not met,
            delta=worst,
            iterations=used,
            evaluations=used * self.gradient_steps,
        )

    def _everything_active(self, state: SearchState) -> bool:
        return len(state.pairs) >= self._secants(state).n_pairs


def onto_l1_ball(vector: np.ndarray, radius: float = 1.0) -> np.ndarray:
    """Nearest point of the l1 ball, exactly, by the threshold that makes the norm fit."""
    size = np.abs(vector)
    if size.sum() <= radius:
        return vector.copy()
    falling = np.sort(size)[::-1]
    sums = np.cumsum(falling) - radius
    counts = np.arange(1, len(falling) + 1)
    last = int(np.flatnonzero(falling * counts > sums)[-1])
    threshold = sums[last] / (last + 1)
    return np.asarray(np.sign(vector) * np.maximum(size - threshold, 0.0))


def secant_norm(active: ActiveSecants, dimension: int, iterations: int = 20) -> float:
    """``||V^T V||_2``, V the unit secants as rows, by power iteration, a little too large."""
    probe = np.ones((1, dimension)) / np.sqrt(dimension)
    probe[0, ::2] *= 1.5  # not an eigenvector by accident
    weights = np.ones(active.count)
    norm = 0.0
    for _ in range(iterations):
        image = active.adjoint_times(weights, active.images(probe))
        norm = float(np.linalg.norm(image))
        if norm == 0.0:
            return 1.0
        probe = image / norm
    return 1.1 * norm
