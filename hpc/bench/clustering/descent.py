"""ISM against descent on the Stiefel manifold, from the same W to the same value.

A whole run spends most of its time on what the methods share: the renewal of U,
k-means, the measures.  Here U and D stay as they start, both methods begin at
the same random W, and what counts is the time until the objective is within
1e-6 of the lowest value that either reaches.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import thalweg
from thalweg.interfaces import Solver
from thalweg.parallel import MPI, Layout
from thalweg_clustering.curvilinear import Curvilinear
from thalweg_clustering.ism import ISM
from thalweg_clustering.kdac import make_kdac
from thalweg_clustering.pair_sum import GaussianPairSum
from thalweg_clustering.prepared_data import centred_points

from .sets import Problem

#: The paper's method, its rival as here, and the rival without Barzilai-Borwein lengths.
METHODS: dict[str, Solver[Any]] = {
    "ISM": ISM(inner_tolerance=0.0, inner_iterations=10**6),
    "SM": Curvilinear(inner_tolerance=0.0, inner_iterations=10**6),
    "SM, plain": Curvilinear(inner_tolerance=0.0, inner_iterations=10**6, lengths="armijo"),
}

#: Values count as equal within this share.
CLOSE = 1e-6


def measure_descent(problem: Problem, starts: int, seconds: float) -> dict[str, Any]:
    """Median CPU seconds and evaluations to the value, over starts where both reach it."""
    layout = Layout(MPI.COMM_SELF, *problem.points.shape)
    kdac = make_kdac(
        layout, centred_points(layout, problem.points), problem.given, problem.clusters,
        problem.components, problem.sigma, problem.penalty, "random", bound=False,
    )  # fmt: skip
    objective = GaussianPairSum(kdac.kernel, problem.components, kdac.weights)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    for seed in range(starts):
        curves = {
            name: _curve(objective, solver, seed, seconds) for name, solver in METHODS.items()
        }
        lowest = min(value for curve in curves.values() for _, _, value in curve)
        for name, curve in curves.items():
            near = [p for p in curve if p[2] <= lowest + CLOSE * max(abs(lowest), 1e-12)]
            found[name].append(near[0][:2] if near else (float("inf"), float("inf")))
    row: dict[str, Any] = {"set": problem.name, "starts": starts}
    met = [i for i in range(starts) if np.isfinite([found[m][i][0] for m in ("ISM", "SM")]).all()]
    row["both"] = len(met)
    for name, pairs in found.items():
        times = [pairs[i] for i in met]
        if times:
            row[name] = {
                "seconds": float(np.median([t for t, _ in times])),
                "evaluations": float(np.median([e for _, e in times])),
                "reached": int(sum(np.isfinite(t) for t, _ in pairs)),
            }
    return _without_infinities(row)


def _without_infinities(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity; None says that the value was not reached."""
    for cell in row.values():
        if isinstance(cell, dict):
            for key, value in cell.items():
                cell[key] = value if np.isfinite(value) else None
    return row


def _curve(
    objective: GaussianPairSum, solver: Solver[Any], seed: int, seconds: float
) -> list[tuple[float, float, float]]:
    """CPU seconds, evaluations and value after every step."""
    curve: list[tuple[float, float, float]] = []
    started = time.process_time()

    def note(iterate: Any) -> None:
        spent = time.process_time() - started
        curve.append((spent, float(iterate.evaluations), float(iterate.objective)))

    thalweg.minimize(
        objective, solver=solver, seed=seed, seconds=seconds, iterations=10**7, decrease=0.0,
        gradient=0.0, callback=note,
    )  # fmt: skip
    return curve
