"""Conjugate gradients as Hessian-free optimization runs them: truncated, some iterates kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg_saddlefree.curvature.operator import Product
from thalweg_saddlefree.curvature.slices import Slices
from thalweg_saddlefree.curvature.store import Store

#: Ratio of the iteration numbers whose iterates are kept (Martens 2010, section 4.6).
KEPT = 1.3


@dataclass(frozen=True)
class Truncated:
    """Result of CG.

    Attributes
    ----------
    iterates
        This rank's slices of some iterates, the last one included.
    models
        For each, the change of the objective that the undamped quadratic model predicts.
    iterations
        CG iterations made.
    """

    iterates: list[np.ndarray]
    models: list[float]
    iterations: int


def truncated_cg(
    slices: Slices,
    product: Product,
    gradient: np.ndarray,
    damping: float,
    start: np.ndarray,
    solve: Callable[[np.ndarray], np.ndarray],
    progress: float,
    limit: int,
    dtype: np.dtype[Any] | None = None,
) -> Truncated:
    """Minimize ``g'x + x'(G + damping I)x / 2`` until progress becomes slow.

    Martens (2010), section 4.4: after iteration i stop when the model phi has
    ``phi(i) < 0`` and ``(phi(i) - phi(i-k)) / phi(i) < k progress`` with
    ``k = max(10, i / 10)``, or after ``limit`` iterations.  G, of which ``product`` is the product,
    is positive semidefinite, and the preconditioner, with which ``solve`` solves, definite.
    Residuals are kept in ``dtype``, by default in double precision.
    """

    def damped(piece: np.ndarray) -> np.ndarray:
        return product(piece) + damping * piece

    x = start
    r = -gradient - damped(x) if slices.dot(x, x) > 0 else -gradient
    # phi(x) = g'x + x'Ax/2 = -(r + b)'x/2 with b = -g and r the residual.
    phi = [-0.5 * slices.dot(r - gradient, x)]
    z = solve(r)
    direction = z
    rz = slices.dot(r, z)
    residuals, solved = Store(slices, dtype), Store(slices, dtype)
    iterates: list[np.ndarray] = []
    models: list[float] = []
    keep_at = 1
    iteration = 0
    while iteration < limit and rz > 0:
        residuals.append(r / math.sqrt(rz))
        solved.append(z / math.sqrt(rz))
        Ap = damped(direction)
        pAp = slices.dot(direction, Ap)
        if not pAp > 0:
            break
        alpha = rz / pAp
        x = x + alpha * direction
        r = r - alpha * Ap
        # In exact arithmetic residuals are orthogonal in the preconditioner's inverse.
        # Keeping them so costs little beside a product, spares repeated ones, and keeps
        # rounding from growing to a different path on another number of ranks.
        residuals.subtract(solved.coefficients(r), r)
        iteration += 1
        phi.append(-0.5 * slices.dot(r - gradient, x))
        window = max(10, iteration // 10)
        slow = (
            iteration > window
            and phi[-1] < 0
            and (phi[-1] - phi[-1 - window]) / phi[-1] < window * progress
        )
        if iteration == keep_at:
            iterates.append(x)
            models.append(phi[-1] - 0.5 * damping * slices.dot(x, x))
            keep_at = max(keep_at + 1, math.ceil(keep_at * KEPT))
        if slow:
            break
        z = solve(r)
        rz, previous = slices.dot(r, z), rz
        if rz <= 1e-30 * previous:
            break
        direction = z + (rz / previous) * direction
    if not iterates or iterates[-1] is not x:
        iterates.append(x)
        models.append(phi[-1] - 0.5 * damping * slices.dot(x, x))
    return Truncated(iterates, models, iteration)
