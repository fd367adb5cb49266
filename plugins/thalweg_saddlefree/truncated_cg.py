"""Conjugate gradients as Hessian-free optimization runs them: truncated, some iterates stored.

In exact arithmetic residuals are orthogonal in the preconditioner's inverse.  Keeping them so costs
little beside a product, spares repeated ones, and keeps rounding from growing to a different path
on another number of ranks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg_saddlefree.curvature.operator import Product
from thalweg_saddlefree.curvature.slices import Slices
from thalweg_saddlefree.curvature.store import Store

#: Ratio of the iteration numbers whose iterates are stored (Martens 2010, section 4.6).
STORED = 1.3


@dataclass(frozen=True)
class Truncated:
    """Result of CG."""

    iterates: list[np.ndarray]  # this rank's slices of some iterates, the last one included
    #: For each, the change of the objective that the undamped quadratic model predicts.
    models: list[float]
    iterations: int  # CG iterations made


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
    Residuals are stored in ``dtype``, by default in double precision.
    """

    def damped(piece: np.ndarray) -> np.ndarray:
        return product(piece) + damping * piece

    def model(x: np.ndarray, r: np.ndarray) -> float:
        # phi(x) = g'x + x'Ax/2 = -(r + b)'x/2 with b = -g and r the residual.
        return -0.5 * slices.dot(r - gradient, x)

    x, r = start, -gradient
    if slices.dot(x, x) > 0:
        r = r - damped(x)
    phi, z = [model(x, r)], solve(r)
    direction, rz, previous = z, slices.dot(r, z), 0.0
    residuals, solved = Store(slices, dtype), Store(slices, dtype)
    iterates: dict[int, np.ndarray] = {}
    stored_at, iteration = 1, 0
    while iteration < limit and rz > 1e-30 * previous:
        residuals.append(r / math.sqrt(rz))
        solved.append(z / math.sqrt(rz))
        Ap = damped(direction)
        pAp = slices.dot(direction, Ap)
        if not pAp > 0:
            break
        alpha = rz / pAp
        x = x + alpha * direction
        r = r - alpha * Ap
        residuals.subtract(solved.coefficients(r), r)
        iteration += 1
        phi.append(model(x, r))
        if iteration == stored_at:
            iterates[iteration] = x
            stored_at = max(stored_at + 1, math.ceil(stored_at * STORED))
        window = max(10, iteration // 10)
        falls = iteration > window and phi[-1] < 0
        if falls and (phi[-1] - phi[-1 - window]) / phi[-1] < window * progress:
            break  # the last iterations lowered the model by less than ``progress`` each
        z = solve(r)
        rz, previous = slices.dot(r, z), rz
        direction = z + (rz / previous) * direction
    iterates[iteration] = x
    models = [phi[i] - 0.5 * damping * slices.dot(some, some) for i, some in iterates.items()]
    return Truncated(list(iterates.values()), models, iteration)
