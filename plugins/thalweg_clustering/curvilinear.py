"""Gradient descent on the Stiefel manifold along Cayley curves.

Wen and Yin, "A feasible method for optimization with orthogonality constraints"
(2013): with G the gradient and A = GW' - WG', the curve

    W(t) = (I + t/2 A)^(-1) (I - t/2 A) W

keeps W'W = I and descends; by the Woodbury formula it costs a system of size 2q.  First lengths
are those of Barzilai and Borwein.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from thalweg.numerics import backtrack
from thalweg.parallel import Array, agreed
from thalweg.plugins import Help
from thalweg_clustering import alternation
from thalweg_clustering.stiefel import StiefelVariable

#: Factor by which a refused step is shortened.
SHRINK = 0.2


@dataclass(frozen=True, kw_only=True)
class CurvilinearState(alternation.RoundState):
    """State of :class:`Curvilinear`."""

    length: float = 0.0  # first length to try in the next step
    parity: int = 0  # which of the two Barzilai-Borwein lengths comes next


@dataclass(frozen=True)
class Curvilinear(alternation.RoundSolver[CurvilinearState]):
    """Curvilinear search by Cayley curves (the paper's SM)."""

    inner_iterations: int = 1000
    gradient_tolerance: Annotated[
        float, Help("norm of the Riemannian gradient, relative, at which a round ends", minimum=0)
    ] = 1e-6

    state_type: ClassVar[type[alternation.RoundState]] = CurvilinearState

    def begin(self, state: CurvilinearState) -> CurvilinearState:
        """Value and gradient at W, and a first length that turns W by about a tenth."""
        state = super().begin(state)
        speed = agreed(state.objective.comm, _along(state.x, state.slope))
        return replace(state, length=0.1 / max(speed, 1e-300))

    def improve(self, state: CurvilinearState) -> CurvilinearState:
        objective, w, slope = state.objective, state.x, state.slope
        speed, size = agreed(objective.comm, (_along(w, slope), float(np.linalg.norm(slope))))
        if speed <= self.gradient_tolerance * max(size, 1e-300):
            return replace(state, inner_done=True)
        assert isinstance(objective, StiefelVariable)
        manifold = objective.manifold
        # Rounding of many steps adds up; the correction is of its size.
        search = backtrack(
            lambda length: manifold.orthonormal(cayley_point(w, slope, length)),
            objective.value_and_gradient, state.value, -(speed**2), state.length,
            alternation.MAX_TRIALS, ratios=(SHRINK, SHRINK),
        )  # fmt: skip
        evaluations = state.evaluations + search.trials
        if not search.accepted:
            return replace(state, inner_done=True, evaluations=evaluations)
        candidate, length, (value, gradient) = search.x, search.step, search.outcome
        following = self.next_length(state, length, candidate, gradient)
        return alternation.moved_to(
            state, candidate, value=value, slope=gradient, evaluations=evaluations,
            gradient_norm=alternation.residual_norm(candidate, gradient), step_length=length,
            length=agreed(objective.comm, following), parity=1 - state.parity,
        )  # fmt: skip

    def next_length(
        self, state: CurvilinearState, length: float, candidate: Array, gradient: Array
    ) -> float:
        """First length after a step to ``candidate``: the two Barzilai-Borwein lengths in turn."""
        moved = candidate - state.x
        turned = _direction(candidate, gradient) - _direction(state.x, state.slope)
        mixed, squares = abs(float((moved * turned).sum())), float((turned**2).sum())
        following = state.length
        if not state.parity and mixed > 0:
            following = float((moved**2).sum()) / mixed
        elif state.parity and squares > 0:
            following = mixed / squares
        return float(np.clip(following, 1e-15, 1e15))


def _direction(w: Array, slope: Array) -> Array:
    """A W, the gradient in the canonical metric."""
    return slope - w @ (slope.T @ w)


def _along(w: Array, slope: Array) -> float:
    """Norm of A over the root of 2: minus the slope of F along the curve is its square."""
    a = slope @ w.T
    return float(np.linalg.norm(a - a.T)) / np.sqrt(2.0)


def cayley_point(w: Array, slope: Array, length: float) -> Array:
    """The point of the Cayley curve at ``length``."""
    d, q = w.shape
    if 2 * q < d:
        left = np.concatenate([slope, w], axis=1)
        right = np.concatenate([w, -slope], axis=1)
        system = np.eye(2 * q) + (0.5 * length) * right.T @ left
        return w - length * left @ np.linalg.solve(system, right.T @ w)
    a = slope @ w.T
    a = (0.5 * length) * (a - a.T)
    return np.linalg.solve(np.eye(d) + a, w - a @ w)
