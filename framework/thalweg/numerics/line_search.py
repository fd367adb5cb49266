"""Backtracking along a curve until Armijo's condition holds."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T", bound=tuple[float, *tuple[object, ...]])


class Backtracked(NamedTuple, Generic[T]):
    """The last step tried, the point there, what the function gave, and how many were tried."""

    accepted: bool
    step: float
    x: np.ndarray
    outcome: T
    trials: int


def parabola_ratio(rise: float, predicted: float, least: float, largest: float) -> float:
    """The next step over a rejected one, from the minimizer of a parabola, within bounds.

    ``rise`` is the value there less that at the start, ``predicted`` the step times the slope.
    """
    excess = rise - predicted
    return min(largest, max(least, -0.5 * predicted / excess)) if excess > 0 else largest


def backtrack(
    curve: Callable[[float], np.ndarray],
    function: Callable[[np.ndarray], T],
    value: float,
    slope: float,
    step: float,
    trials: int,
    armijo: float = 1e-4,
    ratios: tuple[float, float] = (0.1, 0.5),
) -> Backtracked[T]:
    """The first step that lowers a function enough (Nocedal and Wright, algorithm 3.1).

    Parameters
    ----------
    curve, function
        The point of a step, and the value at a point, followed by what else is known there.
    value, slope
        At step 0; the slope is negative.
    step, trials
        First step to try, and most steps.
    armijo
        c1 in ``phi(a) <= phi(0) + c1 a phi'(0)``.
    ratios
        Bounds of a step over the rejected one before it; where both are equal, that ratio.
    """
    for trial in range(1, trials + 1):
        x = curve(step)
        outcome = function(x)
        accepted = outcome[0] <= value + armijo * step * slope
        if accepted or trial == trials:
            break
        step *= parabola_ratio(outcome[0] - value, step * slope, *ratios)
    return Backtracked(accepted, step, x, outcome, trial)
