"""The picture of a comparison: one metric of each method against another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thalweg.workbench.report.figures import class_colors, new_figure, plain, save_figure, style
from thalweg.workbench.report.tables import Seconds, format_cell

_MARKERS = "os^DvPX*<>"


def draw_comparison(
    path: Path | str, methods: Mapping[str, Mapping[str, Any]], metrics: tuple[str, str]
) -> None:
    """Write a picture with a mark for each method; the legend has its values and time.

    Called on one rank.

    Parameters
    ----------
    methods
        By the name of each method its metrics, ``"seconds"``, and ``"status"`` in small letters.
        A method that lacks one of the two metrics has no mark.
    metrics
        Names of the horizontal and of the vertical metric.
    """
    from matplotlib.ticker import MaxNLocator

    with style():
        figure = new_figure(9.0, 4.2)
        axes = figure.subplots()
        colors = class_colors(len(methods))
        for number, (name, facts) in enumerate(methods.items()):
            across, up = (_number(facts.get(metric)) for metric in metrics)
            values = ", ".join(f"{m} {_short(facts.get(m))}" for m in reversed(metrics))
            label = f"{plain(name)}: {values}, {Seconds(facts['seconds'])} s"
            if facts["status"] != "converged":
                label += f" ({facts['status'].replace('_', ' ')})"
            marker = _MARKERS[number % len(_MARKERS)]
            looks: dict[str, Any] = {
                "marker": marker,
                "ms": 8,
                "mew": 1.8,
                "mfc": "none",
                "ls": "none",
            }
            axes.plot([across], [up], color=colors[number], label=label, **looks)
        axes.set_xlabel(metrics[0])
        axes.set_ylabel(metrics[1])
        axes.margins(0.08)
        if not any(isinstance(facts.get(metrics[1]), float) for facts in methods.values()):
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))  # counts
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save_figure(figure, path)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else format_cell(value)
