"""Preconditioned conjugate gradients on vectors of any shape and distribution."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

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
