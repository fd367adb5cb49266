"""L-BFGS on a small replicated matrix, which stops as soon as a condition is met.

The generic solvers minimize until nothing moves any more.  A feasibility problem
wants the opposite: the first point that is good enough, near the start, since a map
that fits the active secants ever better fits the others worse.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from thalweg.numerics import backtrack, two_loop
from thalweg.parallel import MPI, agreed

#: Most steps of a search along a direction; chosen by hand.
MAX_TRIALS = 34

#: Last steps whose mean rate tells how far a descent will come; chosen by hand.
WINDOW = 40

#: Value, gradient, and what the stopping condition tests.
Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray, float]]

#: Times a matrix that is about the inverse of the second derivatives, but for a factor.
Precondition = Callable[[np.ndarray], np.ndarray]

#: A step and the change of the gradient.
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class LbfgsEnd:
    """End of a descent: the point, its measure, and whether the goal was met.

    ``stalled``: no step lowers the value, or not fast enough; ``pairs``: those, newest last, with
    which a descent of a slightly different function may go on.
    """

    point: np.ndarray
    measure: float
    gradient_norm: float
    evaluations: int
    met: bool
    stalled: bool
    pairs: tuple[Pair, ...]


def descend(
    evaluate: Evaluate,
    point: np.ndarray,
    goal: float,
    enough: float,
    patience: int,
    evaluations: int,
    pairs: Sequence[Pair] = (),
    most_pairs: int = 10,
    precondition: Precondition = np.copy,
    comm: MPI.Comm = MPI.COMM_SELF,
) -> LbfgsEnd:
    """Go down until the measure is at most ``goal``.  Collective over ``comm``.

    Ends after ``evaluations``, or gives up where no step lowers the value, or where the value, at
    the rate of the last steps, would not come down to ``enough`` within ``patience`` more.

    Notes
    -----
    Two-loop recursion of Nocedal (1980) about a scaled preconditioner, with backtracking
    by quadratic interpolation; pairs of too little curvature are left out.
    """
    value, gradient, measure = evaluate(point)
    used, stalled, history = 1, False, [value]
    while measure > goal and used < evaluations and not stalled:
        for known in (pairs, ()):
            pairs = known
            direction = -_inverse_product(gradient, pairs, point, precondition)
            direction, slope = agreed(comm, (direction, float(np.vdot(gradient, direction))))
            if slope < 0.0:
                break
        trials = min(MAX_TRIALS, evaluations + 20 - used) if slope < 0.0 else 1
        search = backtrack(
            lambda length: point + length * direction,  # noqa: B023
            evaluate, value, slope, 1.0, trials,
        )  # fmt: skip
        used += search.trials
        if not search.accepted:
            stalled = True
            break
        value, new_gradient, measure = search.outcome
        step, change = search.x - point, new_gradient - gradient
        point, gradient = search.x, new_gradient
        curved = np.vdot(step, change) > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change)
        if agreed(comm, bool(curved)):
            pairs = (*pairs, (step, change))[-most_pairs:]
        history.append(value)
        stalled = measure > goal and _is_out_of_reach(history, enough, patience)
    norm = agreed(comm, float(np.linalg.norm(gradient)))
    met = measure <= goal
    return LbfgsEnd(point, measure, norm, used, met, stalled and not met, tuple(pairs))


def _is_out_of_reach(history: list[float], enough: float, steps: int) -> bool:
    """Whether the values, at their geometric rate over the last steps, stay above ``enough``."""
    if len(history) <= WINDOW or history[-1] <= enough:
        return False
    rate = math.log(history[-WINDOW - 1] / history[-1]) / WINDOW
    return bool(rate * steps < math.log(history[-1] / max(enough, 1e-300)))


def _inverse_product(
    gradient: np.ndarray, pairs: Sequence[Pair], point: np.ndarray, precondition: Precondition
) -> np.ndarray:
    if not pairs:
        # A first step of one percent of the point's own length.
        first = precondition(gradient)
        norm = max(float(np.linalg.norm(first)), 1e-300)
        return first * (0.01 * float(np.linalg.norm(point)) / norm)
    step, change = pairs[-1]
    gamma = np.vdot(step, change) / np.vdot(change, precondition(change))
    return two_loop(gradient, pairs, lambda vector: precondition(vector) * gamma, np.vdot)
