"""A Riemannian trust-region method: quadratic convergence from Hessian products.

The model is minimized by truncated conjugate gradients (Steihaug, Toint) in the tangent space; the
Hessian there is that of Absil, Mahony and Sepulchre, "Optimization Algorithms on Matrix Manifolds"
(2008), for the Stiefel manifold with the metric of the surrounding space.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from thalweg.engines.hessian import HessianProduct
from thalweg.interfaces import Capability, Objective
from thalweg.parallel import Array, agreed
from thalweg.plugins import Help
from thalweg_clustering import rounds
from thalweg_clustering.stiefel import StiefelVariable


@dataclass(frozen=True, kw_only=True)
class TrustRegionState(rounds.RoundState):
    """State of :class:`TrustRegion`: the trust radius; 0 before the first step."""

    radius: float = 0.0


@dataclass(frozen=True)
class TrustRegion(rounds.RoundSolver[TrustRegionState]):
    """Riemannian trust region on the Stiefel manifold."""

    inner_tolerance: float = 1e-10
    gradient_tolerance: rounds.GradientTolerance = 1e-9
    inner_products: Annotated[
        int, Help("maximum number of Hessian products of a step", minimum=1)
    ] = 50

    requires: ClassVar[tuple[type[Capability], ...]] = (StiefelVariable, HessianProduct)

    state_type: ClassVar[type[rounds.RoundState]] = TrustRegionState

    def improve(self, state: TrustRegionState) -> TrustRegionState:
        """One accepted trust-region step."""
        objective, w = state.objective, state.x
        assert isinstance(objective, StiefelVariable)
        comm, manifold = objective.comm, objective.manifold
        largest = np.sqrt(w.shape[1])
        radius = state.radius or 0.125 * largest
        value, ambient = objective.value_and_gradient(w)
        gradient = agreed(comm, manifold.project(w, ambient))
        norms = float(np.linalg.norm(gradient)), float(np.linalg.norm(ambient))
        norm, size = agreed(comm, norms)
        if norm <= self.gradient_tolerance * max(1e-300, size):
            return replace(state, inner_done=True)
        evaluations = state.evaluations
        for _ in range(30):
            step, promised = self._model_step(objective, w, ambient, gradient, radius)
            candidate = manifold.orthonormal(w + step)
            reached, slope = objective.value_and_gradient(candidate)
            evaluations += 1
            gained = (value - reached) / promised if promised > 0 else -1.0
            length = agreed(comm, float(np.linalg.norm(step)))
            if gained < 0.25:
                radius = 0.25 * length
            elif gained > 0.75 and length > 0.9 * radius:
                radius = min(2.0 * radius, largest)
            if reached <= value and gained > 1e-3:
                return rounds.moved_to(
                    state, candidate, value=reached, radius=radius, step_length=length,
                    gradient_norm=rounds.residual_norm(candidate, slope), evaluations=evaluations,
                )  # fmt: skip
            if length < 1e-12:
                break
        return replace(state, inner_done=True, evaluations=evaluations)

    def _model_step(
        self, objective: Objective, w: Array, ambient: Array, gradient: Array, radius: float
    ) -> tuple[Array, float]:
        """Steihaug's truncated conjugate gradients; the step and the decrease it promises."""
        assert isinstance(objective, HessianProduct)
        assert isinstance(objective, StiefelVariable)
        manifold = objective.manifold
        inner = w.T @ ambient
        multiplier = 0.5 * (inner + inner.T)

        def product(direction: Array) -> Array:
            image = objective.hessian_product(w, direction)
            return agreed(objective.comm, manifold.project(w, image - direction @ multiplier))

        step, curved = np.zeros_like(w), np.zeros_like(w)
        residual, direction = gradient, -gradient
        square = start = float((residual**2).sum())
        # Superlinear: the closer to the end, the more exactly the model is solved.
        goal = start * min(0.01, start)
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
            if following <= goal:
                break
            direction = -residual + (following / square) * direction
            square = following
        promised = -float((gradient * step).sum() + 0.5 * (step * curved).sum())
        return step, promised
