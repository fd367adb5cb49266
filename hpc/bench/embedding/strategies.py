"""The partial-Hessian strategies and their rivals, and the problems they are run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hpc.bench.embedding.data import Images

import thalweg
from thalweg.data import Dataset
from thalweg_embedding.objectives import elastic_embedding, symmetric_sne, t_sne
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding

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

#: The line search of the paper's authors: a run, and each value of lambda, begins with a step
#: of 1, steps only shrink after it, and Armijo's constant is 0.1.  Conjugate gradients and L-BFGS
#: have searches of their own.
AUTHORS: dict[str, Any] = {"growth": 1.0, "first_step": 1.0, "armijo": 0.1}

#: The strategies that take the authors' line search.
SEARCHED = tuple(name for name, parts in STRATEGIES.items() if parts[0] == "gradient-descent")

#: Perplexity of the small problems.
PERPLEXITY = 20.0

#: Called with what a part has found so far.
Note = Callable[[dict[str, Any]], None]

#: Evaluations, seconds and value of iterates.
Curve = list[tuple[float, float, float]]


def problems(images: Images) -> dict[str, PairwiseEmbedding]:
    """The three problems of the paper, built from the same affinities, from random starts.

    The elastic embedding has the weights of its authors' demo: w- the squared distances,
    scaled to sum 1, and lambda = 100.
    """
    data = Dataset.from_array(images.values, labels=images.labels, name=images.name)
    chosen: dict[str, Any] = {"perplexity": PERPLEXITY, "early_exaggeration": 1.0, "init": "random"}
    elastic = elastic_embedding(
        data, data.comm, **chosen, lambda_=100.0, repulsive_weights="squared-distances"
    )
    chosen["weights"] = elastic.weights
    return {
        "EE": elastic,
        "s-SNE": symmetric_sne(data, data.comm, **chosen),
        "t-SNE": t_sne(data, data.comm, **chosen),
    }


def run(objective: PairwiseEmbedding, strategy: str, **given: Any) -> thalweg.Result:
    """One strategy on one problem."""
    solver, preconditioner, options = STRATEGIES[strategy]
    return thalweg.minimize(
        objective, solver=solver, preconditioner=preconditioner, **{**options, **given}
    )


def curve_of(result: thalweg.Result, first: int = 0) -> Curve:
    """Evaluations, seconds and value of up to 200 iterates from one on, the first ones all."""
    trace = result.trace
    count = len(trace) - first
    spread = np.linspace(0, count - 1, min(count, 140)).astype(int)
    rows = first + np.unique(np.concatenate([np.arange(min(count, 60)), spread]))
    return [
        (
            float(trace["evaluations"][row]),
            round(float(trace["seconds"][row]), 4),
            float(f"{trace['objective'][row]:.11g}"),
        )
        for row in rows
    ]


def end_of(result: thalweg.Result) -> dict[str, Any]:
    """How a run ended."""
    return {
        "objective": result.objective,
        "evaluations": result.evaluations,
        "seconds": float(result.seconds["total"]),
        "status": result.status.name,
    }


def reached(curve: Curve, value: float, column: int = 0) -> float | None:
    """Evaluations (or with column 1 seconds) after which a curve is at ``value`` or below."""
    return next((point[column] for point in curve if point[2] <= value), None)
