"""L-BFGS steps on the Stiefel manifold, for the last part of a fixed-point iteration.

The two-loop recursion in the tangent space at W, with the pairs of earlier steps projected
onto it (vector transport by projection; Absil, Mahony and Sepulchre, 2008, section 8.1.3), and
Armijo's rule along the polar retraction.  The inner products of pairs, of which the L-BFGS of
thalweg_descent keeps a table, change with every projection.  W has few numbers and an evaluation
is expensive, so that all pairs of a run are kept up to a number that makes the approximation a
dense one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from thalweg.parallel import Array, agreed
from thalweg_clustering.alternating import RoundState, moved_to, residual_norm
from thalweg_clustering.stiefel import StiefelVariable

#: Pairs of steps and changes of the gradient that are kept.
PAIRS = 60
#: Armijo's constant, and the least cosine between a step and its change of the gradient.
DECREASE, CURVATURE = 1e-4, 1e-8
#: Halvings of a step after which W is taken to be a minimum in floating point.
MAX_HALVINGS = 12

Pair = tuple[Array, Array]


@dataclass(frozen=True, kw_only=True)
class QuasiNewtonState(RoundState):
    """State of a solver that takes quasi-Newton steps.

    Attributes
    ----------
    pairs
        Steps and changes of the gradient so far.
    slope
        Gradient at W, if it is known.
    refusals
        Steps that were shortened in the last iteration.
    """

    pairs: tuple[Pair, ...] = ()
    slope: Array | None = None
    refusals: int = 0


S = TypeVar("S", bound=QuasiNewtonState)


def quasi_newton_step(state: S, scale: float) -> S:
    """One accepted step, or the finding that none lowers the objective (``inner_done``).

    ``scale`` is a curvature to begin with.
    """
    objective, w, slope = state.objective, state.x, state.slope
    assert isinstance(objective, StiefelVariable)
    comm, manifold = objective.comm, objective.manifold
    if slope is None:
        value, slope = objective.value_and_gradient(w)
        evaluations = state.evaluations + 1
        state = replace(state, value=value, slope=slope, evaluations=evaluations)
    gradient = agreed(comm, manifold.project(w, slope))
    here = [(manifold.project(w, s), manifold.project(w, y)) for s, y in state.pairs]
    direction = agreed(comm, -_inverse_product(here, gradient, scale))
    promised = float((gradient * direction).sum())
    if not promised < 0:
        here, direction = [], -gradient / scale
        promised = float((gradient * direction).sum())
    length = agreed(comm, float(np.linalg.norm(direction)))
    step = min(1.0, 0.5 * np.sqrt(w.shape[1]) / max(length, 1e-300))
    for _ in range(MAX_HALVINGS):
        candidate = manifold.orthonormal(w + step * direction)
        value, ahead = objective.value_and_gradient(candidate)
        state = replace(state, evaluations=state.evaluations + 1)
        if value <= state.value + DECREASE * step * promised:
            break
        # The parabola through both values and the slope, within a factor.
        rise = value - state.value - step * promised
        step *= float(np.clip(-0.5 * promised * step / rise, 0.1, 0.5)) if rise > 0 else 0.5
        state = replace(state, refusals=state.refusals + 1)
    else:
        # Without pairs the direction was that of the gradient.
        return replace(state, pairs=(), inner_done=not here)
    moved = manifold.project(candidate, step * direction)
    turned = manifold.project(candidate, ahead) - manifold.project(candidate, gradient)
    bound = CURVATURE * float(np.linalg.norm(moved) * np.linalg.norm(turned))
    if agreed(comm, float((moved * turned).sum()) > bound):
        here = [*here, (moved, turned)][-PAIRS:]
    return moved_to(
        state,
        candidate,
        value=value,
        slope=ahead,
        pairs=tuple(here),
        step_length=step * length,
        gradient_norm=residual_norm(candidate, ahead),
    )


def _inverse_product(pairs: list[Pair], gradient: Array, scale: float) -> Array:
    """The inverse Hessian of the pairs times a vector (Nocedal and Wright, algorithm 7.4)."""
    usable = [(s, y, float((s * y).sum())) for s, y in pairs]
    usable = [(s, y, inner) for s, y, inner in usable if inner > 0]
    result = gradient.copy()
    shares = []
    for s, y, inner in reversed(usable):
        shares.append(float((s * result).sum()) / inner)
        result -= shares[-1] * y
    if usable:
        s, y, inner = usable[-1]
        result *= inner / float((y * y).sum())
    else:
        result /= scale
    for (s, y, inner), share in zip(usable, reversed(shares), strict=True):
        result += (share - float((y * result).sum()) / inner) * s
    return result
