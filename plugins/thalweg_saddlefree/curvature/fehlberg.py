"""The embedded Runge-Kutta-Fehlberg pair of orders 4 and 5 for vectors over the ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thalweg_saddlefree.curvature.absolute import SpectrumTooWide
from thalweg_saddlefree.curvature.slices import Slices

# Fehlberg (1969), NASA TR R-315, table III.
NODES = (0.0, 1 / 4, 3 / 8, 12 / 13, 1.0, 1 / 2)
STAGES = (
    (),
    (1 / 4,),
    (3 / 32, 9 / 32),
    (1932 / 2197, -7200 / 2197, 7296 / 2197),
    (439 / 216, -8.0, 3680 / 513, -845 / 4104),
    (-8 / 27, 2.0, -3544 / 2565, 1859 / 4104, -11 / 40),
)
FOURTH = (25 / 216, 0.0, 1408 / 2565, 2197 / 4104, -1 / 5, 0.0)
FIFTH = (16 / 135, 0.0, 6656 / 12825, 28561 / 56430, -9 / 50, 2 / 55)


#: Steps, refused ones included, after which the solution bends too sharply.
MOST_STEPS = 500


def integrate(
    slices: Slices,
    slope: Callable[[float, np.ndarray], np.ndarray],
    start: np.ndarray,
    tolerance: float,
) -> np.ndarray:
    """``x(1)`` of ``dx/dt = slope(t, x)``, ``x(0) = start``; this rank's slices.

    The local error of a step, relative to the norm of x and to the step's share
    of the interval, stays below ``tolerance``; the result is that of order 5.
    """
    t, x, length = 0.0, start.copy(), 0.05
    for _ in range(MOST_STEPS):
        length = min(length, 1.0 - t)
        slopes: list[np.ndarray] = []
        for node, weights in zip(NODES, STAGES, strict=True):
            stage = x + length * _sum(weights, slopes, x)
            slopes.append(slope(t + node * length, stage))
        gap = [five - four for five, four in zip(FIFTH, FOURTH, strict=True)]
        error = length * slices.norm(_sum(gap, slopes, x)) / slices.norm(x)
        allowed = tolerance * length
        if error <= allowed:
            x = x + length * _sum(FIFTH, slopes, x)
            t += length
            if t >= 1.0 - 1e-14:  # 1 - t may be left as a rounding error
                return x
        # The error per unit step goes with the fourth power of the length.
        growth = 0.9 * (allowed / error) ** 0.25 if error > 0 else 4.0
        length *= min(4.0, max(0.2, growth))
    raise SpectrumTooWide(
        f"the differential equation needs more than {MOST_STEPS} steps; take method = 'lanczos' or "
        "raise the damping"
    )


def _sum(weights: tuple[float, ...] | list[float], terms: list[np.ndarray], like: np.ndarray):  # type: ignore[no-untyped-def]
    total = np.zeros_like(like)
    for weight, term in zip(weights, terms, strict=True):
        if weight:
            total += weight * term
    return total
