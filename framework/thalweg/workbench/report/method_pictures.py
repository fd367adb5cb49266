"""The picture of methods: their convergence."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.result import Trace
from thalweg.workbench.report.figures import class_colors, new_figure, plain, save_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.2, 1.2, 1.2)))

#: Ratio of the largest to the smallest value from which a scale is logarithmic.
_WIDE = 12.0

#: Small letters that stand upright.
_UPRIGHT: Any = {"rotation": 90, "ha": "center", "va": "bottom", "color": "0.4", "fontsize": 8}

#: Width of a line of small letters, relative to a panel's.
_LETTERS = 0.03


def draw_convergence(
    path: Path | str | None, traces: Mapping[str, Trace], title: str = ""
) -> "Figure":
    """Draw the objective against seconds and evaluations, in two panels; returns the figure.

    Each method has a color and a dash pattern, named below the panels if there are several; a dot
    marks where it ended.  Scales are logarithmic where the values span more than a decade.  In a
    homotopy the objective of the last stage is drawn throughout, where the trace tells it, and the
    stages are marked where there is one method.  Called on one rank; ``path`` may be None.
    """
    with style():
        figure = new_figure(10.0, 4.6)
        panels: Any = figure.subplots(1, 2, sharey=True)
        colors = class_colors(len(traces))
        curves = {}
        for name, trace in traces.items():
            column = "objective" if trace.homotopy_parameter is None else "wanted_objective"
            curves[name] = np.where(np.isfinite(trace[column]), trace[column], np.nan)
        for axes, column in zip(panels, ("seconds", "evaluations"), strict=True):
            _draw_panel(axes, column, traces, curves, colors)
        begins = [_earlier(trace) for trace in traces.values()]
        _set_heights(panels[0], list(curves.values()), begins)
        panels[0].set_ylabel("objective")
        if title:
            figure.suptitle(plain(title), x=0.01, ha="left", fontsize=12)
        handles, names = panels[0].get_legend_handles_labels()
        if len(names) > 1:
            count = min(len(names), 4)
            figure.legend(handles, names, loc="outside lower center", ncols=count, handlelength=2.6)
        if path is not None:
            save_figure(figure, path)
    return figure


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
        dashes = _DASHES[number % len(_DASHES)]
        line = {"color": colors[number], "linestyle": dashes, "linewidth": 1.8}
        axes.plot(across, curves[name], label=plain(name), zorder=3, **line)
        if len(across):
            axes.plot(across[-1:], curves[name][-1:], "o", color=colors[number], ms=5, zorder=4)
    axes.set_xlabel(column)
    if not logarithmic:
        axes.set_xlim(left=0)
    for trace in traces.values():
        if len(traces) == 1 and _earlier(trace):
            _mark_stages(axes, column, trace)


def _mark_stages(axes: Any, column: str, trace: Trace) -> None:
    """A line where each stage begins; the parameter's value above the panel, if there is room."""
    begins = np.flatnonzero(np.diff(trace[Trace.STAGE], prepend=-1.0))
    low, high = axes.get_xlim()
    axes.set_xlim(low, high)
    edges = np.maximum(trace[column][begins], low)
    to_axes = axes.transData + axes.transAxes.inverted()
    places = to_axes.transform(np.column_stack([edges, 0.0 * edges]))[:, 0]
    written = -1.0
    for begin, edge, place in zip(begins, edges, places, strict=True):
        axes.axvline(edge, color="0.88", zorder=0, linewidth=1)
        if place - written < _LETTERS:
            continue
        written = place
        name = f"{trace.homotopy_parameter} = " if begin == begins[-1] else ""
        text = f"{name}{trace[str(trace.homotopy_parameter)][begin]:.4g}"
        axes.text(place, 1.01, text, transform=axes.transAxes, **_UPRIGHT)


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
    pairs = zip(curves, begins, strict=True)
    firsts = [curve[np.isfinite(curve)][: begin + 1] for curve, begin in pairs]
    ordinary = float(np.concatenate(firsts).max())
    room = 0.05 * max(ordinary - low, 1e-12)
    if high > ordinary + 20 * room:
        axes.set_ylim(low - room, ordinary + room)
