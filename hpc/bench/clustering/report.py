"""Markdown and pictures of what the clustering benchmark measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from .sets import Problem


def write_report(found: dict[str, Any], problems: list[Problem], stem: Path) -> None:
    """Write ``stem``.md, Figure 2 and Figure 3."""
    text = ["# Alternative clustering", "", "## Table 1", ""]
    text += [
        "Wall and CPU time of a whole run, in seconds; random starts (RI) as mean ± deviation.",
        f"Runs are capped at {found['seconds']:g} s; a row says how many were (then its time is a "
        "lower bound, and its clustering unfinished).  The published figures are those of ISM SI.",
        f"Load average at the start and the end: {found['load'][0]:.1f}, {found['load'][1]:.1f} on "
        f"{found['machine'].get('cores', '?')} cores; times of runs that shared them "
        "are upper bounds, and ratios of such times say little. " + found.get("load_note", ""),
        "",
        "| set | method | NMI | CQ | novelty | cost | time | CPU | capped | published NMI, time |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found["table"]:
        names = ("NMI", "CQ", "Novelty", "Cost", "Time", "CPU")
        cells = [_cell(row.get(name, [np.nan, 0.0]), row["starts"]) for name in names]  # fmt: skip
        capped = f"{row['capped']} of {row['starts']}" if row["capped"] else ""
        published = ", ".join(row["published"].values())
        text.append(
            f"| {row['set']} | {row['method']} | " + " | ".join(cells) + f" | {capped} "
            f"| {published} |"
        )
    text += ["", "## Speed", "", "Mean time of random starts against ISM from SI.", ""]
    text += ["| set | SM RI / ISM SI | SM RI / ISM RI | DG RI / ISM SI |", "|---|---|---|---|"]
    for name in dict.fromkeys(row["set"] for row in found["table"]):
        times = {r["method"]: r for r in found["table"] if r["set"] == name}

        def ratio(a: str, b: str, times: dict[str, Any] = times) -> str:
            bound = "> " if times[a]["capped"] else ""
            return f"{bound}{times[a]['Time'][0] / times[b]['Time'][0]:.0f}"

        text.append(
            f"| {name} | {ratio('SM RI', 'ISM SI')} | {ratio('SM RI', 'ISM RI')} "
            f"| {ratio('DG RI', 'ISM SI')} |"
        )
    text += ["", "## Parameters", "", "| set | n | d | k | q | sigma | lambda | |"]
    text += ["|---|---|---|---|---|---|---|---|"]
    for row in found["table"]:
        if row["method"] == "ISM SI":
            text.append(
                f"| {row['set']} | {row['rows']} | {row['features']} | {row['clusters']} | "
                f"{row['components']} | {row['sigma']:.3g} | {row['lambda']:.3g} | {row['note']} |"
            )
    text += ["", "## Figure 2: the view given and the alternative", ""]
    text += [_views(found["table"], problems, stem), ""]
    text += ["## Figure 3: time of the W-step's eigenproblem against the number of features", ""]
    slopes = found["dimension"]["slopes"]
    text += [
        _dimension(found["dimension"], stem),
        "",
        "Slopes in the logarithms: "
        + ", ".join(f"{name} {value:.2f}" for name, value in slopes.items() if value is not None)
        + ".",
        "",
        "| features | LAPACK, s | CPM, s | CPM's shortfall |",
        "|---|---|---|---|",
    ]
    for row in found["dimension"]["rows"]:
        text.append(
            f"| {row['features']} | {row['lapack']:.2g} | {row['cpm']:.2g} | "
            f"{row['cpm_shortfall']:.1e} |"
        )
    if "large" in found:
        text += ["", "## Exact ISM on many rows", ""]
        text += [
            "| rows | ranks | seconds | CPU seconds a rank | steps | MiB a rank "
            "| NMI, labelled split | NMI, product split | novelty |"
        ]
        text += ["|---|---|---|---|---|---|---|---|---|"]
        for row in found["large"]:
            text.append(
                f"| {row['rows']} | {row['ranks']} | {row['seconds']:.1f} | "
                f"{row['cpu_seconds']:.1f} | {row['evaluations']} | "
                f"{row['mebibytes']:.0f} | {row['nmi']:.3f} | "
                f"{row.get('nmi_product', float('nan')):.3f} | {row['novelty']:.4f} |"
            )
        text += [
            "",
            "The four groups of this file have three balanced splits: the one given, the one that",
            "the file labels as the alternative, and their product, which is the sign of the first",
            "feature.  Both others are as novel; nan means that the product was not compared.",
            "Where the machine was shared, CPU seconds say what a free one would take.",
        ]
    text += ["", "## Machine", "", "```", json.dumps(found["machine"], indent=1), "```", ""]
    stem.with_suffix(".md").write_text("\n".join(text), encoding="utf-8")


def _cell(pair: list[float], starts: int) -> str:
    mean, deviation = pair
    if not np.isfinite(mean):
        return "-"
    return f"{mean:.3g} ± {deviation:.2g}" if starts > 1 else f"{mean:.3g}"


def _save(figure: Any, stem: Path, part: str) -> str:
    file = stem.with_name(f"{stem.name}-{part}.png")
    figure.savefig(file, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return f"![{part}]({file.name})"


def _views(table: list[dict[str, Any]], problems: list[Problem], stem: Path) -> str:
    labels = {row["set"]: np.array(row["labels"]) for row in table if "labels" in row}
    shown = [problem for problem in problems if problem.name in labels]
    figure, panels = plt.subplots(len(shown), 2, figsize=(7, 2.6 * len(shown)), squeeze=False)
    for (left, right), problem in zip(panels, shown, strict=True):
        found = labels[problem.name]
        if problem.picture is not None:
            # np.unique sorts colours as the samples are sorted.
            flat = problem.picture.reshape(-1, 3)
            place = np.unique(flat, axis=0, return_inverse=True)[1].ravel()
            shape = problem.picture.shape[:2]
            left.imshow(problem.given[place].reshape(shape), cmap="coolwarm")
            right.imshow(found[place].reshape(shape), cmap="coolwarm")
            for axes in (left, right):
                axes.set_axis_off()
        else:
            views = ((left, problem.given, problem.panels[0]), (right, found, problem.panels[1]))
            for axes, colours, (a, b) in views:
                b = min(b, problem.points.shape[1] - 1)
                axes.scatter(problem.points[:, a], problem.points[:, b], c=colours, s=5,
                             cmap="tab20")  # fmt: skip
                axes.set(xlabel=f"feature {a + 1}", ylabel=f"feature {b + 1}")
        left.set_title(f"{problem.name.split(' (')[0]}: given", fontsize=9)
        right.set_title("alternative", fontsize=9)
    figure.tight_layout()
    return _save(figure, stem, "views")


def _dimension(found: dict[str, Any], stem: Path) -> str:
    figure, axes = plt.subplots(figsize=(5, 3.6))
    features = [row["features"] for row in found["rows"]]
    for solver, mark in (("lapack", "o-"), ("cpm", "s--")):
        slope = found["slopes"][solver]
        label = f"{solver.upper()}, slope {slope:.2f}" if slope is not None else solver.upper()
        axes.loglog(features, [row[solver] for row in found["rows"]], mark, label=label)
    axes.set(xlabel="features", ylabel="seconds")
    axes.legend()
    return _save(figure, stem, "dimension")
