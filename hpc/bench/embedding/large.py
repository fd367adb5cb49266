"""MNIST, 20,000 images: the strategies with a sparse spectral direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpc.bench.embedding.data import Images
from hpc.bench.embedding.pictures import draw_curves, draw_maps
from hpc.bench.embedding.strategies import STRATEGIES, Note, curve_of, reached, run

from thalweg.data import Dataset
from thalweg.workbench.report import format_table
from thalweg_embedding import map_quality
from thalweg_embedding.objectives import elastic_embedding, t_sne

#: kappa of the spectral direction.
NEIGHBORS = 7

#: L-BFGS with the spectral direction as users get it: exaggeration, a start from principal
#: components, and the objective's kappa.
DEFAULTS = "L-BFGS + SD, defaults"

#: Runs beside the strategies', by name: the strategy, options of t-SNE, and options of the run.
VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    DEFAULTS: ("L-BFGS + SD", {}, {}),
    "L-BFGS + SD, in stages": (
        "L-BFGS + SD",
        {"init": "random", "early_exaggeration": 12.0},
        {"neighbors": NEIGHBORS},
    ),
    "L-BFGS + SD, exact solves": (
        "L-BFGS + SD",
        {"init": "random", "early_exaggeration": 1.0},
        {"neighbors": NEIGHBORS, "residual": 1e-8},
    ),
}

#: Of which maps are drawn.
SHOWN = ("GD", "SD", "SD-", "L-BFGS", "L-BFGS + SD", DEFAULTS)


def measure_large(
    images: Images,
    seconds: float,
    strategies: tuple[str, ...],
    kinds: tuple[str, ...],
    before: dict[str, Any],
    stem: Path,
    note: Note,
) -> dict[str, Any]:
    """EE (lambda = 100, equal w-) and t-SNE, perplexity 50, each for the same time.

    Strategies and problems that are not named keep what an earlier call with as many seconds
    found.
    """
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "seconds": seconds,
        "problems": {},
        "quality": {},
    }
    if all(before.get(name) == found[name] for name in ("data", "rows", "seconds")):
        found |= {name: before[name] for name in ("problems", "quality")}
    data = Dataset.from_array(images.values, labels=images.labels)
    weights = elastic_embedding(data, data.comm, perplexity=50.0).weights
    for name, build in {"EE": elastic_embedding, "t-SNE": t_sne}.items():
        if kinds and name not in kinds:
            continue
        curves, measured = (found[part].setdefault(name, {}) for part in ("problems", "quality"))
        maps, captions = {}, {}
        chosen = [
            label
            for label in (*STRATEGIES, *(VARIANTS if name == "t-SNE" else (DEFAULTS,)))
            if label in strategies or not strategies
        ]
        for label in chosen:
            strategy, built, given = VARIANTS.get(label, (label, {}, {}))
            if label in STRATEGIES:
                built = {"init": "random", "early_exaggeration": 1.0}
                spectral = STRATEGIES[label][1] in ("spectral", "partial-hessian")
                given = {"neighbors": NEIGHBORS} if spectral else {}
            objective = build(data, data.comm, weights=weights, **built)
            result = run(
                objective, strategy, seconds=seconds, decrease=1e-9, iterations=100_000, **given
            )
            # Of stages, the last alone has the values with which others compare.
            early = result.trace["lambda"] < result.trace["lambda"][-1]
            curves[label] = curve_of(result, first=int(early.sum()))
            measured[label] = {**map_quality(data, result.x), "status": result.status.name}
            note(found)
            if label in SHOWN:
                maps[label] = result.x
                value, recall = result.objective, measured[label]["recall"]
                captions[label] = f"value {value:.4g}, recall {recall:.3f}"
        if maps:
            draw_maps(maps, images.labels, captions, stem, f"large-maps-{name.lower()}")
    return found


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
            row["ended"] = quality.get("status", "").lower().replace("_", " ")
            table.append(row)
    return [
        "## 20,000 images" if found["rows"] == 20_000 else f"## {found['rows']:,} images",
        "",
        f"{found['data']}, {found['rows']:,} points, perplexity 50, kappa = {NEIGHBORS}, "
        f"{found['seconds']:g} s a run from one random start, no exaggeration; the elastic "
        "embedding with lambda = 100 and equal w-. *Defaults*: as users get it, with kappa by the "
        "perplexity; t-SNE starts from principal components, with early exaggeration. *In stages*: "
        "from the random start with early exaggeration. *Exact solves*: to 1e-8 in place of 0.1. "
        + _default_pair(found["problems"].get("t-SNE", {})),
        "",
        format_table(table, markdown=True),
        "",
        draw_curves(found["problems"], stem, "large"),
        "",
        *(
            f"![maps]({stem.name}-large-maps-{problem.lower()}.png)\n"
            for problem in found["problems"]
        ),
    ]


def _default_pair(curves: dict[str, Any]) -> str:
    """What the default pair of t-SNE owes to exaggeration, and what to its loose solves."""
    names = ("L-BFGS + SD", *VARIANTS)
    if any(name not in curves for name in names):
        return ""
    plain, defaults, staged, exact = (curves[name][-1][2] for name in names)
    others = min(curve[-1][2] for name, curve in curves.items() if name not in names)
    return (
        f"The default pair ends at {plain:.3f} without exaggeration, at {exact:.3f} with exact "
        f"solves, and at {staged:.3f} in stages ({defaults:.3f} from principal components), where "
        f"the lowest of the others is {others:.3f}: what it lacks from a random start is "
        f"{'exaggeration' if staged < min(plain, exact) else 'another start'}, not accuracy."
    )
