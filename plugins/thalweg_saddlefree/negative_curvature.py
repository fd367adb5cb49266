"""The way out of a stationary point that is no minimum: along negative curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg_saddlefree.curvature import CurvatureOperator, LanczosBasis, Slices

#: Most Lanczos steps that look for negative curvature.
MOST_STEPS = 60

#: Ritz values above this part of the largest, negated, are rounding.
ROUNDING = 1e-10


@dataclass(frozen=True)
class LowestCurvature:
    """Most negative Ritz value, this rank's slice of its unit vector, and Lanczos steps."""

    value: float
    vector: np.ndarray
    steps: int
    negative: bool


def lowest_curvature(
    slices: Slices, operator: CurvatureOperator, seed: int, steps: int
) -> LowestCurvature:
    """By Lanczos from a random vector, since there is no gradient to start from.  Collective."""
    basis = LanczosBasis(slices, slices.random_normal(seed))
    while len(basis) < min(steps, MOST_STEPS) and not basis.complete:
        basis.extend(operator)
    size = max(float(np.abs(basis.ritz_values()).max()), 1e-300)
    value, vector = basis.lowest_ritz_pair()
    return LowestCurvature(value, vector, len(basis), value < -ROUNDING * size)
