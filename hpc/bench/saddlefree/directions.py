"""Products with H that one direction takes, against its true error, by each way of |H|."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from thalweg.parallel import MPI
from thalweg_saddlefree.curvature import (
    AbsoluteSolver,
    LanczosAbsolute,
    OdeAbsolute,
    Slices,
    SpectrumTooWide,
)

from .rational import RationalAbsolute

#: Ways of |H|; for the differential equation the accuracy of its solves, as a part of the
#: tolerance, is tuned: the table has both the least of these and the default's.
METHODS: dict[str, tuple[type[AbsoluteSolver], dict[str, Any]]] = {
    "lanczos": (LanczosAbsolute, {}),
    "rational": (RationalAbsolute, {}),
    "ode": (OdeAbsolute, {}),
    "ode, tuned (0.01)": (OdeAbsolute, {"inner_part": 0.01}),
    "ode, tuned (1)": (OdeAbsolute, {"inner_part": 1.0}),
    "ode, tuned (10)": (OdeAbsolute, {"inner_part": 10.0}),
}
CONDITIONS = (10, 30, 100)

#: Up to this condition the differential equation is tuned; beyond, a try takes minutes.
TUNED_UP_TO = 30
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def spectrum(size: int, condition: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues spread evenly in the logarithm, 30 % negative, and a random gradient."""
    rng = np.random.default_rng(seed)
    values = np.geomspace(1.0 / condition, 1.0, size)
    values[rng.permutation(size)[: int(0.3 * size)]] *= -1.0
    return values, rng.standard_normal(size)


def measure_directions(size: int) -> list[dict[str, Any]]:
    """Rows of way, condition, tolerance, products, true and estimated error, seconds."""
    rows = []
    for condition in CONDITIONS:
        values, gradient = spectrum(size, condition)
        exact = -gradient / np.abs(values)
        for name, (way, settings) in METHODS.items():
            if settings and condition > TUNED_UP_TO:
                continue
            for tolerance in TOLERANCES:
                solver = way(
                    Slices(MPI.COMM_SELF, size),
                    lambda v, values=values: values * v,
                    gradient,
                    tolerance,
                    5000,
                )
                for key, value in settings.items():
                    setattr(solver, key, value)
                start = time.perf_counter()
                try:
                    found = solver.direction(0.0)
                except SpectrumTooWide:
                    continue  # this way's own limit of steps
                seconds = time.perf_counter() - start
                error = np.linalg.norm(found.step - exact) / np.linalg.norm(exact)
                rows.append(
                    {
                        "way": name,
                        "condition": condition,
                        "tolerance": tolerance,
                        "products": solver.products,
                        "error": float(error),
                        "estimate": found.error,
                        "seconds": seconds,
                    }
                )
    return rows
