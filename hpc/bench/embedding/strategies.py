"""The partial-Hessian strategies against each other, as in the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hpc.bench.embedding.data import Images

import thalweg
from thalweg import HomotopySchedule, Stop
from thalweg.data import Dataset
from thalweg_embedding.objective import PairwiseEmbedding
from thalweg_embedding.objectives import elastic_embedding, symmetric_sne, t_sne

#: Solver, preconditioner and options of each strategy; the last is this project's own.
STRATEGIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "GD": ("gradient-descent", "identity", {}),
    "FP": ("gradient-descent", "fixed-point", {}),
    "DiagH": ("gradient-descent", "hessian-diagonal", {}),
    "SD": ("gradient-descent", "spectral", {}),
    "SD-": ("gradient-descent", "partial-hessian", {}),
    "CG": ("nonlinear-cg", "identity", {}),
    "L-BFGS": ("lbfgs", "identity", {"memory": 100}),
    "L-BFGS + SD": ("lbfgs", "spectral", {"memory": 10}),
}

#: Order of long measurements: what an interruption leaves should say most.
QUICKEST_FIRST = ("SD", "L-BFGS + SD", "GD", "L-BFGS", "CG", "FP", "DiagH", "SD-")

#: Called with what is found so far.
Note = Callable[[dict[str, Any]], None]


def objectives(images: Images, perplexity: float) -> dict[str, Callable[[], PairwiseEmbedding]]:
    """Builders of the three problems of the paper."""
    data = Dataset.from_array(images.values, labels=images.labels, name=images.name)
    chosen: dict[str, Any] = {"perplexity": perplexity, "exaggeration": 1.0}
    elastic = {"lambda": 100.0, "repulsive_weights": "squared-distances"}
    return {
        "EE": lambda: elastic_embedding(data, data.comm, **chosen, **elastic),
        "s-SNE": lambda: symmetric_sne(data, data.comm, **chosen),
        "t-SNE": lambda: t_sne(data, data.comm, **chosen),
    }


def run(objective: PairwiseEmbedding, strategy: str, **given: Any) -> thalweg.Result:
    """One strategy on one problem."""
    solver, preconditioner, options = STRATEGIES[strategy]
    return thalweg.minimize(
        objective, solver=solver, preconditioner=preconditioner, **{**options, **given}
    )


def measure_convergence(images: Images, seconds: float) -> dict[str, Any]:
    """All strategies from one start: a minimum, shrunk to a tenth and moved a little.

    From there all of them reach the same minimum or nearly so.  Short runs come first, so
    that no clock sees the compiler.
    """
    found: dict[str, Any] = {"data": images.name, "rows": len(images.values), "seconds": seconds}
    for name, build in objectives(images, 20.0).items():
        objective = build()
        minimum = run(objective, "L-BFGS + SD", iterations=400, decrease=1e-9)
        noise = np.random.default_rng(0).standard_normal(minimum.x.shape)
        start = 0.1 * minimum.x + 0.01 * minimum.x.std() * noise
        for strategy in STRATEGIES:
            run(objective, strategy, x0=start, iterations=2)
        curves = {}
        for strategy in STRATEGIES:
            result = run(
                objective,
                strategy,
                x0=start,
                iterations=100_000,
                decrease=1e-10,
                seconds=seconds,
            )
            curves[strategy] = _curve(result)
        objective.destroy()
        found[name] = curves
    return found


def measure_starts(images: Images, count: int, seconds: float) -> dict[str, Any]:
    """Final values from random starts, each strategy for the same time from each of them."""
    found: dict[str, Any] = {"data": images.name, "starts": count, "seconds": seconds}
    for name, build in objectives(images, 20.0).items():
        objective = build()
        finals = {}
        for strategy in STRATEGIES:
            finals[strategy] = [
                _final(run(objective, strategy, seed=seed, seconds=seconds, decrease=1e-10))
                for seed in range(count)
            ]
        objective.destroy()
        found[name] = finals
    return found


def measure_homotopy(images: Images, stages: int, iterations: int, note: Note) -> dict[str, Any]:
    """EE along lambda = 1e-4 ... 1e2, each stage to a relative decrease of 1e-6."""
    objective = objectives(images, 20.0)["EE"]()
    rule = Stop(iterations=iterations, decrease=1e-6)
    schedule = HomotopySchedule.logarithmic(1e-4, 1e2, stages, rule)
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "stages": stages,
        "iterations": iterations,
    }
    for strategy in QUICKEST_FIRST:
        objective.homotopy = 1e2
        result = run(
            objective, strategy, homotopy=schedule, iterations=stages * iterations, decrease=1e-6
        )
        found[strategy] = {**_final(result), "by lambda": _by_stage(result)}
        note(found)
    objective.destroy()
    return found


def _by_stage(result: thalweg.Result) -> list[tuple[float, int, float]]:
    """Lambda, evaluations spent on it, and the value reached."""
    trace = result.trace
    strengths, evaluations = trace["lambda"], trace["evaluations"]
    last = [*np.flatnonzero(np.diff(strengths)), len(trace) - 1]
    spent = np.diff(evaluations[last], prepend=0)
    return [
        (float(strengths[row]), int(count), float(trace["objective"][row]))
        for row, count in zip(last, spent, strict=True)
    ]


def measure_large(images: Images, seconds: float) -> dict[str, Any]:
    """EE and t-SNE on 20,000 images, perplexity 50, kappa = 7."""
    found: dict[str, Any] = {"data": images.name, "rows": len(images.values), "seconds": seconds}
    for name, build in objectives(images, 50.0).items():
        if name == "s-SNE":
            continue
        if name == "EE":
            data = Dataset.from_array(images.values)
            objective = elastic_embedding(data, data.comm, perplexity=50.0)
        else:
            objective = build()
        curves = {}
        for strategy in STRATEGIES:
            given: dict[str, Any] = {"seconds": seconds, "decrease": 1e-8, "iterations": 100_000}
            if STRATEGIES[strategy][1] in ("spectral", "partial-hessian"):
                given["neighbors"] = 7
            if strategy == "SD-":
                continue  # its inner products meet all pairs, exactly
            curves[strategy] = _curve(run(objective, strategy, **given))
        objective.destroy()
        found[name] = curves
    return found


def _curve(result: thalweg.Result) -> list[tuple[float, float, float]]:
    """Evaluations, seconds and value of up to 300 iterates."""
    trace = result.trace
    step = max(1, len(trace) // 300)
    rows = [*range(0, len(trace), step), len(trace) - 1]
    columns = (trace["evaluations"], trace["seconds"], trace["objective"])
    return [tuple(float(column[row]) for column in columns) for row in rows]  # type: ignore[misc]


def _final(result: thalweg.Result) -> dict[str, Any]:
    return {
        "objective": result.objective,
        "evaluations": result.evaluations,
        "seconds": float(result.seconds["total"]),
        "status": result.status.name,
    }
