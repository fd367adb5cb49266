"""Markdown and pictures of what the clustering benchmark measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from hpc.bench.pictures import save_picture

from .designs import designs_section
from .figures import course_section, dependence_section
from .grid import tuning_section
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
    if "course" in found:
        text += course_section(found["course"], stem)
    if "dependence" in found:
        text += dependence_section(found["dependence"], stem)
    if "tuning" in found:
        text += tuning_section(found["tuning"])
    if "held-back" in found:
        text += _held_back(found["held-back"]["sets"]) + _splits(found["held-back"]["splits"])
    if "large" in found:
        text += _large(found["large"])
    if "designs" in found:
        text += designs_section(found["designs"])
    if "rivals" in found:
        text += _rivals(found["rivals"])
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
        "Wall and CPU time of a whole run, in seconds; random starts (RI) as mean ± deviation.  "
        "Every method computes in double precision with the same kernels and may take "
        f"{min(row['seconds'] for row in rows):g} CPU seconds a run, DG from SI "
        f"{max(row['seconds'] for row in rows):g}.  The status says how many runs ended "
        "how; a run that reached the time limit is unfinished, its figures are those of its last "
        "iterate.  Once the random starts of a row had used up their budget, no further one was "
        "begun: the row says how many ran.  ISM is the safeguarded iteration of this project; ISM "
        "as published is Algorithm 2 to the letter, begun from the clustering given as Algorithm 1 "
        "has it.  The published rows are Table 1 of Wu et al. (2018), their times those of an "
        "Intel Xeon E7, their cost in another scale of Y.",
        "",
        "| set | method | runs | NMI | CQ | novelty | cost | time | CPU | status |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        names = ("NMI", "CQ", "Novelty", "Cost", "Time", "CPU")
        cells = " | ".join(_cell(row[name], row["starts"]) for name in names)
        runs = f"{row['starts']}"
        if row["starts"] < row["wanted"]:
            runs += f" of {row['wanted']}"
        statuses = row.get("statuses") or {"not recorded": row["starts"]}
        status = ", ".join(
            f"{name.lower().replace('_', ' ')}" + (f" {count}" if row["starts"] > 1 else "")
            for name, count in statuses.items()
        )
        text.append(f"| {row['set']} | {row['method']} | {runs} | {cells} | {status} |")
        published = row.get("published")
        if isinstance(published, list | tuple) and len(published) == 5:
            figures = " | ".join(published)
            name = row["method"].replace(" as published", "")
            if name != row["method"] or not name.startswith("ISM"):
                text.append(f"| {row['set']} | {name}, published figures | | {figures} | | |")
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
        "seconds.  DG is measured to its own end, which is as far above the lowest value as the "
        "last column says.",
        "",
        "| set | starts, both reach | ISM | SM | SM, plain | SM, published | DG "
        "| SM / ISM | plain / ISM | published / ISM | DG above |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = []
        for name in ("ISM", *RIVALS, "DG"):
            cell = row.get(name) or {}
            known = cell.get("seconds") is not None
            cells.append(f"{cell['seconds']:.2g} ({cell['evaluations']:.0f})" if known else "-")
        for name in RIVALS:
            ours, theirs = (row.get(m, {}).get("seconds") for m in ("ISM", name))
            cells.append(f"{theirs / ours:.2g}" if ours and theirs else "-")
        cells.append(f"{row['DG']['above']:.1e}" if "DG" in row else "-")
        text.append(f"| {row['set']} | {row['both']} of {row['starts']} | {' | '.join(cells)} |")
    return [*text, ""]


def _held_back(rows: list[dict[str, Any]]) -> list[str]:
    text = [
        "## Rows held back",
        "",
        "A share of the rows is held back and labeled by `predict`; their labels are compared "
        "with those of a fit of all rows, medians of five draws.  The labels of the other rows "
        "in both fits show how much these differ by themselves.",
        "",
        "| set | held back | NMI, predicted and refitted | NMI of both fits on the other rows | "
        "NMI with the truth, predicted | refitted |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        text.append(
            f"| {row['set']} | {row['share']:.0%} | {row['predicted']:.3f} | "
            f"{row['refitted']:.3f} | {row['truth_predicted']:.3f} | {row['truth_refitted']:.3f} |"
        )
    return [*text, ""]


def _splits(found: dict[str, Any]) -> list[str]:
    text = [
        "## Three splits of one set, in turn",
        "",
        f"{found['rows']} rows in four groups at the corners of a tetrahedron, which have three "
        "balanced splits, and two features of noise; one split is given, up to five alternatives "
        "are asked for.",
        "",
        "| given | NMI of each alternative with splits 1, 2, 3 | why no more | CPU seconds |",
        "|---|---|---|---|",
    ]
    for run in found["runs"]:
        lines = "; ".join(", ".join(f"{value:.2f}" for value in line) for line in run["nmi"])
        text.append(
            f"| split {run['given'] + 1} | {lines} | {run['reason']} | {run['seconds']:.1f} |"
        )
    return [*text, ""]


def _large(rows: list[dict[str, Any]]) -> list[str]:
    text = [
        "## Many rows",
        "",
        "One thread per rank, so that two ranks on one core share its time.  Sums in single "
        "precision; auto stands for landmarks.  Every run starts from the subspace of a sample, "
        "exact ones then from that by landmarks on all rows, those of a million rows from samples "
        "of growing size.  The rows with 20 features are generated anew for each number of ranks.",
        "",
        "| rows | features | sums | ranks | cores | seconds | CPU seconds per rank | steps "
        "| MiB per rank | NMI, labeled split | NMI, product split | NMI with exact's labels "
        "| novelty |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            text.append(f"| {row['rows']} | | | {row['ranks']} | | failed | | | | | | | |")
            continue
        agreement = row.get("nmi_exact")
        text.append(
            f"| {row['rows']} | {row.get('features', 4)} | {row.get('approximation', 'exact')} | "
            f"{row['ranks']} | {row.get('cores', '-')} | {row['seconds']:.1f} | "
            f"{row['cpu_seconds']:.1f} | {row['evaluations']} | "
            f"{row['mebibytes']:.0f} | {row['nmi']:.3f} | "
            f"{row['nmi_product']:.3f} | {'-' if agreement is None else f'{agreement:.3f}'} | "
            f"{row['novelty']:.4f} |"
        )
    return [
        *text,
        "",
        "The four groups have three balanced splits: the one given, the one that is labeled as "
        "the alternative, and their product.  Both others are as novel.",
        "",
    ]


def _rivals(rows: list[dict[str, Any]]) -> list[str]:
    text = [
        "## Beside other programs",
        "",
        "Every program gets the same standardized rows and runs with its defaults.  The true "
        "number of clusters of each view is told to Nr-Kmeans (also with a further space of one "
        "cluster, for noise), to both orthogonal methods and to KDAC where its name says so. "
        "AutoNR and the other two KDAC find their own: `KDAC(n_alternatives=...)` with as many as "
        "there are views and nothing given, or with the first view given, which then counts as "
        "found.  NMI with "
        "each true view is that of the best labeling found.  The overlap is the largest NMI of two "
        "labelings found: at 0 each says something new.  The confusion score is the mean over the "
        "true views of ClustPy's multiple-labelings confusion matrix, each row's largest NMI.  "
        "CPU seconds are of one thread.  Memory is the peak of allocations, traced in a run of "
        "its own where that is not too long.",
        "",
        "| set | n | d | program | labelings | NMI with each view | overlap among them | "
        "confusion score | CPU s | MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            text.append(
                f"| {row['set']} | {row['rows']} | {row['features']} | {row['program']} | "
                f"{row['error']} | | | | | |"
            )
            continue
        views = ", ".join(f"{value:.2f}" for value in row["nmi"])
        memory = "-" if row["mebibytes"] is None else f"{row['mebibytes']:.1f}"
        score = "-" if row["confusion"] is None else f"{row['confusion']:.2f}"
        text.append(
            f"| {row['set']} | {row['rows']} | {row['features']} | {row['program']} | "
            f"{row['labelings']} | {views} | {row['overlap']:.2f} | {score} | "
            f"{row['cpu']:.2f} | {memory} |"
        )
    return [*text, "", *_means(rows)]


def _means(rows: list[dict[str, Any]]) -> list[str]:
    """Mean over sets that every program did, and over all that it did itself."""
    done = [row for row in rows if "error" not in row]
    programs = list(dict.fromkeys(row["program"] for row in rows))
    sets = list(dict.fromkeys(row["set"] for row in rows))
    common = [name for name in sets if sum(row["set"] == name for row in done) == len(programs)]
    text = [
        f"Means over the {len(common)} sets that every program did, sets counting equally; "
        "views found are those with an NMI of 0.8 or more, of all sets that the program did:",
        "",
        "| program | mean NMI | mean NMI without the first view | views found | CPU s |",
        "|---|---|---|---|---|",
    ]
    for program in programs:
        own = [row for row in done if row["program"] == program]
        shared = [row for row in own if row["set"] in common]
        if not shared:
            continue
        every = np.mean([np.mean(row["nmi"]) for row in shared])
        later = np.mean([np.mean(row["nmi"][1:]) for row in shared])
        views = [value >= 0.8 for row in own for value in row["nmi"]]
        found, spent = f"{sum(views)} of {len(views)}", sum(row["cpu"] for row in shared)
        text.append(f"| {program} | {every:.3f} | {later:.3f} | {found} | {spent:.1f} |")
    return [*text, ""]


def _cell(pair: list[float] | None, starts: int) -> str:
    if pair is None:
        return "-"
    mean, deviation = pair
    return f"{mean:.3g} ± {deviation:.2g}" if starts > 1 else f"{mean:.3g}"


def _views(table: list[dict[str, Any]], problems: list[Problem], stem: Path) -> str:
    labels = {row["set"]: np.array(row["labels"]) for row in table if "labels" in row}
    shown = [problem for problem in problems if problem.name in labels]
    if not shown:
        return f"![views]({stem.name}-views.png)"
    figure, panels = plt.subplots(len(shown), 2, figsize=(7, 2.6 * len(shown)), squeeze=False)
    for (left, right), problem in zip(panels, shown, strict=True):
        found = labels[problem.name]
        if problem.picture is not None:
            # np.unique sorts colors as the samples are sorted.
            flat = problem.picture.reshape(-1, 3)
            place = np.unique(flat, axis=0, return_inverse=True)[1].ravel()
            shape = problem.picture.shape[:2]
            left.imshow(problem.given[place].reshape(shape), cmap="coolwarm")
            right.imshow(found[place].reshape(shape), cmap="coolwarm")
            for axes in (left, right):
                axes.set_axis_off()
        else:
            views = ((left, problem.given, problem.panels[0]), (right, found, problem.panels[1]))
            for axes, colors, (a, b) in views:
                b = min(b, problem.points.shape[1] - 1)
                axes.scatter(problem.points[:, a], problem.points[:, b], c=colors, s=5,
                             cmap="tab20")  # fmt: skip
                axes.set(xlabel=f"feature {a + 1}", ylabel=f"feature {b + 1}")
        left.set_title(f"{problem.name.split(',')[0].split(' (')[0]}: given", fontsize=9)
        right.set_title(f"alternative{_variant(problem.name)}", fontsize=9)
    figure.tight_layout()
    return save_picture(figure, stem, "views")


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
        save_picture(figure, stem, "dimension"),
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
