"""Pictures of methods: their convergence, and one metric of each against another."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.result import Trace
from thalweg.workbench.report.figures import class_colors, new_figure, plain, save_figure, style
from thalweg.workbench.report.tables import Seconds, format_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "os^DvPX*<>"
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.2, 1.2, 1.2)))

#: Ratio of the largest to the smallest value from which a scale is logarithmic.
_WIDE = 12.0

#: Width of a line of small letters, relative to a panel's.
_LETTERS = 0.03


def draw_convergence(
    path: Path | str | None, traces: Mapping[str, Trace], title: str = ""
) -> "Figure":
    """Draw the objective against seconds and evaluations, in two panels; returns the figure.

    Each method has a color and a dash pattern, named below the panels if there
    are several; a dot marks where it ended.
    Scales are logarithmic where the values span more than a decade.  In the stages of
    a homotopy other objectives are minimized than the last; drawn is the last one's
    throughout, where the trace tells it.  The stages are marked where there is one
    method, by bands with the homotopy parameter.  Called on one rank.

    Parameters
    ----------
    path
        File to write: ``.png``, ``.pdf`` or ``.svg``; None for no file.
    traces
        Trace of each method, by its name.
    """
    with style():
        figure = new_figure(10.0, 4.6)
        panels: Any = figure.subplots(1, 2, sharey=True)
        colors = class_colors(len(traces))
        curves = {name: _values(trace) for name, trace in traces.items()}
        for axes, column in zip(panels, ("seconds", "evaluations"), strict=True):
            _draw_panel(axes, column, traces, curves, colors)
        begins = [_earlier(trace) for trace in traces.values()]
        _set_heights(panels[0], list(curves.values()), begins)
        panels[0].set_ylabel("objective")
        if title:
            figure.suptitle(plain(title), x=0.01, ha="left", fontsize=12)
        handles, names = panels[0].get_legend_handles_labels()
        if len(names) > 1:
            columns = min(len(names), 4)
            figure.legend(
                handles, names, loc="outside lower center", ncols=columns, handlelength=2.6
            )
        if path is not None:
            save_figure(figure, path)
    return figure


def _values(trace: Trace) -> np.ndarray:
    """The objective to draw: throughout a homotopy that of its last stage."""
    values = trace["objective" if trace.homotopy_parameter is None else "wanted_objective"]
    values[~np.isfinite(values)] = np.nan
    return values


def _earlier(trace: Trace) -> int:
    """Number of rows before the last stage of a homotopy."""
    if trace.homotopy_parameter is None or not len(trace):
        return 0
    stages = trace[Trace.STAGE]
    return int((stages < stages[-1]).sum())


def _draw_panel(
    axes: Any,
    column: str,
    traces: Mapping[str, Trace],
    curves: Mapping[str, np.ndarray],
    colors: np.ndarray,
) -> None:
    ends = [trace[column][-1] for trace in traces.values() if len(trace)]
    ends = [end for end in ends if end > 0]
    logarithmic = bool(ends) and max(ends) > _WIDE * min(ends)
    smallest = 0.0
    if logarithmic:
        positive = np.concatenate([trace[column][trace[column] > 0] for trace in traces.values()])
        # A run begins at zero, which has no place on a logarithmic scale.
        smallest = max(positive.min(), min(ends) / 1000)
        axes.set_xscale("log")
    for number, (name, trace) in enumerate(traces.items()):
        across = np.maximum(trace[column], smallest)
        axes.plot(
            across,
            curves[name],
            color=colors[number],
            linestyle=_DASHES[number % len(_DASHES)],
            linewidth=1.8,
            label=plain(name),
            zorder=3,
        )
        if len(across):
            axes.plot(across[-1:], curves[name][-1:], "o", color=colors[number], ms=5, zorder=4)
    axes.set_xlabel(column)
    if not logarithmic:
        axes.set_xlim(left=0)
    for trace in traces.values():
        if len(traces) == 1 and _earlier(trace):
            _mark_stages(axes, column, trace)


def _mark_stages(axes: Any, column: str, trace: Trace) -> None:
    """Bands of all stages but the last, with the parameter's values where there is room."""
    stages, across = trace[Trace.STAGE], trace[column]
    parameters = trace[str(trace.homotopy_parameter)]
    begins = np.flatnonzero(np.diff(stages, prepend=-1.0))
    low, high = axes.get_xlim()
    axes.set_xlim(low, high)
    edges = across[begins]
    places = axes.transAxes.inverted().transform(
        axes.transData.transform([(max(edge, low), 0.0) for edge in edges])
    )[:, 0]
    written = -1.0
    for number, begin in enumerate(begins):
        last = number + 1 == len(begins)
        if not last:
            shade = "0.90" if number % 2 else "0.95"
            axes.axvspan(max(edges[number], low), edges[number + 1], color=shade, zorder=0, lw=0)
        if places[number] - written < _LETTERS:
            continue
        written = places[number]
        axes.text(
            written + 0.004,
            0.985,
            f"{trace.homotopy_parameter} = " * last + f"{parameters[begin]:.4g}",
            transform=axes.transAxes,
            rotation=90,
            ha="left",
            va="top",
            color="0.4",
            fontsize=8,
        )


def _set_heights(axes: Any, curves: list[np.ndarray], begins: list[int]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    joined = np.concatenate(curves) if curves else np.empty(0)
    joined = joined[np.isfinite(joined)]
    if not len(joined):
        return
    low, high = joined.min(), joined.max()
    if low > 0 and high > _WIDE * low:
        axes.set_yscale("log")
        if high < 500 * low:  # numbers at the powers of ten alone would be too few
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        return
    # A diverging method must not squeeze all others into a line; stages may begin higher.
    firsts = [
        curve[np.isfinite(curve)][: begin + 1] for curve, begin in zip(curves, begins, strict=True)
    ]
    ordinary = float(np.concatenate(firsts).max())
    room = 0.05 * max(ordinary - low, 1e-12)
    if high > ordinary + 20 * room:
        axes.set_ylim(low - room, ordinary + room)


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
            found = (facts.get(metric) for metric in metrics)
            across, up = (math.nan if value is None else float(value) for value in found)
            values = ", ".join(f"{m} {_short(facts.get(m))}" for m in reversed(metrics))
            label = f"{plain(name)}: {values}, {Seconds(facts['seconds'])} s"
            if facts["status"] != "converged":
                label += f" ({facts['status'].replace('_', ' ')})"
            axes.plot(
                [across], [up], _MARKERS[number % len(_MARKERS)], color=colors[number], label=label,
                ms=8, mew=1.8, mfc="none",
            )  # fmt: skip
        axes.set(xlabel=metrics[0], ylabel=metrics[1])
        axes.margins(0.08)
        if not any(isinstance(facts.get(metrics[1]), float) for facts in methods.values()):
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))  # counts
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save_figure(figure, path)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else format_cell(value)
