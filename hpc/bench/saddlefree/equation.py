"""The note's own way of |H|, by a differential equation: counted by size, and in training.

Counted are steps of Runge-Kutta-Fehlberg, iterations of conjugate gradients in each of its
stages, and those of the second step (H^2) apart, which Hessian-free optimization is said to equal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from hpc.bench.saddlefree.directions import spectrum
from hpc.bench.saddlefree.training import DIGITS, images
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.numerics import conjugate_gradients
from thalweg.parallel import MPI
from thalweg_saddlefree.curvature import LanczosAbsolute, OdeAbsolute, Slices
from thalweg_saddlefree.curvature.ode import NODES
from thalweg_saddlefree.networks.build import build_autoencoder, build_mlp
from thalweg_saddlefree.networks.objective import NetworkObjective

#: Numbers of variables, conditions of H, and relative errors of a step.
SIZES = (500, 2000, 8000, 32000)
CONDITIONS = (10.0, 100.0)
TOLERANCES = (1e-1, 1e-2)

#: Solver and options of each method of training; the note's two steps come last.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "hessian-free": ("hessian-free", {}),
    "saddle-free, Lanczos": ("saddle-free", {}),
    "saddle-free, equation": ("saddle-free", {"method": "ode"}),
}

#: Value at which a network has learned all its rows.
SOLVED = 1e-5

NETWORKS = ("autoencoder 64-30-10-30-64", "classifier 64-30-10", "chain 64-8x20-10")


class CountedEquation(OdeAbsolute):
    """The note's method, with the iterations of each of its solves."""

    def _solved(self, product: Any, right: np.ndarray) -> tuple[np.ndarray, float]:
        before = self.steps
        found = super()._solved(product, right)
        self.__dict__.setdefault("iterations", []).append(self.steps - before)
        return found


def measure_counts() -> Iterator[list[dict[str, Any]]]:
    """Rows of size, condition and tolerance: iterations and products of each of the two steps."""
    rows: list[dict[str, Any]] = []
    for condition in CONDITIONS:
        for tolerance in TOLERANCES:
            for size in SIZES:
                rows.append(_counted(size, condition, tolerance))
                yield rows


def _counted(size: int, condition: float, tolerance: float) -> dict[str, Any]:
    values, gradient = spectrum(size, condition)
    exact = -gradient / np.abs(values)
    slices = Slices(MPI.COMM_SELF, size)
    began = time.process_time()
    solver = CountedEquation(slices, lambda v: values * v, gradient, tolerance, 5000)
    step = solver.direction(0.0).step
    spent = time.process_time() - began
    *inner, last = solver.__dict__["iterations"]
    # What Hessian-free optimization solves: a definite matrix of this spectrum, one product each.
    goal = (solver.inner_part * tolerance) ** 2 * slices.dot(gradient, gradient)
    plain = conjugate_gradients(
        lambda v: np.abs(values) * v, np.zeros(size), -gradient, slices.dot, goal, 5000
    )
    lanczos = LanczosAbsolute(slices, lambda v: values * v, gradient, tolerance, 5000)
    lanczos.direction(0.0)
    return {
        "size": size,
        "condition": condition,
        "tolerance": tolerance,
        "steps": len(inner) // len(NODES),
        "iterations": [int(np.min(inner)), float(np.mean(inner)), int(np.max(inner))],
        "first step": 2 * (sum(inner) + len(inner)),
        "second step": 2 * last,
        "products": solver.products,
        "definite": plain.iterations,
        "lanczos": lanczos.products,
        "error": float(np.linalg.norm(step - exact) / np.linalg.norm(exact)),
        "seconds": spent,
    }


def build_network(name: str) -> NetworkObjective:
    """A small network on scikit-learn's digits."""
    comm = MPI.COMM_WORLD
    if name.startswith("autoencoder"):
        pixels = Dataset.from_array(images(None, DIGITS)["train"], comm=comm)
        return build_autoencoder(pixels, comm, layers=[64, 30, 10], output="sigmoid")
    values, labels = load_digits(return_X_y=True)
    data = Dataset.from_array(values[:DIGITS] / 16.0, labels[:DIGITS], comm)
    hidden = [30] if name.startswith("classifier") else [20] * 8
    return build_mlp(data, comm, layers=[64, *hidden, 10], activation="tanh")


def measure_training(seconds: float) -> Iterator[dict[str, Any]]:
    """Curves of CPU seconds, updates, products and value; every method for the same time."""
    networks: dict[str, Any] = {}
    for name in NETWORKS:
        for method in METHODS:
            found = networks.setdefault(name, {"runs": {}})
            objective = build_network(name)
            found["weights"] = objective.layout.rows
            found["runs"][method] = _trained(objective, method, seconds)
            yield {"seconds": seconds, "networks": networks}


def _trained(objective: NetworkObjective, method: str, seconds: float) -> dict[str, Any]:
    solver, options = METHODS[method]
    began = time.process_time()
    curve: list[list[float]] = []

    def note(iterate: Any) -> bool:
        spent = time.process_time() - began
        products = int(getattr(iterate.state, "products", 0))
        curve.append([spent, iterate.iteration, products, float(iterate.objective)])
        return spent >= seconds or iterate.objective <= SOLVED

    result = thalweg.minimize(
        objective, solver=solver, callback=note, iterations=None, decrease=None, **options
    )
    status = result.status.name
    if status == "CALLBACK":
        status = "CONVERGED" if curve[-1][3] <= SOLVED else "TIME_LIMIT"
    return {"curve": curve[:: max(1, len(curve) // 100)] + curve[-1:], "status": status}
