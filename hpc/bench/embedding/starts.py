"""Where the strategies end from many random starts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
from hpc.bench.embedding.data import Images
from hpc.bench.embedding.pictures import COLORS
from hpc.bench.embedding.strategies import (
    AUTHORS,
    SEARCHED,
    STRATEGIES,
    Note,
    end_of,
    problems,
    run,
)
from hpc.bench.pictures import save_picture

from thalweg.workbench.report import format_table


def measure_starts(
    images: Images,
    count: int,
    seconds: float,
    kinds: tuple[str, ...],
    before: dict[str, Any],
    note: Note,
) -> dict[str, Any]:
    """Final values from random starts, each strategy for the same time from each of them.

    The time is the processor's, so that other programs cost a strategy none of it; the line search
    is that of the paper's authors, where a strategy takes it.  Other problems keep what an earlier
    call with as many starts and seconds found.
    """
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "starts": count,
        "seconds": seconds,
        "search": "of the paper's authors",
        "problems": {},
    }
    if all(before.get(name) == found[name] for name in ("data", "starts", "seconds", "search")):
        found["problems"] = dict(before["problems"])
    for name, objective in problems(images).items():
        if name in kinds:
            for strategy in STRATEGIES:  # compiles kernels, or loads them
                run(objective, strategy, iterations=1)
            finals: dict[str, Any] = {strategy: [] for strategy in STRATEGIES}
            found["problems"][name] = finals
            for seed in range(count):
                for strategy, ends in finals.items():
                    limits = {"seconds": seconds, "decrease": 1e-10, "iterations": 100_000}
                    search = AUTHORS if strategy in SEARCHED else {}
                    with mock.patch("thalweg.driver.loop.run_clock", time.process_time):
                        result = run(objective, strategy, seed=seed, **limits, **search)
                    ends.append(end_of(result))
                note(found)
    return found


def starts_section(found: dict[str, Any], stem: Path) -> list[str]:
    """A table of the final values, and their picture."""
    table = []
    shown = found["problems"]
    figure, panels = plt.subplots(1, len(shown), figsize=(4.4 * len(shown), 3.6), squeeze=False)
    for axes, (problem, strategies) in zip(panels[0], shown.items(), strict=True):
        for place, (strategy, runs) in enumerate(strategies.items()):
            values = np.array([run["objective"] for run in runs])
            axes.plot(np.full(len(values), place), values, ".", color=COLORS[place], alpha=0.6)
            axes.plot(place, np.median(values), "_", color="black", markersize=14)
            table.append(
                {
                    "problem": problem,
                    "strategy": strategy,
                    "best": float(values.min()),
                    "median": float(np.median(values)),
                    "worst": float(values.max()),
                    "median evaluations": int(np.median([run["evaluations"] for run in runs])),
                    "ended by themselves": sum(run["status"] != "TIME_LIMIT" for run in runs),
                }
            )
        axes.set_title(problem)
        axes.set_xticks(range(len(strategies)), list(strategies), rotation=60, fontsize=7)
    panels[0, 0].set_ylabel("final value")
    picture = save_picture(figure, stem, "starts")
    done = min(len(runs) for problem in shown.values() for runs in problem.values())
    return [
        "## Random starts",
        "",
        f"{found['data']}, {found['rows']} points, {done} starts, {found['seconds']:g} s each, "
        f"setting up included, with the line search {found['search']}. The paper gave each 20 s "
        "on a machine of 2012.",
        "",
        format_table(table, markdown=True),
        "",
        picture,
        "",
    ]
