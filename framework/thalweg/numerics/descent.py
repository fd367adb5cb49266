"""Parts of minimizers: backtracking, conjugate gradients, the two-loop recursion."""

from collections.abc import Callable, Sequence
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


Map = Callable[[np.ndarray], np.ndarray]


class Solution(NamedTuple):
    """Where the iteration ended, the residual's squared norm there, and the products made.

    ``definite``: whether the matrix and the preconditioner showed themselves so.
    """

    x: np.ndarray
    square: float
    iterations: int
    definite: bool


def conjugate_gradients(
    product: Map,
    x: np.ndarray,
    residual: np.ndarray,
    dot: Callable[[np.ndarray, np.ndarray], float],
    goal: float,
    limit: int,
    precondition: Map | None = None,
    add: Callable[[np.ndarray, float, np.ndarray], np.ndarray] = lambda a, t, b: a + t * b,
) -> Solution:
    """Solution of ``A x = b`` (Hestenes and Stiefel, 1952; Saad, algorithm 9.1).

    Parameters
    ----------
    product
        A times a vector.
    x, residual
        Where to begin, and ``b - A x`` there; left as they are.
    dot
        Inner product, the same number on all ranks.
    goal, limit
        Squared norm of the residual at which to end, and most products.
    precondition
        Inverse of the preconditioner times a vector; None is the identity.
    add
        ``a + t b`` as a new array.
    """
    square, alignment = dot(residual, residual), 0.0
    search: np.ndarray | None = None
    for iteration in range(limit):
        if square <= goal:
            return Solution(x, square, iteration, True)
        scaled = residual if precondition is None else precondition(residual)
        last, alignment = alignment, square if precondition is None else dot(residual, scaled)
        if not alignment > 0.0:
            return Solution(x, square, iteration, False)
        search = scaled if search is None else scaled + (alignment / last) * search
        image = product(search)
        curvature = dot(search, image)
        if not curvature > 0.0:
            return Solution(x, square, iteration + 1, False)
        x = add(x, alignment / curvature, search)
        residual = add(residual, -alignment / curvature, image)
        square = dot(residual, residual)
    return Solution(x, square, limit, True)


def two_loop(
    gradient: np.ndarray,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    initial: Callable[[np.ndarray], np.ndarray],
    dot: Callable[[np.ndarray, np.ndarray], float],
) -> np.ndarray:
    """The inverse Hessian times a vector (Nocedal and Wright, algorithm 7.4).

    It is that of pairs of steps s and changes y of the gradient with ``s.y > 0``, the oldest
    first, about H0, which ``initial`` multiplies.  Each of the 2 m inner products waits for the one
    before: for distributed vectors the L-BFGS of thalweg_descent makes two reductions of them.
    """
    result, shares = gradient.copy(), []
    curvatures = [dot(s, y) for s, y in pairs]
    for (s, y), curvature in zip(reversed(pairs), reversed(curvatures), strict=True):
        shares.append(dot(s, result) / curvature)
        result -= shares[-1] * y
    result = initial(result)
    for (s, y), curvature, share in zip(pairs, curvatures, reversed(shares), strict=True):
        result += (share - dot(y, result) / curvature) * s
    return result
