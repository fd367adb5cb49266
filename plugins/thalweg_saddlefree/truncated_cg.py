"""Conjugate gradients as Hessian-free optimization runs them: stopped early, looked back on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thalweg_saddlefree.curvature.operator import Product
from thalweg_saddlefree.curvature.slices import Slices
from thalweg_saddlefree.curvature.store import Store

#: Ratio of the iteration numbers whose iterates are kept (Martens 2010, section 4.6).
KEPT = 1.3


@dataclass(frozen=True)
class Truncated:
    """What CG leaves behind.

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
    diagonal: np.ndarray | None,
    progress: float,
    limit: int,
) -> Truncated:
    """Minimise ``g'p + p'(G + damping I)p / 2`` until progress becomes slow.

    Martens (2010), section 4.4: after iteration i stop when the model phi has
    ``phi(i) < 0`` and ``(phi(i) - phi(i-k)) / phi(i) < k progress`` with
    ``k = max(10, i / 10)``.

    Parameters
    ----------
    product
        Product with G, positive semidefinite.
    start
        First p.
    diagonal
        Positive preconditioner, or None.
    limit
        Most iterations.
    """

    # CG runs in the variables D^(1/2) p, where the preconditioner is the identity.
    root = 1.0 if diagonal is None else np.sqrt(diagonal)

    def damped(piece: np.ndarray) -> np.ndarray:
        return product(piece) + damping * piece

    p = start.copy()
    plain = -gradient - damped(p) if slices.dot(p, p) > 0 else -gradient
    # phi(p) = g'p + p'Bp/2 = -(r + b)'p/2 with b = -g and r the residual.
    phi = [-0.5 * slices.dot(plain - gradient, p)]
    residual = plain / root
    direction = residual.copy()
    rho = slices.dot(residual, residual)
    residuals = Store(slices)
    iterates: list[np.ndarray] = []
    models: list[float] = []
    keep_at = 1
    iteration = 0
    while iteration < limit and rho > 0:
        residuals.append(residual / math.sqrt(rho))
        image = damped(direction / root) / root
        curvature = slices.dot(direction, image)
        if not curvature > 0:
            break
        length = rho / curvature
        p = p + (length / root) * direction
        residual = residual - length * image
        # In exact arithmetic residuals are orthogonal. Keeping them so costs little beside
        # a product, spares repeated ones, and keeps rounding from growing to a different
        # path on another number of ranks.
        residuals.subtract(residuals.coefficients(residual), residual)
        iteration += 1
        phi.append(-0.5 * slices.dot(root * residual - gradient, p))
        window = max(10, iteration // 10)
        slow = (
            iteration > window
            and phi[-1] < 0
            and (phi[-1] - phi[-1 - window]) / phi[-1] < window * progress
        )
        if iteration == keep_at:
            iterates.append(p)
            models.append(phi[-1] - 0.5 * damping * slices.dot(p, p))
            keep_at = max(keep_at + 1, math.ceil(keep_at * KEPT))
        if slow:
            break
        rho, previous = slices.dot(residual, residual), rho
        if rho <= 1e-30 * previous:
            break
        direction = residual + (rho / previous) * direction
    if not iterates or iterates[-1] is not p:
        iterates.append(p)
        models.append(phi[-1] - 0.5 * damping * slices.dot(p, p))
    return Truncated(iterates, models, iteration)
