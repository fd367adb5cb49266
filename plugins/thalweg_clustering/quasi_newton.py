"""L-BFGS steps on the Stiefel manifold, for the last part of a fixed-point iteration.

The two-loop recursion in the tangent space at W, with the pairs of earlier steps projected
onto it (vector transport by projection; Absil, Mahony and Sepulchre, 2008, section 8.1.3), and
Armijo's rule along the polar retraction.  The inner products of pairs, of which the L-BFGS of
thalweg_descent keeps a table, change with every projection.  W has few numbers and an evaluation
is expensive, so that all pairs of a run are kept up to a number that makes the approximation a
dense one.
"""

from __future__ import annotations

import numpy as np

from thalweg.parallel import agreed
from thalweg_clustering.alternating import (
    RoundState,
    evaluated,
    matrix_of,
    put_matrix,
    residual_norm,
)
from thalweg_clustering.stiefel import StiefelVariable

#: Pairs of steps and changes of the gradient that are kept.
PAIRS = 60
#: Armijo's constant, and the least cosine between a step and its change of the gradient.
DECREASE, CURVATURE = 1e-4, 1e-8
#: Halvings of a step after which W is taken to be a minimum in floating point.
MAX_HALVINGS = 12

Pair = tuple[np.ndarray, np.ndarray]


def quasi_newton_step(
    state: RoundState, pairs: list[Pair], slope: np.ndarray | None, scale: float
) -> tuple[list[Pair], np.ndarray | None]:
    """One accepted step, or the finding that none lowers the objective (``inner_done``).

    ``pairs`` are steps and changes of the gradient so far, ``slope`` the gradient at W if it is
    known, ``scale`` a curvature to begin with.  Gives pairs and slope for the next step.
    """
    assert isinstance(state.objective, StiefelVariable)
    manifold = state.objective.manifold
    w = matrix_of(state)
    if slope is None:
        state.value, slope = evaluated(state.objective, w)
        state.evaluations += 1
    comm = state.objective.comm
    gradient = agreed(comm, manifold.tangent(w, slope))
    here = [(manifold.tangent(w, s), manifold.tangent(w, y)) for s, y in pairs]
    direction = agreed(comm, -_inverse_product(here, gradient, scale))
    promised = float((gradient * direction).sum())
    if not promised < 0:
        here, direction = [], -gradient / scale
        promised = float((gradient * direction).sum())
    length = agreed(comm, float(np.linalg.norm(direction)))
    step = min(1.0, 0.5 * np.sqrt(w.shape[1]) / max(length, 1e-300))
    for _ in range(MAX_HALVINGS):
        candidate = manifold.orthonormal(w + step * direction)
        value, ahead = evaluated(state.objective, candidate)
        state.evaluations += 1
        if value <= state.value + DECREASE * step * promised:
            break
        # The parabola through both values and the slope, within a factor.
        rise = value - state.value - step * promised
        step *= float(np.clip(-0.5 * promised * step / rise, 0.1, 0.5)) if rise > 0 else 0.5
        state.refusals += 1  # type: ignore[attr-defined]
    else:
        state.inner_done = not here  # without pairs it was along the gradient
        return [], slope
    moved = manifold.tangent(candidate, step * direction)
    turned = manifold.tangent(candidate, ahead) - manifold.tangent(candidate, gradient)
    bound = CURVATURE * float(np.linalg.norm(moved) * np.linalg.norm(turned))
    if agreed(comm, float((moved * turned).sum()) > bound):
        here = [*here, (moved, turned)][-PAIRS:]
    put_matrix(state, candidate)
    state.value, state.step_length = value, step * length
    state.gradient_norm = residual_norm(candidate, ahead)
    return here, ahead


def _inverse_product(pairs: list[Pair], gradient: np.ndarray, scale: float) -> np.ndarray:
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
