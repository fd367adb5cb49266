"""Figures 4 and 5 of the paper: the course of ISM by iteration, and HSIC beside correlation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from hpc.bench.pictures import save_picture

import thalweg
from thalweg import Dataset
from thalweg_clustering import ISM, build_kdac
from thalweg_clustering.alternation import subspace_distance

from .sets import Problem
from .table import AS_PUBLISHED, METHODS

#: Columns of a course.
COLUMNS = ("objective", "gradient of the Lagrangian", "change of W")

#: Points of a curve of Figure 5, and the deviation of their noise.
POINTS, NOISE = 400, 0.05


def measure_course(problem: Problem) -> dict[str, Any]:
    """Objective, norm of the Lagrangian's gradient and change of W after each step of ISM.

    As published: Algorithms 1 and 2 to the letter; and as here.
    """
    dataset = Dataset.from_array(problem.points)
    found: dict[str, Any] = {"set": problem.name}
    for name, start in ((AS_PUBLISHED, "published"), ("ISM", "spectral")):
        objective = build_kdac(
            dataset, dataset.comm, clusters=problem.clusters, components=problem.components,
            sigma=problem.sigma, lambda_=problem.penalty, init=start, condition=False,
            labelings=[problem.given],
        )  # fmt: skip
        solver = METHODS[name]
        assert isinstance(solver, ISM)
        curve: list[list[float]] = []
        before = objective.initial_point(0)

        def note(iterate: Any, curve: list[list[float]] = curve) -> None:
            nonlocal before
            state = iterate.state
            change = float(subspace_distance(state.x, before))
            curve.append([float(state.value), float(state.gradient_norm), change])
            before = state.x

        result = thalweg.minimize(objective, before, solver=solver, callback=note)
        found[name] = {"curve": curve, "status": result.status.name}
    return found


def pairs_of_variables(seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Two variables that depend on each other in several ways, or do not."""
    stream = np.random.default_rng(seed)
    t = stream.uniform(-1, 1, POINTS)
    angle = stream.uniform(0, 2 * np.pi, POINTS)
    noise = NOISE * stream.standard_normal((2, POINTS))
    return {
        "line": (t, t + noise[0]),
        "parabola": (t, t**2 + noise[0]),
        "sine": (t, np.sin(2 * np.pi * t) + noise[0]),
        "circle": (np.cos(angle) + noise[0], np.sin(angle) + noise[1]),
        "cross": (t, np.where(stream.random(POINTS) < 0.5, t, -t) + noise[0]),
        "independent": (t, stream.uniform(-1, 1, POINTS)),
    }


def hsic(x: np.ndarray, y: np.ndarray) -> float:
    """HSIC of eq. (2) by Gaussian kernels of the median distance, from 0 to 1.

    tr(K H L H) over the root of tr(K H K H) tr(L H L H).
    """

    def centered(values: np.ndarray) -> np.ndarray:
        squares = (values[:, None] - values[None]) ** 2
        kernel = np.exp(-squares / (2 * np.median(squares[squares > 0])))
        kernel -= kernel.mean(axis=0)
        return np.asarray(kernel - kernel.mean(axis=1, keepdims=True))

    a, b = centered(x), centered(y)
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def measure_dependence(shuffles: int = 200) -> list[dict[str, Any]]:
    """Correlation and HSIC of each pair, and what chance alone exceeds in one of 20 shuffles."""
    rows = []
    for name, (x, y) in pairs_of_variables().items():
        stream = np.random.default_rng(1)
        chance = [hsic(x, stream.permutation(y)) for _ in range(shuffles)]
        rows.append(
            {
                "pair": name,
                "correlation": float(np.corrcoef(x, y)[0, 1]),
                "HSIC": hsic(x, y),
                "HSIC by chance": float(np.quantile(chance, 0.95)),
            }
        )
    return rows


def course_section(rows: list[dict[str, Any]], stem: Path) -> list[str]:
    """Figure 4."""
    figure, panels = plt.subplots(
        3, len(rows), figsize=(2.5 * len(rows), 6.5), sharex="col", squeeze=False
    )
    for column, row in zip(panels.T, rows, strict=True):
        for name in (AS_PUBLISHED, "ISM"):
            values = np.array(row[name]["curve"])
            values[0, 2] = np.nan  # W has not moved yet
            steps = np.arange(len(values))
            for axes, heights in zip(column, values.T, strict=True):
                axes.plot(steps, heights, label=name, linewidth=1.2)
        set_, _, given = row["set"].partition(" (")
        column[0].set_title(f"{set_}\n{given.partition(',')[0].rstrip(')')}", fontsize=8)
        column[1].set_yscale("log")
        column[2].set_yscale("log")
        column[2].set_xlabel("step")
    for axes, label in zip(panels[:, 0], COLUMNS, strict=True):
        axes.set_ylabel(label, fontsize=8)
    for axes in panels.ravel():
        axes.tick_params(labelsize=6)
    panels[0, 0].legend(fontsize=6)
    figure.tight_layout()
    return [
        "## Figure 4: the course of ISM by iteration",
        "",
        "Objective, norm of the Lagrangian's gradient and change of W, as a distance of subspaces "
        "from 0 to 1, after each step. U and D are renewed after each round, which moves the "
        "objective and raises the gradient again.",
        "",
        save_picture(figure, stem, "course"),
        "",
    ]


def dependence_section(rows: list[dict[str, Any]], stem: Path) -> list[str]:
    """Figure 5."""
    figure, panels = plt.subplots(1, len(rows), figsize=(2.1 * len(rows), 2.6), squeeze=False)
    pairs = pairs_of_variables()
    for axes, row in zip(panels[0], rows, strict=True):
        axes.plot(*pairs[row["pair"]], ".", markersize=2)
        axes.set_title(f"HSIC {row['HSIC']:.2f}\ncorrelation {row['correlation']:.2f}", fontsize=8)
        axes.set(xticks=[], yticks=[], xlabel=row["pair"])
    figure.tight_layout()
    return [
        "## Figure 5: HSIC beside correlation",
        "",
        f"Generated pairs of {POINTS} points; HSIC from 0 to 1 by Gaussian kernels of the median "
        "distance. By chance: what one of 20 shuffles of the second variable exceeds.",
        "",
        save_picture(figure, stem, "dependence"),
        "",
        "| pair | correlation | HSIC | HSIC by chance |",
        "|---|---|---|---|",
        *(
            f"| {row['pair']} | {row['correlation']:.3f} | {row['HSIC']:.3f} | "
            f"{row['HSIC by chance']:.3f} |"
            for row in rows
        ),
        "",
    ]
