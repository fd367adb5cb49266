"""Table 1: ISM as published and as here, SM and DG from spectral and random starts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import thalweg
from thalweg import Dataset
from thalweg.interfaces import Solver
from thalweg_clustering import ISM, Curvilinear, DimensionGrowth, build_kdac

from .sets import Problem

#: The paper's three methods, by its names, and ISM as published: Algorithm 2 to the letter,
#: begun from the clustering given as Algorithm 1 has it.
AS_PUBLISHED = "ISM as published"
METHODS: dict[str, Solver[Any]] = {
    "ISM": ISM(),
    AS_PUBLISHED: ISM(safeguard="none", mixing=0),
    "SM": Curvilinear(inner_tolerance=1e-6),
    "DG": DimensionGrowth(),
}


#: Times the seconds of other runs that dimension growth has from its spectral start.
LONGER = 10


def solve(
    problem: Problem, solver: Solver[Any], start: str, seed: int, seconds: float
) -> dict[str, Any]:
    """One run of so many CPU seconds at most: measures, labels, wall and CPU time.

    K-means and measures are included.  Other programs on the machine do not shorten the run.
    """
    dataset = Dataset.from_array(problem.points)
    began, started = time.perf_counter(), time.process_time()
    objective = build_kdac(
        dataset, dataset.comm, clusters=problem.clusters, components=problem.components,
        sigma=problem.sigma, lambda_=problem.penalty, init=start, condition=False,
        labelings=[problem.given], true_labels=problem.truth,
    )  # fmt: skip
    result = thalweg.minimize(
        objective, solver=solver, seed=seed, seconds=None, iterations=10**7,
        callback=lambda _: time.process_time() - started > seconds,
    )  # fmt: skip
    spent, busy = time.perf_counter() - began, time.process_time() - started
    measures = result.metrics
    capped = result.status.name == "CALLBACK"
    return {
        "NMI": measures.get("nmi", float("nan")),
        "CQ": measures["cq"],
        "Novelty": measures["novelty"],
        "Cost": measures["cost"],
        "Time": spent,
        "CPU": busy,
        "capped": capped,
        "status": "TIME_LIMIT" if capped else result.status.name,
        "evaluations": result.evaluations,
        "degenerate": measures["degenerate"],
        "labels": result.gather()[:, 0].astype(int).tolist(),
    }


def searched(problem: Problem) -> tuple[Problem, float]:
    """The problem with sigma, lambda and q from the search, and its time."""
    dataset = Dataset.from_array(problem.points)
    began = time.perf_counter()
    found = build_kdac(
        dataset, dataset.comm, clusters=problem.clusters, tuning="score", condition=False,
        labelings=[problem.given],
    )  # fmt: skip
    spent = time.perf_counter() - began
    return replace(
        problem, sigma=found.kernel.sigma, penalty=found.penalty, components=found.layout.columns
    ), spent


def without_search(problems: list[Problem]) -> list[Problem]:
    """Those whose parameters are known beforehand."""
    return [problem for problem in problems if problem.sigma > 0]


def measure_set(
    problem: Problem, starts: int, seconds: float, budget: float, methods: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """The rows of one set; random starts are summarized by mean and deviation.

    A run is capped at ``seconds`` of the processor, but dimension growth from its one spectral
    start at ten times these; no further random start of a method begins once they have taken
    ``budget`` seconds together.
    """
    note = ""
    if problem.sigma == 0.0:
        problem, spent = searched(problem)
        note = f"search {spent:.1f} s"
    solve(problem, METHODS["ISM"], "spectral", 0, seconds)  # kernels compiled, caches warm
    for name in methods:
        solver = METHODS[name]
        spectral = "published" if name == AS_PUBLISHED else "spectral"
        for start, seeds in ((spectral, [0]), ("random", list(range(1, starts + 1)))):
            runs: list[dict[str, Any]] = []
            most = LONGER * seconds if name == "DG" and start == "spectral" else seconds
            began = time.process_time()
            for seed in seeds:
                if not runs or time.process_time() - began < budget:
                    runs.append(solve(problem, solver, start, seed, most))
            row: dict[str, Any] = {
                "set": problem.name,
                "method": f"{name} {'RI' if start == 'random' else 'SI'}",
                "rows": len(problem.points),
                "features": problem.points.shape[1],
                "clusters": problem.clusters,
                "components": problem.components,
                "sigma": problem.sigma,
                "lambda": problem.penalty,
                "note": note,
                "published": (),
                "statuses": dict(Counter(run["status"] for run in runs)),
                "capped": sum(run["capped"] for run in runs),
                "starts": len(runs),
                "wanted": len(seeds),
                "seconds": most,
                "runs": [
                    {key: run[key] for key in ("NMI", "CQ", "Novelty", "Cost", "CPU", "status")}
                    for run in runs
                    if problem.truth is not None
                ],
                "evaluations": float(np.mean([run["evaluations"] for run in runs])),
            }
            for column in ("NMI", "CQ", "Novelty", "Cost", "Time", "CPU"):
                values = np.array([run[column] for run in runs], dtype=float)
                known = np.isfinite(values).all()  # NMI needs a truth; JSON has no NaN
                row[column] = [float(values.mean()), float(values.std())] if known else None
            row["published"] = problem.published.get(row["method"].replace(" as published", ""), ())
            if start != "random" and name == "ISM":
                row["labels"] = runs[0]["labels"]
            yield row
