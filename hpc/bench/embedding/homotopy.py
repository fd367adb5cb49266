"""The elastic embedding followed from a small lambda to a large one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from hpc.bench.embedding.data import Images
from hpc.bench.embedding.pictures import COLOURS, save
from hpc.bench.embedding.strategies import PERPLEXITY, STRATEGIES, Note, end_of, run

import thalweg
from thalweg import HomotopySchedule, Stop
from thalweg.data import Dataset
from thalweg.report import format_table
from thalweg_embedding.objectives import elastic_embedding

#: Evaluations and seconds printed in the paper, on a machine of 2012.
PAPER = {
    "GD": (143_237, 9_291),
    "FP": (26_219, 2_015),
    "DiagH": (26_235, 2_016),
    "SD": (5_183, 402),
    "SD-": (2_775, 703),
    "L-BFGS": (6_816, None),
    "CG": (16_600, None),
}

#: What an interruption leaves should say most.
ORDER = ("SD", "L-BFGS + SD", "GD", "L-BFGS", "CG", "FP", "DiagH", "SD-")


def measure_homotopy(images: Images, stages: int, iterations: int, note: Note) -> dict[str, Any]:
    """EE along lambda = 1e-4 ... 1e2, each stage to a relative decrease of 1e-6.

    Here w- = 1.  Were the repulsive weights scaled to sum 1, all points would coincide in
    the minimum of every lambda below about 0.1, and half of the stages would be empty.
    """
    data = Dataset.from_array(images.values, name=images.name)
    objective = elastic_embedding(
        data, data.comm, perplexity=PERPLEXITY, repulsive_weights="one", **{"lambda": 1e2}
    )
    rule = Stop(iterations=iterations, decrease=1e-6)
    schedule = HomotopySchedule.logarithmic(1e-4, 1e2, stages, rule)
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "stages": stages,
        "iterations": iterations,
        "strategies": {},
    }
    for strategy in ORDER:
        objective.homotopy = 1e2
        result = run(
            objective, strategy, homotopy=schedule, iterations=stages * iterations, decrease=1e-6
        )
        found["strategies"][strategy] = {**end_of(result), "by lambda": _by_stage(result)}
        note(found)
    objective.destroy()
    return found


def _by_stage(result: thalweg.Result) -> list[tuple[float, int, float]]:
    """Lambda, evaluations spent on it, and the value reached."""
    trace = result.trace
    strengths, evaluations = trace["lambda"], trace["evaluations"]
    last = [*np.flatnonzero(np.diff(strengths)), len(trace) - 1]
    spent = np.diff(evaluations[last], prepend=0)
    return [
        (float(strengths[row]), int(count), float(trace["objective"][row]))
        for row, count in zip(last, spent, strict=True)
    ]


def homotopy_section(found: dict[str, Any], stem: Path) -> list[str]:
    """The paper's table next to ours, and evaluations by lambda."""
    runs = found["strategies"]
    figure, axes = plt.subplots(figsize=(6.5, 4))
    table = []
    for colour, strategy in zip(COLOURS, STRATEGIES, strict=False):
        if strategy not in runs:
            continue
        one = runs[strategy]
        evaluations, seconds = PAPER.get(strategy, (None, None))
        table.append(
            {
                "strategy": strategy,
                "evaluations": one["evaluations"],
                "times fewer than GD": _ratio(runs.get("GD"), one["evaluations"]),
                "seconds": round(one["seconds"], 1),
                "final value": one["objective"],
                "paper: evaluations": evaluations,
                "paper: times fewer": evaluations and round(PAPER["GD"][0] / evaluations, 1),
                "paper: seconds": seconds,
            }
        )
        strengths, spent, _ = zip(*one["by lambda"], strict=True)
        axes.loglog(strengths, spent, color=colour, label=strategy)
    axes.set(xlabel="lambda", ylabel="evaluations")
    axes.legend(fontsize=7)
    return [
        "## Homotopy of the elastic embedding",
        "",
        f"{found['data']}, {found['rows']} points, w- = 1, {found['stages']} values of lambda from "
        f"1e-4 to 1e2, each to a relative decrease of 1e-6 or {found['iterations']:,} iterations. "
        "Strategies that stop sooner at a stage may stop higher: compare final values as well. The "
        "paper's seconds were measured in 2012; its steps only shrink within a stage, ours grow "
        "again, which helps gradient descent most.",
        "",
        format_table(table, markdown=True),
        "",
        save(figure, stem, "homotopy"),
        "",
    ]


def _ratio(gd: dict[str, Any] | None, evaluations: int) -> float | None:
    return None if gd is None else round(gd["evaluations"] / evaluations, 1)
