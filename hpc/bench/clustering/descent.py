"""ISM against descent on the Stiefel manifold, from the same W to the same value.

A whole run spends most of its time on what the methods share: the renewal of U,
k-means, the measures.  Here U and D stay as they start, both methods begin at
the same random W, and what counts is the time until the objective is within
1e-6 of the lowest value that either reaches.  Dimension growth, which may not go
on from a W, seldom reaches that value: it is measured to its own end.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import thalweg
from thalweg import Dataset
from thalweg.interfaces import Solver
from thalweg_clustering import ISM, Curvilinear, DimensionGrowth, KernelPairSum, build_kdac
from thalweg_clustering.stiefel_objectives import StiefelObjective

from .sets import Problem
from .stored_differences import StoredDifferences


class WithoutLengths(Curvilinear):
    """The curvilinear search whose first length is twice the last one."""

    def next_length(self, state: Any, length: float, candidate: Any, gradient: Any) -> float:
        """Twice the length that was accepted."""
        return 2.0 * length


_ISM = ISM(inner_tolerance=0.0, inner_iterations=10**6)
_SM = Curvilinear(inner_tolerance=0.0, inner_iterations=10**6)
_PLAIN = WithoutLengths(inner_tolerance=0.0, inner_iterations=10**6)

#: The paper's method, its rival as here, and the rival without Barzilai-Borwein lengths.
METHODS: dict[str, Solver[Any]] = {"ISM": _ISM, "SM": _SM, "SM, plain": _PLAIN}

#: The last one with all differences of points stored; it has this many times their seconds.
PUBLISHED, LONGER = "SM, published", 10

#: Dimension growth: seconds and evaluations to its end, and how far above the lowest value that is.
GROWTH = "DG"

#: Values count as equal within this share.
CLOSE = 1e-6


def measure_descent(problem: Problem, starts: int, seconds: float) -> dict[str, Any]:
    """Median CPU seconds and evaluations to the value, over starts where both reach it."""
    dataset = Dataset.from_array(problem.points)
    kdac = build_kdac(
        dataset, dataset.comm, clusters=problem.clusters, components=problem.components,
        sigma=problem.sigma, lambda_=problem.penalty, init="random", condition=False,
        labelings=[problem.given],
    )  # fmt: skip
    streamed = KernelPairSum(kdac.kernel, problem.components, kdac.weights)
    stored = StoredDifferences(streamed)
    found: dict[str, list[Any]] = {name: [] for name in (*METHODS, PUBLISHED, GROWTH)}
    for seed in range(starts):
        curves = {name: _curve(streamed, METHODS[name], seed, seconds) for name in METHODS}
        lowest = min(value for curve in curves.values() for _, _, value in curve)
        growth = _curve(streamed, DimensionGrowth(), seed, LONGER * seconds)
        found[GROWTH].append((*growth[-1][:2], (growth[-1][2] - lowest) / abs(lowest)))
        wanted = lowest + CLOSE * max(abs(lowest), 1e-12)
        reached = {name: _reached(curve, wanted) for name, curve in curves.items()}
        if np.isfinite([reached["ISM"][0], reached["SM"][0]]).all():
            curve = _curve(stored, _PLAIN, seed, LONGER * seconds, wanted)
            # A run that was cut off needs at least what it had.
            reached[PUBLISHED] = curve[-1][:2]
            for name, pair in reached.items():
                found[name].append(pair)
    row: dict[str, Any] = {"set": problem.name, "starts": starts, "both": len(found["ISM"])}
    for name, pairs in found.items():
        if pairs:
            row[name] = {
                "seconds": float(np.median([pair[0] for pair in pairs])),
                "evaluations": float(np.median([pair[1] for pair in pairs])),
            }
    row[GROWTH]["above"] = float(np.median([above for _, _, above in found[GROWTH]]))
    return _without_infinities(row)


def _without_infinities(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity; None says that the value was not reached."""
    for cell in row.values():
        if isinstance(cell, dict):
            for key, value in cell.items():
                cell[key] = value if np.isfinite(value) else None
    return row


def _reached(curve: list[tuple[float, float, float]], wanted: float) -> tuple[float, float]:
    """CPU seconds and evaluations to a value, infinite if the curve ends above it."""
    near = [point for point in curve if point[2] <= wanted]
    return near[0][:2] if near else (float("inf"), float("inf"))


def _curve(
    objective: StiefelObjective,
    solver: Solver[Any],
    seed: int,
    seconds: float,
    wanted: float = -float("inf"),
) -> list[tuple[float, float, float]]:
    """CPU seconds, evaluations and value after every step, until a value is reached."""
    curve: list[tuple[float, float, float]] = []
    started = time.process_time()

    def note(iterate: Any) -> bool:
        spent = time.process_time() - started
        curve.append((spent, float(iterate.evaluations), float(iterate.objective)))
        return bool(iterate.objective <= wanted)

    thalweg.minimize(
        objective, solver=solver, seed=seed, seconds=seconds, iterations=10**7, decrease=0.0,
        gradient=0.0, callback=note,
    )  # fmt: skip
    return curve
