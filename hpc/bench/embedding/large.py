"""MNIST, 20,000 images: the strategies with a sparse spectral direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.embedding.data import Images
from hpc.bench.embedding.pictures import draw_curves
from hpc.bench.embedding.strategies import STRATEGIES, Curve, Note, curve_of, reached, run

import thalweg
from thalweg.data import Dataset
from thalweg.workbench.report import format_table
from thalweg_embedding import map_quality
from thalweg_embedding.objectives import elastic_embedding, t_sne

#: kappa of the spectral direction.
NEIGHBORS = 7

#: L-BFGS with the spectral direction as users get it: exaggeration, and the objective's kappa.
DEFAULTS = "L-BFGS + SD, defaults"


def measure_large(
    images: Images, seconds: float, strategies: tuple[str, ...], note: Note
) -> dict[str, Any]:
    """EE (lambda = 100, equal w-) and t-SNE, perplexity 50, each for the same time."""
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "seconds": seconds,
        "problems": {},
        "quality": {},
    }
    data = Dataset.from_array(images.values, labels=images.labels)
    elastic = elastic_embedding(data, data.comm, perplexity=50.0)
    student = t_sne(data, data.comm, weights=elastic.weights, exaggeration=1.0, init="random")
    for name, objective in {"EE": elastic, "t-SNE": student}.items():
        curves = found["problems"].setdefault(name, {})
        measured = found["quality"].setdefault(name, {})
        for strategy in strategies or tuple(STRATEGIES):
            given: dict[str, Any] = {}
            if STRATEGIES[strategy][1] in ("spectral", "partial-hessian"):
                given["neighbors"] = NEIGHBORS
            result = run(
                objective, strategy, seconds=seconds, decrease=1e-9, iterations=100_000, **given
            )
            curves[strategy] = curve_of(result)
            measured[strategy] = map_quality(data, result.x)
            note(found)
        if name == "t-SNE":
            curves[DEFAULTS], places = _by_default(data, elastic.weights, seconds)
            measured[DEFAULTS] = map_quality(data, places)
            note(found)
    return found


def _by_default(data: Dataset, weights: Any, seconds: float) -> tuple[Curve, np.ndarray]:
    """Map, and curve of the last stage of early exaggeration, with which others compare."""
    objective = t_sne(data, data.comm, weights=weights)
    result = thalweg.minimize(
        objective,
        solver="lbfgs",
        preconditioner="spectral",
        seconds=seconds,
        iterations=100_000,
        decrease=1e-9,
    )
    exaggerated = result.trace["lambda"] < result.trace["lambda"][-1]
    return curve_of(result, first=int(exaggerated.sum())), result.x


def large_section(found: dict[str, Any], stem: Path) -> list[str]:
    """A table of final values, and the curves."""
    table = []
    for problem, curves in found["problems"].items():
        goal = curves["GD"][-1][2] if "GD" in curves else None
        for strategy, curve in curves.items():
            row = {
                "problem": problem,
                "strategy": strategy,
                "final value": curve[-1][2],
                "evaluations": int(curve[-1][0]),
                "seconds": round(curve[-1][1], 1),
            }
            if goal is not None:
                evaluations = reached(curve, goal)
                row["evaluations to GD's end"] = evaluations and int(evaluations)
                row["seconds to GD's end"] = reached(curve, goal, 1)
            quality = found.get("quality", {}).get(problem, {}).get(strategy, {})
            row |= {name: quality[name] for name in ("recall", "accuracy") if name in quality}
            table.append(row)
    return [
        "## 20,000 images" if found["rows"] == 20_000 else f"## {found['rows']:,} images",
        "",
        f"{found['data']}, {found['rows']:,} points, perplexity 50, kappa = {NEIGHBORS}, "
        f"{found['seconds']:g} s a run from one random start, no exaggeration; the elastic "
        "embedding with lambda = 100 and equal w-. *Defaults*: early exaggeration, kappa by the "
        "perplexity.",
        "",
        format_table(table, markdown=True),
        "",
        draw_curves(found["problems"], stem, "large"),
        "",
    ]
