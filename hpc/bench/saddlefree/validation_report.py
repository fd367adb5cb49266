"""Tables and pictures of training judged by rows held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from hpc.bench.pictures import save_picture
from hpc.bench.saddlefree.tables import DPI, spread
from hpc.bench.saddlefree.training import words
from hpc.bench.saddlefree.validation import HELD_OUT, TESTED, TRAINED, best

from thalweg.workbench.report import format_table

COLORS = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]


def is_ours(method: str) -> bool:
    """Whether a method is this project's own."""
    return method.startswith("saddle-free")


def lowest(curves: list[list[list[float]]]) -> list[float]:
    """The lowest validation error of each seed."""
    return [best(curve)[HELD_OUT] for curve in curves]


def target(runs: dict[str, Any]) -> tuple[str, float]:
    """The rival whose mean best validation error is lowest, and the highest of its seeds'.

    Before any rival has run it is a method of ours.
    """
    rivals = [method for method in runs if not is_ours(method)]
    ends = {method: lowest(runs[method]["curves"]) for method in rivals or runs}
    rival = min(ends, key=lambda method: sum(ends[method]) / len(ends[method]))
    return rival, max(ends[rival])


def seconds_to(curve: list[list[float]], error: float) -> float | None:
    """When the validation error was first as low, or None."""
    return next((point[0] for point in curve if point[HELD_OUT] <= error), None)


def times(run: dict[str, Any], error: float) -> str:
    """Seconds of the seeds to a validation error."""
    found = [seconds_to(curve, error) for curve in run["curves"]]
    known = [seconds for seconds in found if seconds is not None]
    if not known:
        return "not reached"
    text = spread(list(known))
    return text if len(known) == len(found) else f"{text}, {len(known)} of {len(found)} seeds"


def write_validation(found: dict[str, Any], stem: Path) -> list[str]:
    """The section of this part, and its picture."""
    text = [
        "## Training networks, judged by rows held out",
        "",
        "Every method starts from the same weights and gets the same core-seconds in single "
        "precision, may stop where the validation error was lowest, and is tuned by validation "
        "error with six trials, each a quarter of the time with a schedule that fits it: first "
        "its main settings, then weight decay with the best of them (decoupled as the method has "
        "it, else half of it times the squared weights in the loss). Ours is shown without any "
        "tuning, too, by its defaults and by settings for rows held out. The target is the "
        "validation error that the best tuned rival reaches with every seed. Errors are measured "
        "off the clock, after some 40 parts of the time; the training error is that of 1,000 "
        "training rows. Several seeds: mean (least to largest).",
        "",
    ]
    figure, panels = plt.subplots(
        1, len(found), figsize=(4.6 * len(found), 4.6), layout="constrained", squeeze=False
    )
    colors: dict[str, Any] = {}
    for axes, (problem, result) in zip(panels[0], found.items(), strict=True):
        text += _table(problem, result)
        for method, run in result["runs"].items():
            color = colors.setdefault(method, COLORS[len(colors) % 10])
            _draw(axes, run["curves"], color, result["setting"]["seconds"])
        axes.axhline(target(result["runs"])[1], color="gray", lw=0.8)
        least = min(min(lowest(run["curves"])) for run in result["runs"].values())
        axes.set(xscale="log", yscale="log", xlabel="core-seconds", title=problem)
        axes.set_ylim(0.9 * least, 8 * least)
    panels[0][0].set_ylabel("lowest validation error so far")
    lines = [plt.Line2D([], [], color=color) for color in colors.values()]
    figure.legend(lines, list(colors), loc="outside lower center", ncols=4, fontsize=7)
    return [*text, save_picture(figure, stem, "validation", DPI), ""]


def _draw(axes: Any, curves: list[list[list[float]]], color: Any, seconds: float) -> None:
    """Mean and range over the seeds of the lowest validation error so far."""
    places = np.geomspace(0.02, 1.0, 60) * seconds
    lines = []
    for curve in curves:
        least = np.fmin.accumulate([point[HELD_OUT] for point in curve])
        last = np.searchsorted([point[0] for point in curve], places, side="right") - 1
        lines.append(least[np.maximum(last, 0)])
    axes.plot(places, np.mean(lines, axis=0), color=color, lw=1.2)
    axes.fill_between(places, np.min(lines, axis=0), np.max(lines, axis=0), color=color, alpha=0.15)


def _table(problem: str, found: dict[str, Any]) -> list[str]:
    setting, runs = found["setting"], found["runs"]
    rival, error = target(runs)
    table = []
    for method, run in runs.items():
        stops = [best(curve) for curve in run["curves"]]
        ends = [curve[-1] for curve in run["curves"]]
        settings = words(run["settings"]) or "defaults"
        if run["tried"]:
            tried = "; ".join(f"{each} → {value:.4g}" for each, value in run["tried"].items())
            settings += f" (of: {tried})"
        table.append(
            {
                "method": method,
                "seconds to the target": times(run, error),
                "best validation": spread([stop[HELD_OUT] for stop in stops]),
                "at": spread([stop[0] for stop in stops]),
                "test there": spread([stop[TESTED] for stop in stops]),
                "train there": spread([stop[TRAINED] for stop in stops]),
                "test at the end": spread([end[TESTED] for end in ends]),
                "updates": int(ends[0][2]),
                "settings": settings,
            }
        )
    kind = "mean loss" if setting["measure"] == "loss" else "squared error per case"
    return [
        f"### {problem}, judged by rows held out",
        "",
        f"{setting['description']}; {setting['seconds']:g} core-seconds, {kind}. The target is "
        f"{error:.4g}, of {rival}.",
        "",
        format_table(table, markdown=True),
        "",
    ]
