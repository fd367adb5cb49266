"""Tables and pictures of what the saddle-free benchmark measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from thalweg.report import format_table

COLORS = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]


def write_report(found: dict[str, Any], stem: Path) -> None:
    """Write ``stem``.md and one PNG a part."""
    text = ["# Saddle-free Newton steps and their rivals", ""]
    for part, write in (
        ("directions", _directions),
        ("escape", _escape),
        ("training", _training),
        ("rates", _rates),
    ):
        if part in found:
            text += write(found[part], stem)
    if "note" in found:
        text += ["## Note", "", found["note"], ""]
    text += ["## Machine", "", "```", json.dumps(found["machine"], indent=1), "```", ""]
    stem.with_suffix(".md").write_text("\n".join(text), encoding="utf-8")


def _save(figure: Any, stem: Path, part: str) -> str:
    file = stem.with_name(f"{stem.name}-{part}.png")
    figure.savefig(file, dpi=130, bbox_inches="tight")
    plt.close(figure)
    return f"![{part}]({file.name})"


def _directions(rows: list[dict[str, Any]], stem: Path) -> list[str]:
    conditions = sorted({row["condition"] for row in rows})
    ways = list(dict.fromkeys(row["way"] for row in rows))
    figure, panels = plt.subplots(1, len(conditions), figsize=(11, 3.6), sharey=True)
    for axes, condition in zip(panels, conditions, strict=True):
        for color, way in zip(COLORS, ways, strict=False):
            chosen = [r for r in rows if r["way"] == way and r["condition"] == condition]
            axes.loglog(
                [r["products"] for r in chosen],
                [r["error"] for r in chosen],
                "o-",
                color=color,
                label=way,
            )
        axes.set(title=f"condition {condition}", xlabel="Hessian products")
    panels[0].set_ylabel("relative error of the step")
    panels[0].legend()
    picture = _save(figure, stem, "directions")
    table = []
    for condition in conditions:
        for wanted in (1e-2, 1e-4, 1e-6):
            row: dict[str, Any] = {"condition": condition, "error at most": wanted}
            for way in ways:
                fits = [
                    r["products"]
                    for r in rows
                    if r["way"] == way and r["condition"] == condition and r["error"] <= wanted
                ]
                row[way] = min(fits) if fits else "-"
            table.append(row)
    return [
        "## Products for one direction",
        "",
        "Eigenvalues spread evenly in the logarithm, 30 % negative, no damping; the error is "
        "that against the exact step, at the loosest tolerance tried that meets the bound. For "
        "the differential equation this is its tuning: one tolerance rules its step lengths and "
        "its inner solves, which were not tuned apart.",
        "",
        format_table(table, markdown=True),
        "",
        picture,
        "",
    ]


def _escape(found: dict[str, Any], stem: Path) -> list[str]:
    figure, panels = plt.subplots(1, len(found), figsize=(4 * len(found), 3.6))
    table = []
    for axes, (problem, result) in zip(panels, found.items(), strict=True):
        curves = result["curves"]
        lowest = min(v for curve in curves.values() for _, v in curve)
        row: dict[str, Any] = {"problem": problem}
        first = next(iter(curves["saddle-free"]))[1]
        for color, (name, curve) in zip(COLORS, curves.items(), strict=False):
            if not curve:
                row[name] = "failed"
                continue
            values = [value for _, value in curve]
            axes.plot([max(1, work) for work, _ in curve], values, color=color, label=name)
            near = lowest + 1e-3 * (first - lowest)
            reached = [work for work, value in curve if value <= near]
            row[name] = int(reached[0]) if reached else f"stays at {values[-1]:.3g}"
        axes.set(title=problem, xscale="log", xlabel="gradients + products", ylim=(None, None))
        margin = 0.05 * (first - lowest)
        axes.set_ylim(lowest - margin, first + 2 * margin)
        table.append(row)
    panels[0].set_ylabel("objective")
    panels[-1].legend(fontsize=7)
    picture = _save(figure, stem, "escape")
    return [
        "## Escape from a saddle's neighborhood",
        "",
        "Gradients and Hessian products until the objective has made 99.9 % of its way from the "
        "start to the lowest value that any method found.",
        "",
        format_table(table, markdown=True),
        "",
        picture,
        "",
    ]


def _training(found: dict[str, Any], stem: Path) -> list[str]:
    text = ["## Training networks", ""]
    for problem, result in found.items():
        text += _network(problem, result, stem)
    return text


def _network(problem: str, found: dict[str, Any], stem: Path) -> list[str]:
    setting, runs = found["setting"], found["runs"]
    figure, panels = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
    table = []
    unit = "core-seconds" if setting["clock"] == "cpu" else "seconds"
    for color, (name, run) in zip(COLORS, runs.items(), strict=False):
        curve = run["curve"]
        for axes, column in zip(panels, (0, 1, 2), strict=True):
            shown = [p for p in curve if column == 0 or (p[column] or 0) > 0]
            axes.plot([p[column] for p in shown], [p[3] for p in shown], color=color, label=name)
            if column == 0 and curve[-1][4] is not None:
                axes.plot([p[0] for p in shown], [p[4] for p in shown], ":", color=color)
        row: dict[str, Any] = {"method": name}
        for part in (0.25, 0.5, 1.0):
            limit = part * setting["seconds"]
            # What had not been reached by then is not shown as if it had.
            reached = [p for p in curve if p[0] <= 1.05 * limit]
            ended = curve[-1][0] >= 0.95 * limit
            row[f"train at {limit:g}"] = f"{reached[-1][3]:.3f}" if reached and ended else "-"
        row["test at the end"] = "-" if curve[-1][4] is None else f"{curve[-1][4]:.3f}"
        row["epochs"] = f"{curve[-1][1]:.0f}"
        row["updates"] = "-" if curve[-1][2] is None else int(curve[-1][2])
        row["train at the end"] = f"{curve[-1][3]:.3f}"
        row["time"] = f"{curve[-1][0]:.0f}"
        row["status"] = run["status"]
        row["settings"] = ", ".join(f"{k} {v}" for k, v in run["settings"].items()) or "defaults"
        if run.get("tried"):
            row["settings"] += " (of rates " + ", ".join(run["tried"]) + ")"
        table.append(row)
    label = "mean loss" if setting["measure"] == "loss" else "squared error per case"
    panels[0].set(yscale="log", xlabel=f"{unit} (dotted: test)", ylabel=label)
    for axes, words in zip(panels[1:], ("epochs", "updates"), strict=True):
        drawn = any(len(line.get_xdata()) for line in axes.lines)
        axes.set(xscale="log" if drawn else "linear", xlabel=words)
    panels[0].legend(fontsize=7)
    picture = _save(figure, stem, problem)
    return [
        f"### {problem}",
        "",
        f"{setting['data']}, {setting['description']}, single precision. Time in {unit}; errors "
        f"are {label}, measured off the clock. A quarter of a batch gives the curvature. For "
        "full-batch methods the column of epochs counts gradient equivalents."
        + (" " + setting["note"] if "note" in setting else ""),
        "",
        format_table(table, markdown=True),
        "",
        picture,
        "",
    ]


def _rates(found: dict[str, Any], stem: Path) -> list[str]:
    table = [
        {
            "precision": r["precision"],
            "matrix product, GFLOP/s": r["matrix_gflops"],
            **{
                kind: f"{r[kind + '_gflops']:.1f} ({100 * r[kind + '_share']:.0f} %)"
                for kind in ("hessian", "gauss-newton", "gradient")
            },
        }
        for r in found["products"]
    ]
    one, two = (min(found["seconds"][ranks]) for ranks in ("1", "2"))
    return [
        "## Rates",
        "",
        "Products of the 784-1000-500-250-30 autoencoder on 2,048 rows, one thread, beside a "
        "square matrix product of size 2,000 in the same process.",
        "",
        format_table(table, markdown=True),
        "",
        f"Gradient over {found['gradient_rows']} rows, one thread per rank: {one:.2f} s on one "
        f"rank, {two:.2f} s on two, {found['speedup']:.2f} times as fast.",
        "",
    ]
