"""A Riemannian trust-region method: quadratic convergence from Hessian products.

The model is minimized by truncated conjugate gradients (Steihaug, Toint) in the
tangent space; the Hessian there is that of Absil, Mahony and Sepulchre,
"Optimization Algorithms on Matrix Manifolds" (2008), for the Stiefel manifold
with the metric of the surrounding space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar

import numpy as np

from thalweg.engines.hessian import HessianProduct
from thalweg.interfaces import Capability
from thalweg.parallel import agreed
from thalweg.plugins import Help
from thalweg_clustering.alternating import (
    GradientTolerance,
    RoundSolver,
    RoundState,
    evaluated,
    matrix_of,
    put_matrix,
    residual_norm,
)
from thalweg_clustering.stiefel import StiefelVariable


@dataclass(kw_only=True)
class TrustRegionState(RoundState):
    """State of :class:`TrustRegion`: the trust radius; 0 before the first step."""

    radius: float = 0.0
    products: int = 0


S = TypeVar("S", bound=RoundState)


@dataclass(frozen=True)
class TrustRegion(RoundSolver[TrustRegionState]):
    """Riemannian trust region on the Stiefel manifold."""

    inner_tolerance: float = 1e-10
    gradient_tolerance: GradientTolerance = 1e-9
    inner_products: Annotated[
        int, Help("maximum number of Hessian products of a step", minimum=1)
    ] = 50

    requires: ClassVar[tuple[type[Capability], ...]] = (StiefelVariable, HessianProduct)

    state_type: ClassVar[type[RoundState]] = TrustRegionState

    def begin(self, state: TrustRegionState) -> None:
        """Value and residual at W."""
        w = matrix_of(state)
        state.value, gradient = evaluated(state.objective, w)
        state.evaluations += 1
        state.gradient_norm = residual_norm(w, gradient)

    def improve(self, state: TrustRegionState) -> None:
        """One accepted trust-region step."""
        self.move(state)

    def move(self, state: RoundState) -> None:
        """The step itself, on any state that has a ``radius``."""
        assert isinstance(state.objective, StiefelVariable)
        manifold = state.objective.manifold
        w = matrix_of(state)
        largest = np.sqrt(w.shape[1])
        radius: float = state.radius or 0.125 * largest  # type: ignore[attr-defined]
        value, ambient = evaluated(state.objective, w)
        comm = state.objective.comm
        gradient = agreed(comm, manifold.tangent(w, ambient))
        norms = float(np.linalg.norm(gradient)), float(np.linalg.norm(ambient))
        norm, size = agreed(comm, norms)
        if norm <= self.gradient_tolerance * max(1e-300, size):
            state.inner_done = True
            return
        for _ in range(30):
            step, promised = self._model_step(state, w, ambient, gradient, radius)
            candidate = manifold.orthonormal(w + step)
            reached, slope = evaluated(state.objective, candidate)
            state.evaluations += 1
            gained = (value - reached) / promised if promised > 0 else -1.0
            length = agreed(comm, float(np.linalg.norm(step)))
            if gained < 0.25:
                radius = 0.25 * length
            elif gained > 0.75 and length > 0.9 * radius:
                radius = min(2.0 * radius, largest)
            if reached <= value and gained > 1e-3:
                break
            if length < 1e-12:
                state.inner_done = True
                return
        else:
            state.inner_done = True
            return
        put_matrix(state, candidate)
        state.value = reached
        state.radius = radius  # type: ignore[attr-defined]
        state.step_length = length
        state.gradient_norm = residual_norm(candidate, slope)

    def _model_step(
        self,
        state: RoundState,
        w: np.ndarray,
        ambient: np.ndarray,
        gradient: np.ndarray,
        radius: float,
    ) -> tuple[np.ndarray, float]:
        """Steihaug's truncated conjugate gradients; the step and the decrease it promises."""
        objective = state.objective
        assert isinstance(objective, HessianProduct)
        assert isinstance(objective, StiefelVariable)
        layout, manifold = objective.layout, objective.manifold
        inner = w.T @ ambient
        multiplier = 0.5 * (inner + inner.T)
        x, moving, image = layout.vec_from(w), layout.create_vec(), layout.create_vec()

        def product(direction: np.ndarray) -> np.ndarray:
            with layout.writing(moving) as rows:
                rows[...] = direction
            objective.hessian_product(x, moving, image)
            turned = manifold.tangent(w, layout.reading(image) - direction @ multiplier)
            return agreed(objective.comm, turned)

        step, curved = np.zeros_like(w), np.zeros_like(w)
        residual = gradient.copy()
        direction = -residual
        square = start = float((residual**2).sum())
        # Superlinear: the closer to the end, the more exactly the model is solved.
        wanted = start * min(0.01, start)
        for _ in range(self.inner_products):
            turned = product(direction)
            curvature = float((direction * turned).sum())
            reach = square / curvature if curvature > 0 else np.inf
            further = step + reach * direction if np.isfinite(reach) else step
            length = agreed(objective.comm, float(np.linalg.norm(further)))
            if not np.isfinite(reach) or length >= radius:
                a = float((direction**2).sum())
                b = float((step * direction).sum())
                c = float((step**2).sum()) - radius**2
                reach = (-b + np.sqrt(max(b * b - a * c, 0.0))) / a
                step = step + reach * direction
                curved = curved + reach * turned
                break
            step, curved = further, curved + reach * turned
            residual = residual + reach * turned
            following = float((residual**2).sum())
            if following <= wanted:
                break
            direction = -residual + (following / square) * direction
            square = following
        promised = -float((gradient * step).sum() + 0.5 * (step * curved).sum())
        return step, promised
