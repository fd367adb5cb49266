"""The elastic embedding followed from a small lambda to a large one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from hpc.bench.embedding.data import Images
from hpc.bench.embedding.pictures import COLORS
from hpc.bench.embedding.strategies import (
    AUTHORS,
    PERPLEXITY,
    STRATEGIES,
    Note,
    end_of,
    problems,
    run,
)
from hpc.bench.pictures import save_picture

import thalweg
from thalweg import HomotopySchedule, Stop
from thalweg.data import Dataset
from thalweg.workbench.report import format_table
from thalweg_embedding.objectives import elastic_embedding

#: Evaluations and seconds printed in the paper, on a machine of 2012.
PAPER: dict[str, tuple[int, int | None]] = {
    "GD": (143_237, 9_291),
    "FP": (26_219, 2_015),
    "DiagH": (26_235, 2_016),
    "SD": (5_183, 402),
    "SD-": (2_775, 703),
    "L-BFGS": (6_816, None),
    "CG": (16_600, None),
}

#: Strategies, and whether with the authors' line search: the quick ones come first.
RUNS = (
    ("SD", True),
    ("SD", False),
    ("L-BFGS + SD", False),
    ("L-BFGS", False),
    ("CG", False),
    ("SD-", True),
    ("SD-", False),
    ("FP", True),
    ("FP", False),
    ("DiagH", False),
    ("GD", False),
    ("DiagH", True),
    ("GD", True),
)

#: Steps in lambda that are compared, shares of the stages and relative errors; last lambdas, and
#: strategies.
STEPS: dict[str, tuple[float, float | None]] = {
    "list": (1.0, None),
    "shorter list": (0.4, None),
    "adaptive, 0.1": (1.0, 0.1),
    "adaptive, 0.3": (1.0, 0.3),
}
LAST = {"EE": 1e2, "s-SNE": 1.0}
SPECTRAL = ("SD", "L-BFGS + SD")

#: Chooses these runs alone, as the name of a strategy does its own.
ADAPTIVE = "adaptive"


def measure_homotopy(
    images: Images,
    stages: int,
    iterations: int,
    seconds: float | None,
    strategies: tuple[str, ...],
    before: dict[str, Any],
    note: Note,
) -> dict[str, Any]:
    """EE along lambda = 1e-4 ... 1e2, each stage to a relative decrease of 1e-6.

    The weights are those of the authors' demo: w- the squared distances, scaled to sum 1.  All
    points then coincide in the minimum of a small lambda; the objective spreads them a little
    whenever a stage begins with a map that has collapsed.  Other strategies than those
    named keep what an earlier call found.
    """
    data = Dataset.from_array(images.values, name=images.name)
    objective = elastic_embedding(
        data, data.comm, perplexity=PERPLEXITY, repulsive_weights="squared-distances", lambda_=1e2
    )
    rule = Stop(iterations=iterations, decrease=1e-6, window=1)
    schedule = HomotopySchedule.logarithmic(1e-4, 1e2, stages, rule)
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "stages": stages,
        "iterations": iterations,
        "strategies": dict(before.get("strategies", {})),
        "adaptive": list(before.get("adaptive", [])),
    }
    for strategy, authors in RUNS:
        if strategies and _label(strategy, authors) not in strategies:
            continue
        objective.homotopy_parameter = 1e2
        result = run(
            objective,
            strategy,
            homotopy=schedule,
            iterations=stages * iterations,
            decrease=1e-6,
            seconds=seconds,
            **(AUTHORS if authors else {}),
        )
        found["strategies"][_label(strategy, authors)] = {
            **end_of(result),
            "by lambda": _by_stage(result),
        }
        note(found)
    if not strategies or ADAPTIVE in strategies:
        found["adaptive"] = _adaptive(images, stages, rule)
        note(found)
    return found


def _adaptive(images: Images, stages: int, rule: Stop) -> list[dict[str, Any]]:
    """Lists of lambda and adaptive steps along them, by the spectral direction."""
    rows = []
    for problem, last in LAST.items():
        objective = problems(images)[problem]
        for strategy in SPECTRAL:
            for steps, (share, error) in STEPS.items():
                count = max(2, round(share * stages))
                schedule = HomotopySchedule.logarithmic(1e-4, last, count, rule, error)
                objective.homotopy_parameter = last
                began = time.process_time()
                rules = {"iterations": stages * rule.iterations, "decrease": 1e-6}
                result = run(objective, strategy, homotopy=schedule, **rules)
                products = 0 if error is None else int(result.trace["tangent_products"][-1])
                rows.append(
                    {
                        "problem": problem,
                        "strategy": strategy,
                        "steps": steps,
                        "values of lambda": len(np.unique(result.trace["lambda"])),
                        "evaluations": result.evaluations,
                        "products": products,
                        "together": result.evaluations + products,
                        "CPU s": round(time.process_time() - began, 1),
                        "final value": result.objective,
                    }
                )
    return rows


def _label(strategy: str, authors: bool) -> str:
    return f"{strategy}, steps shrink" if authors else strategy


def _by_stage(result: thalweg.Result) -> list[tuple[float, int, float, float]]:
    """Lambda, evaluations spent on it, the value reached, and the seconds."""
    trace = result.trace
    lambdas = trace["lambda"]
    last = [*np.flatnonzero(np.diff(lambdas)), len(trace) - 1]
    spent, seconds = (np.diff(trace[name][last], prepend=0) for name in ("evaluations", "seconds"))
    return [
        (float(lambdas[row]), int(count), float(trace["objective"][row]), round(float(took), 4))
        for row, count, took in zip(last, spent, seconds, strict=True)
    ]


#: What is said of the authors' line search.
SEARCH = (
    "Each value of lambda begins with a step of 1, steps only shrink after it, and Armijo's "
    "constant is 0.1. Conjugate gradients and L-BFGS have searches of their own."
)


def homotopy_section(found: dict[str, Any], stem: Path) -> list[str]:
    """The paper's table next to ours, and evaluations and seconds by lambda."""
    runs = found["strategies"]
    figure, panels = plt.subplots(1, 2, figsize=(11, 4))
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for color, strategy in zip(COLORS, STRATEGIES, strict=False):
        for authors in (True, False):
            one = runs.get(_label(strategy, authors))
            if one is None:
                continue
            rows[authors].append(_row(runs, strategy, authors))
            for axes, column in zip(panels, (1, 3), strict=True):
                points = [(stage[0], stage[column]) for stage in one["by lambda"]]
                axes.loglog(*zip(*points, strict=True), "--" if authors else "-", color=color)
            if not authors:
                panels[0].plot([], [], color=color, label=strategy)
    panels[0].plot([], [], "--", color="black", label="steps only shrink")
    for axes, label in zip(panels, ("evaluations", "seconds"), strict=True):
        axes.set(xlabel="lambda", ylabel=label)
    panels[0].legend(fontsize=7)
    stopped = [
        f"{label} ({one['seconds']:.0f} s, lambda {one['by lambda'][-1][0]:.2g})"
        for label, one in runs.items()
        if one["status"] == "TIME_LIMIT"
    ]
    capped = (
        "Runs that were cut short, marked by a + after their evaluations: "
        + "; ".join(stopped)
        + ". Their counts, and what these are compared with, are lower bounds. "
        if stopped
        else ""
    )
    return [
        "## Homotopy of the elastic embedding",
        "",
        f"{found['data']}, {found['rows']} points, w- the squared distances scaled to sum 1, "
        f"{found['stages']} values of lambda from 1e-4 to 1e2, each to a relative decrease of "
        f"1e-6 or {found['iterations']:,} iterations. {capped}Strategies that stop sooner at a "
        "stage may stop higher: compare final values as well. The paper's seconds were measured in "
        "2012.",
        "",
        "### With the line search of the paper's authors",
        "",
        SEARCH,
        "",
        format_table(rows[True], markdown=True),
        "",
        "### With this project's line search",
        "",
        "Steps may grow again, and a step that mirrors the iterate is shortened: this helps "
        "gradient descent most. *Than GD as in the paper* compares with the first table's GD.",
        "",
        format_table(rows[False], markdown=True),
        "",
        save_picture(figure, stem, "homotopy"),
        "",
        *(_adaptive_section(found["adaptive"]) if found.get("adaptive") else []),
    ]


def _adaptive_section(rows: list[dict[str, Any]]) -> list[str]:
    return [
        "### Adaptive steps",
        "",
        "Steps along the list by the error of a tangent (`[homotopy] error`, as the [driver]"
        "(../../framework/thalweg/driver/README.md) tells), this project's line search, s-SNE up "
        "to lambda = 1. The shorter list has 0.4 times as many values. A Hessian product takes "
        "about as long as two evaluations. Seconds are those of the processor, beside other "
        "programs.",
        "",
        format_table(rows, markdown=True),
        "",
    ]


def _row(runs: dict[str, Any], strategy: str, authors: bool) -> dict[str, Any]:
    one = runs[_label(strategy, authors)]
    spent = one["evaluations"]
    row = {
        "strategy": strategy,
        "evaluations": f"{spent:,}" + ("+" if one["status"] == "TIME_LIMIT" else ""),
        "times fewer than GD": _ratio(runs.get(_label("GD", authors)), spent),
        "seconds": round(one["seconds"], 1),
        "final value": one["objective"],
    }
    if not authors:
        row["than GD as in the paper"] = _ratio(runs.get(_label("GD", True)), spent)
        return row
    evaluations, seconds = PAPER[strategy]
    return {
        **row,
        "paper: evaluations": evaluations,
        "paper: times fewer": round(PAPER["GD"][0] / evaluations, 1),
        "paper: seconds": seconds,
    }


def _ratio(gd: dict[str, Any] | None, evaluations: int) -> float | None:
    return None if gd is None else round(gd["evaluations"] / evaluations, 1)
