"""L-BFGS on a small replicated matrix, which stops as soon as a condition is met.

The generic solvers minimize until nothing moves any more.  A feasibility problem
wants the opposite: the first point that is good enough, near the start, since a map
that fits the active secants ever better fits the others worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thalweg.numerics import backtrack, two_loop
from thalweg.parallel import MPI, agreed

#: Most steps of a search along a direction.
MAX_TRIALS = 34

#: Value, gradient, and what the stopping condition tests.
Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray, float]]

#: Times a matrix that is about the inverse of the second derivatives, but for a factor.
Precondition = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Memory:
    """Pairs of steps and changes of the gradient, newest last, shapes ``(m, *point.shape)``."""

    steps: np.ndarray
    changes: np.ndarray

    @classmethod
    def empty(cls) -> Memory:
        """No pairs."""
        return cls(np.empty((0, 0, 0)), np.empty((0, 0, 0)))


@dataclass(frozen=True)
class Descent:
    """End of a descent: the point, its value and measure, and whether the goal was met.

    ``stalled``: no step lowers the value, or not fast enough; ``memory``: the pairs, with
    which a descent of a slightly different function may go on.
    """

    point: np.ndarray
    value: float
    measure: float
    gradient_norm: float
    evaluations: int
    met: bool
    stalled: bool
    memory: Memory


def descend(
    evaluate: Evaluate,
    point: np.ndarray,
    goal: float,
    enough: float,
    patience: int,
    evaluations: int,
    pairs: int = 10,
    memory: Memory | None = None,
    precondition: Precondition = np.copy,
    comm: MPI.Comm = MPI.COMM_SELF,
) -> Descent:
    """Go down until the measure is at most ``goal``.  Collective over ``comm``.

    Ends after ``evaluations``, or gives up where no step lowers the value, or where the
    value, at the rate of the last steps, would not come down to ``enough`` within
    ``patience`` more.

    Notes
    -----
    Two-loop recursion of Nocedal (1980) about a scaled preconditioner, with backtracking
    by quadratic interpolation; pairs of too little curvature are left out.
    """
    value, gradient, measure = evaluate(point)
    used = 1
    steps = list(memory.steps) if memory is not None else []
    changes = list(memory.changes) if memory is not None else []
    stalled = False

    def downhill() -> tuple[np.ndarray, float]:
        direction = -_inverse_product(gradient, steps, changes, point, precondition)
        return agreed(comm, (direction, float(np.vdot(gradient, direction))))

    def ended() -> Descent:
        norm = agreed(comm, float(np.linalg.norm(gradient)))
        pairs = Memory(np.array(steps), np.array(changes)) if steps else Memory.empty()
        met = measure <= goal
        return Descent(point, value, measure, norm, used, met, stalled and not met, pairs)

    history = [value]
    while measure > goal and used < evaluations:
        direction, slope = downhill()
        if slope >= 0.0:
            steps.clear()
            changes.clear()
            direction, slope = downhill()
        trials = min(MAX_TRIALS, evaluations + 20 - used) if slope < 0.0 else 1
        start = point
        search = backtrack(
            lambda length: start + length * direction,  # noqa: B023
            evaluate, value, slope, 1.0, trials,
        )  # fmt: skip
        used += search.trials
        if not search.accepted:
            stalled = True
            return ended()
        point = search.x
        value, new_gradient, measure = search.outcome
        step, change = point - start, new_gradient - gradient
        gradient = new_gradient
        curved = np.vdot(step, change) > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change)
        if agreed(comm, bool(curved)):
            steps.append(step)
            changes.append(change)
            if len(steps) > pairs:
                steps.pop(0)
                changes.pop(0)
        history.append(value)
        if measure > goal and _out_of_reach(history, enough, patience):
            stalled = True
            break
    return ended()


def _out_of_reach(history: list[float], enough: float, steps: int, window: int = 40) -> bool:
    """Whether the values, at their geometric rate over the window, stay above ``enough``."""
    if len(history) <= window or history[-1] <= enough:
        return False
    rate = math.log(history[-window - 1] / history[-1]) / window
    return bool(rate * steps < math.log(history[-1] / max(enough, 1e-300)))


def _inverse_product(
    gradient: np.ndarray,
    steps: list[np.ndarray],
    changes: list[np.ndarray],
    point: np.ndarray,
    precondition: Precondition,
) -> np.ndarray:
    if not steps:
        # A first step of one percent of the point's own length.
        first = precondition(gradient)
        norm = max(float(np.linalg.norm(first)), 1e-300)
        return first * (0.01 * float(np.linalg.norm(point)) / norm)
    gamma = _dot(steps[-1], changes[-1]) / _dot(changes[-1], precondition(changes[-1]))
    pairs = list(zip(steps, changes, strict=True))
    return two_loop(gradient, pairs, lambda vector: precondition(vector) * gamma, _dot)


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.vdot(a, b))
