"""L-BFGS steps on the Stiefel manifold, for the last part of a fixed-point iteration.

The two-loop recursion in the tangent space at W, with the pairs of earlier steps projected onto it
(Absil, Mahony and Sepulchre, 2008, section 8.1.3), which changes their inner products, and Armijo's
rule along the polar retraction.  W has few numbers and an evaluation is expensive, so that all
pairs of a run are kept up to a number that makes the approximation a dense one.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from thalweg.numerics import backtrack, two_loop
from thalweg.parallel import Array, agreed
from thalweg_clustering.alternation import RoundState, moved_to, residual_norm
from thalweg_clustering.stiefel import StiefelVariable

#: Pairs of steps and changes of the gradient that are kept; chosen by hand.
PAIRS = 60
#: Least cosine between a step and its change of the gradient.
CURVATURE = 1e-8
#: Steps of a search after which W is taken to be a minimum in floating point; chosen by hand.
MAX_TRIALS = 12

Pair = tuple[Array, Array]


@dataclass(frozen=True, kw_only=True)
class QuasiNewtonState(RoundState):
    """State of a solver that takes quasi-Newton steps."""

    pairs: tuple[Pair, ...] = ()  # steps and changes of the gradient so far
    slope: Array | None = None  # gradient at W, if it is known
    refusals: int = 0  # steps that were shortened in the last iteration


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
    pairs = [(manifold.project(w, s), manifold.project(w, y)) for s, y in state.pairs]
    curved = [(s, y) for s, y in pairs if _dot(s, y) > 0]
    product = gradient / scale
    if curved:  # the inverse Hessian of the pairs that still show curvature
        gamma = _dot(*curved[-1]) / _dot(curved[-1][1], curved[-1][1])
        product = two_loop(gradient, curved, lambda vector: vector * gamma, _dot)
    direction = agreed(comm, -product)
    promised = _dot(gradient, direction)
    if not promised < 0:
        pairs, direction = [], -gradient / scale
        promised = _dot(gradient, direction)
    length = agreed(comm, float(np.linalg.norm(direction)))
    search = backtrack(
        lambda step: manifold.orthonormal(w + step * direction),
        objective.value_and_gradient, state.value, promised,
        min(1.0, 0.5 * np.sqrt(w.shape[1]) / max(length, 1e-300)), MAX_TRIALS,
    )  # fmt: skip
    refusals = state.refusals + search.trials - search.accepted
    state = replace(state, evaluations=state.evaluations + search.trials, refusals=refusals)
    if not search.accepted:
        # Without pairs the direction was that of the gradient.
        return replace(state, pairs=(), inner_done=not pairs)
    candidate, step, (value, ahead) = search.x, search.step, search.outcome
    moved = manifold.project(candidate, step * direction)
    turned = manifold.project(candidate, ahead) - manifold.project(candidate, gradient)
    bound = CURVATURE * float(np.linalg.norm(moved) * np.linalg.norm(turned))
    if agreed(comm, _dot(moved, turned) > bound):
        pairs = [*pairs, (moved, turned)][-PAIRS:]
    return moved_to(
        state, candidate, value=value, slope=ahead, pairs=tuple(pairs), step_length=step * length,
        gradient_norm=residual_norm(candidate, ahead),
    )  # fmt: skip


def _dot(a: Array, b: Array) -> float:
    return float((a * b).sum())
