"""Figure 3: time of the eigenproblem of the W-step against the number of features."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from thalweg import Dataset
from thalweg_clustering import build_kdac
from thalweg_clustering.stiefel import smallest_eigenvectors

from .coordinate_power import coordinate_power_smallest
from .sets import Problem

#: From this number of features on, the eigenproblem is no longer mere overhead.
LARGE = 64


def measure_dimension(problem: Problem, most: int, seconds: float) -> dict[str, Any]:
    """Noisy features are added to a set, doubling their number; slopes are fitted.

    For each number of features Phi(W) is formed once; what is timed are its q
    smallest eigenvectors, by LAPACK and by the coordinate-wise power method from
    the W before, as inside the iteration.
    """
    stream = np.random.default_rng(5)
    found: list[dict[str, float]] = []
    spread = problem.points.std(axis=0).mean()
    features = 2 * problem.points.shape[1]
    while features <= most:
        extra = features - problem.points.shape[1]
        noise = spread * 0.1 * stream.uniform(-1, 1, (len(problem.points), extra))
        points = np.concatenate([problem.points, noise], axis=1)
        dataset = Dataset.from_array(points)
        objective = build_kdac(
            dataset, dataset.comm, clusters=problem.clusters, components=problem.components,
            sigma=problem.sigma, lambda_=problem.penalty, condition=False,
            labelings=[problem.given],
        )  # fmt: skip
        guess = objective.initial_point(0)
        matrix = objective.fixed_point_matrix(guess)
        row: dict[str, float] = {"features": features}
        exact = smallest_eigenvectors(matrix, problem.components)
        solvers: dict[str, Callable[[], np.ndarray]] = {
            "lapack": partial(smallest_eigenvectors, matrix, problem.components),
            "cpm": partial(coordinate_power_smallest, matrix, guess, 1e-4),
        }
        for solver, solve in solvers.items():
            solve()
            times, began = [], time.perf_counter()
            while len(times) < 5 or time.perf_counter() - began < min(seconds, 0.2):
                start = time.perf_counter()
                vectors = solve()
                times.append(time.perf_counter() - start)
                if time.perf_counter() - began > seconds:
                    break
            row[solver] = float(min(times))
        shortfall = np.trace(vectors.T @ matrix @ vectors) - np.trace(exact.T @ matrix @ exact)
        row["cpm_shortfall"] = float(shortfall / np.abs(matrix).sum(axis=1).max())
        found.append(row)
        features *= 2
    large = [row for row in found if row["features"] >= LARGE]
    return {
        "rows": found,
        "slopes": {solver: slope(found, solver) for solver in ("lapack", "cpm")},
        "slopes_large": {solver: slope(large, solver) for solver in ("lapack", "cpm")},
        "set": problem.name,
    }


def slope(rows: list[dict[str, float]], solver: str) -> float | None:
    """Slope of the logarithm of the time; None for fewer than three numbers of features."""
    if len(rows) < 3:
        return None
    logs = np.log([[row["features"], row[solver]] for row in rows])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
