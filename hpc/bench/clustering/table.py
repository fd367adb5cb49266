"""Table 1: ISM, SM and DG from spectral and random starts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

import thalweg
from thalweg.interfaces import Solver
from thalweg.parallel import MPI, Layout
from thalweg_clustering.curvilinear import Curvilinear
from thalweg_clustering.dimension_growth import DimensionGrowth
from thalweg_clustering.ism import ISM
from thalweg_clustering.kdac import make_kdac
from thalweg_clustering.prepared_data import active_features, centred_points
from thalweg_clustering.search import search_parameters

from .sets import Problem

#: The paper's three methods, by its names.
METHODS: dict[str, Solver[Any]] = {
    "ISM": ISM(),
    "SM": Curvilinear(inner_tolerance=1e-6),
    "DG": DimensionGrowth(),
}


def solve(
    problem: Problem, solver: Solver[Any], start: str, seed: int, seconds: float
) -> dict[str, Any]:
    """One run: measures, labels and wall time, k-means and measures included."""
    layout = Layout(MPI.COMM_SELF, *problem.points.shape)
    points = centred_points(layout, problem.points)
    points = np.ascontiguousarray(points[:, active_features(layout, points)])
    began, started = time.perf_counter(), time.process_time()
    objective = make_kdac(
        layout, points, problem.given, problem.clusters, problem.components, problem.sigma,
        problem.penalty, start, truth=problem.truth, bound=False,
    )  # fmt: skip
    result = thalweg.minimize(objective, solver=solver, seed=seed, seconds=seconds,
                              iterations=10**7)  # fmt: skip
    spent, busy = time.perf_counter() - began, time.process_time() - started
    measures = result.metrics
    return {
        "NMI": measures.get("nmi", float("nan")),
        "CQ": measures["cq"],
        "Novelty": measures["novelty"],
        "Cost": measures["cost"],
        "Time": spent,
        "CPU": busy,
        "capped": result.status.name == "TIME_LIMIT",
        "evaluations": result.evaluations,
        "degenerate": measures["degenerate"],
        "labels": result.gather()[:, 0].astype(int).tolist(),
    }


def searched(problem: Problem) -> tuple[Problem, float]:
    """The problem with sigma, lambda and q from the search, and its time."""
    layout = Layout(MPI.COMM_SELF, *problem.points.shape)
    began = time.perf_counter()
    found = search_parameters(
        layout, centred_points(layout, problem.points), problem.given, problem.clusters
    )
    spent = time.perf_counter() - began
    return replace(
        problem, sigma=found.sigma, penalty=found.penalty, components=found.components
    ), spent


def without_search(problems: list[Problem]) -> list[Problem]:
    """Those whose parameters are known beforehand."""
    return [problem for problem in problems if problem.sigma > 0]


def measure_set(
    problem: Problem, starts: int, seconds: float, budget: float
) -> list[dict[str, Any]]:
    """The rows of one set; random starts are summarised by mean and deviation.

    A run is capped at ``seconds``; no further random start of a method begins once
    they have taken ``budget`` seconds together.
    """
    note = ""
    if problem.sigma == 0.0:
        problem, spent = searched(problem)
        note = f"search {spent:.1f} s"
    solve(problem, METHODS["ISM"], "spectral", 0, seconds)  # kernels compiled, caches warm
    rows = []
    for name, solver in METHODS.items():
        for start, seeds in (("spectral", [0]), ("random", list(range(1, starts + 1)))):
            runs: list[dict[str, Any]] = []
            began = time.perf_counter()
            for seed in seeds:
                if not runs or time.perf_counter() - began < budget:
                    runs.append(solve(problem, solver, start, seed, seconds))
            row: dict[str, Any] = {
                "set": problem.name,
                "method": f"{name} {'SI' if start == 'spectral' else 'RI'}",
                "rows": len(problem.points),
                "features": problem.points.shape[1],
                "clusters": problem.clusters,
                "components": problem.components,
                "sigma": problem.sigma,
                "lambda": problem.penalty,
                "note": note,
                "published": problem.published if name == "ISM" and len(seeds) == 1 else {},
                "capped": sum(run["capped"] for run in runs),
                "starts": len(runs),
                "wanted": len(seeds),
                "seconds": seconds,
                "evaluations": float(np.mean([run["evaluations"] for run in runs])),
            }
            for column in ("NMI", "CQ", "Novelty", "Cost", "Time", "CPU"):
                values = np.array([run[column] for run in runs], dtype=float)
                known = np.isfinite(values).all()  # NMI needs a truth; JSON has no NaN
                row[column] = [float(values.mean()), float(values.std())] if known else None
            if start == "spectral" and name == "ISM":
                row["labels"] = runs[0]["labels"]
            rows.append(row)
    return rows
