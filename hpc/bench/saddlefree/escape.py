"""From beside a saddle point: the objective against products of several methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hpc.bench.saddlefree import saddles

import thalweg
from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.errors import ThalwegError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array
from thalweg_saddlefree.networks.build import build_deep_linear

PROBLEMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "deep-linear": (
        partial(build_deep_linear, None, MPI.COMM_SELF),
        {"size": 12, "depth": 3, "start": 0.02},
    ),
    "ginzburg-landau": (saddles.ginzburg_landau, {"size": 200}),
    "styblinski-tang": (saddles.styblinski_tang, {"size": 50}),
    "monkey-saddle": (saddles.monkey_saddle, {}),
}

METHODS: dict[str, dict[str, Any]] = {
    "saddle-free": {"solver": "saddle-free"},
    "newton-cg (trust region)": {"solver": "tao:ntr"},
    "newton-cg (line search)": {"solver": "tao:nls"},
    "trust-ncg": {"solver": "scipy:trust-ncg"},
    "lbfgs": {"solver": "lbfgs"},
    "gradient-descent": {"solver": "gradient-descent"},
}


def counted(objective: Objective) -> dict[str, int]:
    """Make an objective count its gradients, and its products of either kind."""
    counts = {"gradients": 0, "products": 0}
    gradient, product = objective.value_and_gradient, objective.hessian_product  # type: ignore[attr-defined]

    def value_and_gradient(x: Array) -> tuple[float, Array]:
        counts["gradients"] += 1
        return gradient(x)

    def hessian_product(x: Array, direction: Array) -> Array:
        counts["products"] += 1
        return product(x, direction)

    if isinstance(objective, GaussNewtonProduct):
        simpler = objective.gauss_newton_product

        def gauss_newton_product(x: Array, direction: Array) -> Array:
            counts["products"] += 1
            return simpler(x, direction)

        objective.gauss_newton_product = gauss_newton_product  # type: ignore[method-assign]
    objective.value_and_gradient = value_and_gradient  # type: ignore[method-assign]
    objective.hessian_product = hessian_product  # type: ignore[attr-defined]
    return counts


def newton(objective: Objective, x: Array, steps: int, curve: list[list[float]]) -> None:
    """Plain Newton steps: H p = -g solved exactly, a product for every column of H."""
    assert isinstance(objective, HessianProduct)
    size = x.size
    for step in range(steps):
        value, gradient = objective.value_and_gradient(x)
        norm = float(np.linalg.norm(gradient))
        curve.append([float(step * (size + 1) + 1), float(value)])
        if not np.isfinite(value) or norm < 1e-9:
            return
        units = np.eye(size)[:, :, None]
        hessian = np.hstack([objective.hessian_product(x, unit) for unit in units])
        x = x + np.linalg.lstsq(hessian, -gradient, rcond=1e-12)[0]


def measure_escape(budget: int) -> dict[str, Any]:
    """For every problem and method the curve (gradients + products, objective) and its end."""
    found: dict[str, Any] = {}
    for problem, (build, options) in PROBLEMS.items():
        curves: dict[str, list[list[float]]] = {"newton (exact)": []}
        objective = build(**options)
        newton(objective, objective.initial_point(0), 40, curves["newton (exact)"])
        for name, choice in METHODS.items():
            curves[name] = run(build(**options), choice, budget)
        found[problem] = {"options": options, "curves": curves}
    return found


def run(objective: Objective, choice: dict[str, Any], budget: int) -> list[list[float]]:
    """Curve of one method; empty if it fails at once."""
    counts = counted(objective)
    curve: list[list[float]] = []

    def note(iterate: Any) -> bool:
        curve.append([float(sum(counts.values())), float(iterate.objective)])
        return sum(counts.values()) >= budget

    try:
        thalweg.minimize(
            objective, callback=note, iterations=10**6, gradient=1e-9, decrease=0.0, **choice
        )
    except ThalwegError:
        return curve
    return curve
