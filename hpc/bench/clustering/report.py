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
    text = ["# Alternative clustering", ""]
    if "table" in found:
        text += _table(found["table"]) + _speed(found["table"]) + _parameters(found["table"])
        text += ["## Figure 2: the view given and the alternative", ""]
        text += [_views(found["table"], problems, stem), ""]
    if "descent" in found:
        text += _descent(found["descent"])
    if "dimension" in found:
        text += _dimension(found["dimension"], stem)
    if "large" in found:
        text += _large(found["large"])
    text += ["## Machine", ""]
    if "note" in found:
        text += [found["note"], ""]
    load = ", ".join(f"{value:.1f}" for value in found.get("load", []))
    text += [f"Load average over 1, 5 and 15 minutes at the end: {load}.", ""]
    text += ["```", json.dumps(found["machine"], indent=1), "```", ""]
    stem.with_suffix(".md").write_text("\n".join(text), encoding="utf-8")


def _table(rows: list[dict[str, Any]]) -> list[str]:
    text = [
        "## Table 1",
        "",
        "Wall and CPU time of a whole run, in seconds; random starts (RI) as mean ± deviation.",
        f"Runs are capped at {max(row['seconds'] for row in rows):g} s; a row says how many were "
        "(then its time is a lower bound, and its clustering unfinished).  Once the random starts "
        "of a row had used up their budget, no further one was begun: the row says how many ran.  "
        "The published figures are those of ISM SI.",
        "",
        "| set | method | runs | NMI | CQ | novelty | cost | time | CPU | capped "
        "| published NMI, time |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        names = ("NMI", "CQ", "Novelty", "Cost", "Time", "CPU")
        cells = " | ".join(_cell(row[name], row["starts"]) for name in names)
        capped = f"{row['capped']} of {row['starts']}" if row["capped"] else ""
        runs = f"{row['starts']}"
        if row["starts"] < row["wanted"]:
            runs += f" of {row['wanted']}"
        published = ", ".join(row["published"].values())
        text.append(
            f"| {row['set']} | {row['method']} | {runs} | {cells} | {capped} | {published} |"
        )
    return [*text, ""]


def _speed(rows: list[dict[str, Any]]) -> list[str]:
    text = ["Mean CPU time of random starts against ISM from SI.", ""]
    text += ["| set | SM RI / ISM SI | SM RI / ISM RI | DG RI / ISM SI |", "|---|---|---|---|"]
    for name in dict.fromkeys(row["set"] for row in rows):
        times = {r["method"]: r for r in rows if r["set"] == name}

        def ratio(a: str, b: str, times: dict[str, Any] = times) -> str:
            bound = "> " if times[a]["capped"] else ""
            return f"{bound}{times[a]['CPU'][0] / times[b]['CPU'][0]:.2g}"

        text.append(
            f"| {name} | {ratio('SM RI', 'ISM SI')} | {ratio('SM RI', 'ISM RI')} "
            f"| {ratio('DG RI', 'ISM SI')} |"
        )
    return [*text, ""]


def _parameters(rows: list[dict[str, Any]]) -> list[str]:
    text = ["| set | n | d | k | q | sigma | lambda | |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if row["method"] == "ISM SI":
            text.append(
                f"| {row['set']} | {row['rows']} | {row['features']} | {row['clusters']} | "
                f"{row['components']} | {row['sigma']:.3g} | {row['lambda']:.3g} | {row['note']} |"
            )
    return [*text, ""]


RIVALS = ("SM", "SM, plain", "SM, published")


def _descent(rows: list[dict[str, Any]]) -> list[str]:
    text = [
        "## The W-step alone: CPU time to the same value",
        "",
        "U and D fixed, the same random W; median CPU seconds, and evaluations in brackets, until "
        "the objective is within 1e-6 of the lowest value that any of them reaches, over the "
        "starts where ISM and SM both do (the others end in different local minima).  ISM and SM "
        "share the kernels of this project.  SM, plain, doubles its last length instead of taking "
        "Barzilai and Borwein's; SM, published, also sums over a stored array of all n² "
        "differences, as the paper's authors do, and was cut off after ten times the others' "
        "seconds.",
        "",
        "| set | starts, both reach | ISM | SM | SM, plain | SM, published "
        "| SM / ISM | plain / ISM | published / ISM |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = []
        for name in ("ISM", *RIVALS):
            cell = row.get(name) or {}
            known = cell.get("seconds") is not None
            cells.append(f"{cell['seconds']:.2g} ({cell['evaluations']:.0f})" if known else "-")
        for name in RIVALS:
            ours, theirs = (row.get(m, {}).get("seconds") for m in ("ISM", name))
            cells.append(f"{theirs / ours:.2g}" if ours and theirs else "-")
        text.append(f"| {row['set']} | {row['both']} of {row['starts']} | {' | '.join(cells)} |")
    return [*text, ""]


def _large(rows: list[dict[str, Any]]) -> list[str]:
    text = [
        "## Exact ISM on many rows",
        "",
        "One thread a rank.",
        "",
        "| rows | ranks | seconds | CPU seconds a rank | steps | MiB a rank "
        "| NMI, labelled split | NMI, product split | novelty |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    done = [row for row in rows if "error" not in row]
    for row in done:
        text.append(
            f"| {row['rows']} | {row['ranks']} | {row['seconds']:.1f} | "
            f"{row['cpu_seconds']:.1f} | {row['evaluations']} | "
            f"{row['mebibytes']:.0f} | {row['nmi']:.3f} | "
            f"{row['nmi_product']:.3f} | {row['novelty']:.4f} |"
        )
    for row in rows:
        if "error" in row:
            text.append(f"| {row['rows']} | {row['ranks']} | failed | | | | | | |")
    text.append("")
    if len(done) == 2:
        one, two = done
        text += [
            f"Two ranks are {one['seconds'] / two['seconds']:.2f} times as fast as one "
            f"({one['cpu_seconds'] / two['cpu_seconds']:.2f} by CPU time).",
            "",
        ]
    text += [
        "The four groups of the authors' file have three balanced splits: the one given, the one",
        "that the file labels as the alternative, and their product, which is the sign of the",
        "first feature.  Both others are as novel.",
        "",
    ]
    return text


def _cell(pair: list[float] | None, starts: int) -> str:
    if pair is None:
        return "-"
    mean, deviation = pair
    return f"{mean:.3g} ± {deviation:.2g}" if starts > 1 else f"{mean:.3g}"


def _save(figure: Any, stem: Path, part: str) -> str:
    file = stem.with_name(f"{stem.name}-{part}.png")
    figure.savefig(file, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return f"![{part}]({file.name})"


def _views(table: list[dict[str, Any]], problems: list[Problem], stem: Path) -> str:
    labels = {row["set"]: np.array(row["labels"]) for row in table if "labels" in row}
    shown = [problem for problem in problems if problem.name in labels]
    if not shown:
        return f"![views]({stem.name}-views.png)"
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
        left.set_title(f"{problem.name.split(',')[0].split(' (')[0]}: given", fontsize=9)
        right.set_title(f"alternative{_variant(problem.name)}", fontsize=9)
    figure.tight_layout()
    return _save(figure, stem, "views")


def _variant(name: str) -> str:
    """What a set's name says in brackets, after the grouping given."""
    inside = name.partition(" (")[2].rstrip(")")
    return f" ({inside.partition(', ')[2]})" if inside else ""


def _slopes(slopes: dict[str, float | None]) -> str:
    return ", ".join(f"{name} {'-' if s is None else f'{s:.2f}'}" for name, s in slopes.items())


def _dimension(found: dict[str, Any], stem: Path) -> list[str]:
    figure, axes = plt.subplots(figsize=(5, 3.6))
    features = [row["features"] for row in found["rows"]]
    for solver, mark in (("lapack", "o-"), ("cpm", "s--")):
        slope = found["slopes"][solver]
        label = f"{solver.upper()}, slope {slope:.2f}" if slope is not None else solver.upper()
        axes.loglog(features, [row[solver] for row in found["rows"]], mark, label=label)
    axes.set(xlabel="features", ylabel="seconds")
    axes.legend()
    text = [
        "## Figure 3: time of the W-step's eigenproblem against the number of features",
        "",
        _save(figure, stem, "dimension"),
        "",
        f"Slopes in the logarithms: {_slopes(found['slopes'])} over all rows, "
        f"{_slopes(found['slopes_large'])} from 64 features on.  Published: between 1 and 2 for "
        "the eigendecomposition, about 1 for CPM.  CPM renews coordinates one by one and "
        "reads a column of the matrix for each, which LAPACK's blocks need not.  "
        "The shortfall is what CPM's subspace lacks of the least trace, over the largest row sum.",
        "",
        "| features | LAPACK, s | CPM, s | CPM's shortfall |",
        "|---|---|---|---|",
    ]
    for row in found["rows"]:
        text.append(
            f"| {row['features']} | {row['lapack']:.2g} | {row['cpm']:.2g} | "
            f"{row['cpm_shortfall']:.1e} |"
        )
    return [*text, ""]
