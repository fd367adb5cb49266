"""Conjugate gradients for a positive definite matrix known by its products."""

from __future__ import annotations

import numpy as np

from thalweg_saddlefree.curvature.operator import Product
from thalweg_saddlefree.curvature.slices import Slices


def conjugate_gradients(
    slices: Slices, product: Product, right: np.ndarray, tolerance: float, limit: int
) -> tuple[np.ndarray, int, float]:
    """Solution of ``A x = right`` from zero (Hestenes and Stiefel, 1952).

    Parameters
    ----------
    product
        Product with A, positive definite.
    right
        This rank's slice of the right-hand side.
    tolerance
        Stop when the residual's norm is this part of ``right``'s.
    limit
        Most iterations.

    Returns
    -------
    x : ndarray
        This rank's slice.
    iterations : int
    residual : float
        Relative to the norm of ``right``.  It stays infinite if A turned out not
        to be positive definite, in which case x is what was reached before.
    """
    x = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    square = start = slices.dot(residual, residual)
    if start == 0.0:
        return x, 0, 0.0
    for iteration in range(limit):
        if square <= tolerance**2 * start:
            return x, iteration, float(np.sqrt(square / start))
        Ap = product(direction)
        pAp = slices.dot(direction, Ap)
        if not pAp > 1e-30 * slices.dot(direction, direction):
            return x, iteration + 1, float("inf")
        alpha = square / pAp
        x += alpha * direction
        residual -= alpha * Ap
        previous, square = square, slices.dot(residual, residual)
        direction *= square / previous
        direction += residual
    return x, limit, float(np.sqrt(square / start))
