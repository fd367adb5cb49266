"""Tables and pictures of what the saddle-free benchmark measured."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from hpc.bench.pictures import save_picture
from hpc.bench.saddlefree.plateaus import NETWORKS, seconds_to_goal
from hpc.bench.saddlefree.tables import DPI, spread
from hpc.bench.saddlefree.training import DIVERGED, words
from hpc.bench.saddlefree.validation_report import write_validation

from thalweg.workbench.report import format_table

COLORS = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]


def write_report(found: dict[str, Any], stem: Path) -> None:
    """Write ``stem``.md and one PNG a part."""
    text = ["# Saddle-free Newton steps and their rivals", ""]
    for part, write in (
        ("directions", _directions),
        ("equation", _equation),
        ("escape", _escape),
        ("plateaus", _plateaus),
        ("validation", write_validation),
        ("training", _training),
        ("rates", _rates),
    ):
        if part in found:
            text += write(found[part], stem)
    if "note" in found:
        text += ["## Note", "", found["note"], ""]
    text += ["## Machine", "", "```", json.dumps(found["machine"], indent=1), "```", ""]
    stem.with_suffix(".md").write_text("\n".join(text), encoding="utf-8")


def _directions(rows: list[dict[str, Any]], stem: Path) -> list[str]:
    conditions = sorted({row["condition"] for row in rows})
    ways = list(dict.fromkeys(row["way"] for row in rows))
    figure, panels = plt.subplots(1, len(conditions), figsize=(11, 3.6), sharey=True)
    for axes, condition in zip(panels, conditions, strict=True):
        for color, way in zip(COLORS, ways, strict=False):
            chosen = [r for r in rows if r["way"] == way and r["condition"] == condition]
            places = [r["products"] for r in chosen]
            errors = [r["error"] for r in chosen]
            axes.loglog(places, errors, "o-", color=color, label=way)
        axes.set(title=f"condition {condition}", xlabel="Hessian products")
    panels[0].set_ylabel("relative error of the step")
    panels[-1].legend(loc="upper right", fontsize=7)
    picture = save_picture(figure, stem, "directions", DPI)
    # The tuned equation may be as it was by default.
    columns = {way: [way] for way in ways if "tuned" not in way}
    columns["ode, tuned"] = [way for way in ways if way.startswith("ode")]
    table = []
    for condition in conditions:
        for wanted in (1e-2, 1e-4, 1e-6):
            row: dict[str, Any] = {"condition": condition, "error at most": wanted}
            for name, members in columns.items():
                fits = [
                    r["products"]
                    for r in rows
                    if r["way"] in members and r["condition"] == condition and r["error"] <= wanted
                ]
                row[name] = min(fits) if fits else "-"
            table.append(row)
    return [
        "## Products for one direction",
        "",
        "Eigenvalues spread evenly in the logarithm, 30 % negative, no damping; the error is "
        "that against the exact step, at the loosest tolerance tried that meets the bound. The "
        "differential equation has two accuracies, that of its steps and that of its inner solves; "
        "by default the latter is a tenth of the former, and tuned it is the best of 0.01, 0.1, 1 "
        'and 10 times, for each line of the table. "-": not met within 500 steps.',
        "",
        format_table(table, markdown=True),
        "",
        picture,
        "",
    ]


def _equation(found: dict[str, Any], stem: Path) -> list[str]:
    table = [
        {
            "variables": row["size"],
            "condition": row["condition"],
            "tolerance": row["tolerance"],
            "Runge-Kutta steps": row["steps"],
            "CG iterations of a stage: least, mean, most": "{}, {:.1f}, {}".format(
                *row["iterations"]
            ),
            "products, first step": row["first step"],
            "products, second step": row["second step"],
            "products of CG with a definite matrix": row["definite"],
            "products of Lanczos": row["lanczos"],
            "error": row["error"],
        }
        for row in found["counts"]
    ]
    training = found["training"]
    ends = [
        {
            "network": network,
            "weights": result["weights"],
            "method": method,
            "updates": int(run["curve"][-1][1]),
            "products": int(run["curve"][-1][2]),
            "CPU seconds": round(run["curve"][-1][0], 1),
            "first value": run["curve"][0][3],
            "last value": run["curve"][-1][3],
            "status": run["status"].lower().replace("_", " "),
        }
        for network, result in training["networks"].items()
        for method, run in result["runs"].items()
    ]
    return [
        "## The two steps of the note, counted",
        "",
        "The first solves the differential equation by Runge, Kutta and Fehlberg, with conjugate "
        "gradients in each of the six stages of a step; the second solves with H². Eigenvalues "
        "are those of the part above. Beside them: conjugate gradients with the definite matrix of "
        "the same spectrum, as in Hessian-free optimization, to the residual of the second step, "
        "and one Lanczos basis for the whole direction.",
        "",
        format_table(table, markdown=True),
        "",
        "### Training by the equation",
        "",
        f"All weights from the same start, scikit-learn's digits, {training['seconds']:g} CPU "
        "seconds a method; a run ends sooner where every row is learned. An update that has begun "
        "is completed, so that one by the equation may take longer.",
        "",
        format_table(ends, markdown=True),
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
    picture = save_picture(figure, stem, "escape", DPI)
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


def _plateaus(found: dict[str, Any], stem: Path) -> list[str]:
    networks, way = found["networks"], found["way"]
    size = (4.5 * len(networks), 4.6)
    figure, panels = plt.subplots(1, len(networks), figsize=size, sharey=True, layout="constrained")
    table: list[dict[str, Any]] = []
    colors: dict[str, Any] = {}
    for axes, (network, result) in zip(panels, networks.items(), strict=True):
        best: dict[str, tuple[float, list[list[float]]]] = {}
        for name, curves in result["curves"].items():
            family = name.split(", rate")[0]
            times = [seconds_to_goal(curve, way) for curve in curves]
            mean = float("inf") if None in times else sum(t for t in times if t) / len(times)
            if mean <= best.get(family, (float("inf"),))[0]:
                best[family] = (mean, curves[0])
            ends = [curve[-1] for curve in curves]
            table.append(
                {
                    "network": network,
                    "method": name,
                    "core-seconds to the goal": spread(times, "not in the time"),
                    "updates": int(sum(end[1] for end in ends) / len(ends)),
                    "way left at the end": "diverged"
                    if max(end[2] for end in ends) >= DIVERGED
                    else spread([end[2] for end in ends]),
                }
            )
        for family, (_, curve) in best.items():
            shown = [point for point in curve if point[0] > 0]
            places = [point[0] for point in shown]
            color = colors.setdefault(family, COLORS[len(colors) % 10])
            axes.loglog(places, [p[2] for p in shown], color=color)
        axes.axhline(1 - way, color="gray", lw=0.8)
        axes.set(xlabel="core-seconds", title=network, ylim=(3e-4, 1.5))
    panels[0].set_ylabel("part of the way left")
    lines = [plt.Line2D([], [], color=color) for color in colors.values()]
    figure.legend(lines, list(colors), loc="outside lower center", ncols=3, fontsize=7)
    picture = save_picture(figure, stem, "plateaus", DPI)
    linear = [plateau for plateau in NETWORKS.values() if plateau.sizes]
    sizes = " and ".join("-".join(map(str, plateau.sizes)) for plateau in linear)
    return [
        "## Plateaus",
        "",
        f"Deep linear autoencoders {sizes} of scikit-learn's 1,797 digits from "
        f"{linear[0].scale:g} times Glorot's weights, all rows in each update; their saddles are "
        "the networks that pass on some of the leading principal components. A chain of 30 layers "
        "of 50 tanh units without shortcuts, a classifier of 1,400 of these digits, from Glorot's "
        "weights unless its name says otherwise; batches of 200 for first-order methods. Single "
        f"precision. Core-seconds, at most {found['seconds']:g}, until {100 * way:g} % of the way "
        "to the known minimum is made; over several seeds, mean (least to largest). First-order "
        "methods keep their rate; all rates tried are shown, and the best of each method is drawn.",
        "",
        format_table(table, markdown=True),
        "",
        picture,
        "",
    ]


def _training(found: dict[str, Any], stem: Path) -> list[str]:
    text = ["## Training networks, by training error", ""]
    for problem, result in found.items():
        text += _network(problem, result, stem)
    return text


def _network(problem: str, found: dict[str, Any], stem: Path) -> list[str]:
    setting, runs = found["setting"], found["runs"]
    figure, panels = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
    unit = "core-seconds" if setting["clock"] == "cpu" else "seconds"
    table = []
    limits = checkpoints(runs)
    for color, (name, run) in zip(COLORS, runs.items(), strict=False):
        for seed, curve in enumerate(run["curves"]):
            for axes, column in zip(panels, (0, 1, 2), strict=True):
                shown = [p for p in curve if column == 0 or p[column] > 0]
                label = name if seed == 0 else None
                places = [p[column] for p in shown]
                axes.plot(places, [p[3] for p in shown], color=color, label=label, lw=1.2)
                axes.plot(places, [p[4] for p in shown], ":", color=color, lw=1)
        ends = [curve[-1] for curve in run["curves"]]
        row: dict[str, Any] = {"method": name}
        for limit in limits:
            row[f"train at {limit:g}"] = spread([reached(c, limit) for c in run["curves"]])
        row["test at the end"] = spread([end[4] for end in ends])
        lowest = [min(curve, key=itemgetter(4)) for curve in run["curves"]]
        row["lowest test"] = spread([point[4] for point in lowest])
        row["reached at"] = f"{sum(point[0] for point in lowest) / len(lowest):.3g}"
        row["epochs"] = f"{ends[0][1]:.0f}"
        row["updates"] = int(ends[0][2])
        row["status"] = f"{run['status']} at {ends[0][0]:.0f}"
        row["settings"] = words(run["settings"]) or "defaults"
        if run["tried"]:
            row["settings"] += (
                " (of: "
                + "; ".join(f"{setting} → {end:.3g}" for setting, end in run["tried"].items())
                + ")"
            )
        table.append(row)
    label = "mean loss" if setting["measure"] == "loss" else "squared error per case"
    panels[0].set(yscale="log", xlabel=unit, ylabel=f"{label} (dotted: test)")
    for axes, title in zip(panels[1:], ("epochs", "updates"), strict=True):
        axes.set(xscale="log", xlabel=title)
    panels[0].legend(fontsize=7)
    picture = save_picture(figure, stem, problem, DPI)
    return [
        f"### {problem}",
        "",
        f"{setting['data']}, {setting['description']}, single precision. Time in {unit}; errors "
        f"are {label}, measured off the clock; over several seeds, mean (least to largest). For "
        "full-batch methods the column of epochs counts gradient equivalents. In parentheses the "
        "settings tried, each for a tenth of the time with a schedule that fits it, and the "
        "training error that they reached. The lowest test error is that of the points of the "
        "curves: what a run would have that stops where rows held out ask for it."
        + (" Started where the tuned Adam above had ended." if "-continued" in problem else ""),
        "",
        format_table(table, markdown=True),
        "",
        picture,
        "",
    ]


def checkpoints(runs: dict[str, Any]) -> list[float]:
    """A quarter, half and all of the time of each length that the runs have."""
    times = {run["seconds"] for run in runs.values()}
    return sorted({part * seconds for seconds in times for part in (0.25, 0.5, 1.0)})


def reached(curve: list[list[float]], limit: float) -> float | None:
    """Training error at a time; None where the run ended before."""
    if curve[-1][0] < 0.95 * limit:
        return None
    before = [point for point in curve if point[0] <= 1.05 * limit]
    return before[-1][3] if before else None


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
