"""Tables and pictures of what the embedding benchmark measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from thalweg.report import format_table

COLOURS = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]

#: A curve has arrived where this share of the way to the lowest value is left.
NEAR = 1e-3


def write_report(found: dict[str, Any], stem: Path) -> None:
    """Write ``stem``.md and one PNG a part."""
    text = ["# Nonlinear embeddings", ""]
    for part, write in (
        ("convergence", _convergence),
        ("starts", _starts),
        ("homotopy", _homotopy),
        ("large", _convergence),
        ("rivals", _rivals),
    ):
        if part in found:
            text += write(found[part], stem, part)
    text += ["## Machine", "", "```", json.dumps(found["machine"], indent=1), "```", ""]
    stem.with_suffix(".md").write_text("\n".join(text), encoding="utf-8")


def _save(figure: Any, stem: Path, part: str) -> str:
    file = stem.with_name(f"{stem.name}-{part}.png")
    figure.savefig(file, dpi=130, bbox_inches="tight")
    plt.close(figure)
    return f"![{part}]({file.name})"


def _convergence(found: dict[str, Any], stem: Path, part: str) -> list[str]:
    problems = [name for name, value in found.items() if isinstance(value, dict)]
    figure, panels = plt.subplots(2, len(problems), figsize=(4.2 * len(problems), 6.5))
    table = []
    for column, problem in zip(panels.T, problems, strict=True):
        curves = {name: np.array(curve) for name, curve in found[problem].items()}
        lowest = min(curve[:, 2].min() for curve in curves.values())
        first = max(curve[0, 2] for curve in curves.values())
        goal = lowest + NEAR * (first - lowest)
        for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False):
            above = np.maximum(curve[:, 2] - lowest, 1e-9 * abs(first - lowest))
            for axes, x in zip(column, (0, 1), strict=True):
                axes.loglog(np.maximum(curve[:, x], 1e-2), above, color=colour, label=name)
            there = np.nonzero(curve[:, 2] <= goal)[0]
            table.append(
                {
                    "problem": problem,
                    "strategy": name,
                    "final value": float(curve[-1, 2]),
                    "evaluations": int(curve[-1, 0]),
                    "evaluations to 99.9 %": int(curve[there[0], 0]) if len(there) else None,
                    "seconds to 99.9 %": float(curve[there[0], 1]) if len(there) else None,
                }
            )
        column[0].set(title=problem, xlabel="evaluations")
        column[1].set(xlabel="seconds")
    panels[0, 0].set_ylabel("objective above the lowest")
    panels[0, -1].legend(fontsize=7)
    picture = _save(figure, stem, part)
    title = "Convergence from one start" if part == "convergence" else "20,000 images"
    return [
        f"## {title}",
        "",
        f"{found['data']}, {found['rows']} points, at most {found['seconds']:g} s a run. A curve "
        "has arrived when it has made 99.9 % of the way from the start to the lowest value of all.",
        "",
        format_table(table, markdown=True),
        "",
        picture,
        "",
    ]


def _starts(found: dict[str, Any], stem: Path, part: str) -> list[str]:
    table = []
    for problem, strategies in found.items():
        if not isinstance(strategies, dict):
            continue
        for strategy, runs in strategies.items():
            values = np.array([run["objective"] for run in runs])
            table.append(
                {
                    "problem": problem,
                    "strategy": strategy,
                    "best": float(values.min()),
                    "median": float(np.median(values)),
                    "worst": float(values.max()),
                    "evaluations": int(np.median([run["evaluations"] for run in runs])),
                }
            )
    return [
        "## Random starts",
        "",
        f"{found['data']}, {found['starts']} starts, {found['seconds']:g} s each; "
        "evaluations are the median.",
        "",
        format_table(table, markdown=True),
        "",
    ]


def _homotopy(found: dict[str, Any], stem: Path, part: str) -> list[str]:
    runs = {name: value for name, value in found.items() if isinstance(value, dict)}
    table = [
        {
            "strategy": name,
            "evaluations": run["evaluations"],
            "times fewer than GD": runs["GD"]["evaluations"] / run["evaluations"],
            "seconds": run["seconds"],
            "final value": run["objective"],
        }
        for name, run in runs.items()
    ]
    return [
        "## Homotopy of the elastic embedding",
        "",
        f"{found['data']}, {found['stages']} values of lambda from 1e-4 to 1e2, each to a relative "
        f"decrease of 1e-6 or {found['iterations']} iterations.",
        "",
        format_table(table, markdown=True),
        "",
    ]


def _rivals(found: dict[str, Any], stem: Path, part: str) -> list[str]:
    table = []
    for name in ("thalweg", "openTSNE", "scikit-learn"):
        run = found.get(name, {})
        if "kl" not in run:
            continue
        seconds = run.get("seconds", run.get("seconds (affinities included)"))
        table.append(
            {
                "program": name,
                "seconds": seconds,
                "seconds to openTSNE's KL": run.get("seconds to openTSNE's KL"),
                "exact KL": run["kl"],
                "neighbours kept": run["preserved"],
            }
        )
    return [
        "## t-SNE on identical affinities",
        "",
        f"{found['data']}, {found['rows']} points, perplexity 30; openTSNE: 250 + 500 iterations "
        f"by FFT; scikit-learn's seconds include its own affinities. Affinities took "
        f"{found['affinities']:.1f} s; peak memory {found['peak memory, GiB']:.2f} GiB.",
        "",
        format_table(table, markdown=True),
        "",
        f"![map]({stem.name}-map.png)",
        "",
    ]
