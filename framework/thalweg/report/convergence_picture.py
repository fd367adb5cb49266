"""The picture of convergence: the objective against seconds and against evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.report.figures import class_colors, new_figure, plain, save_figure, style
from thalweg.result import Trace

_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.2, 1.2, 1.2)))

#: Ratio of the largest to the smallest value from which a scale is logarithmic.
_WIDE = 12.0


def draw_convergence(
    path: Path | str,
    traces: Mapping[str, Trace],
    title: str = "",
    best: float | None = None,
    objective: str = "objective",
    parameter: str = "lambda",
) -> None:
    """Write two panels side by side: the objective against seconds and evaluations.

    Each method has a color and a dash pattern, named below the panels if there
    are several; a dot marks where it ended.
    Scales are logarithmic where the values span more than a decade.  In the stages of
    a homotopy but the last, other objectives are minimized: they leave a gap, shaded
    where there is one method.  Called on one rank.

    Parameters
    ----------
    traces
        Trace of each method, by its name.
    best
        If given, what is drawn is the objective less this value.
    objective
        Label of the vertical axis.
    parameter
        Column of the traces that holds the homotopy parameter, if there is one.
    """
    with style():
        figure = new_figure(10.0, 4.6)
        panels: Any = figure.subplots(1, 2, sharey=True)
        colors = class_colors(len(traces))
        begins = {name: _last_stage(trace, parameter) for name, trace in traces.items()}
        curves = {name: _values(trace, best, begins[name]) for name, trace in traces.items()}
        for axes, column in zip(panels, ("seconds", "evaluations"), strict=True):
            _draw_panel(axes, column, traces, curves, colors)
            for name, trace in traces.items():
                if begins[name] > 0 and len(traces) == 1:
                    _shade_stages(axes, trace[column][begins[name]])
        _set_heights(panels[0], list(curves.values()), best is not None)
        panels[0].set_ylabel(objective if best is None else f"{objective} above the best")
        if title:
            figure.suptitle(plain(title), x=0.01, ha="left", fontsize=12)
        handles, names = panels[0].get_legend_handles_labels()
        if len(names) > 1:
            figure.legend(
                handles,
                names,
                loc="outside lower center",
                ncols=min(len(names), 4),
                handlelength=2.6,
            )
        save_figure(figure, path)


def _last_stage(trace: Trace, parameter: str) -> int:
    """Row at which the last stage of a homotopy begins; 0 without stages."""
    if parameter not in trace.columns or not len(trace):
        return 0
    values = trace[parameter]
    others = np.flatnonzero(values != values[-1])
    return int(others[-1]) + 1 if len(others) else 0


def _values(trace: Trace, best: float | None, begin: int) -> np.ndarray:
    """Values of a trace to draw, from the row ``begin`` on."""
    values = trace["objective"].copy()
    values[:begin] = np.nan
    if best is not None:
        values -= best
    values[~np.isfinite(values)] = np.nan
    return values


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


def _shade_stages(axes: Any, end: float) -> None:
    axes.axvspan(0.0, end, color="0.93", zorder=0)
    place = {"transform": axes.transAxes, "va": "top", "color": "0.4", "fontsize": 9}
    axes.text(0.02, 0.98, "earlier stages", **place)


def _set_heights(axes: Any, curves: list[np.ndarray], above_best: bool) -> None:
    joined = np.concatenate(curves) if curves else np.empty(0)
    joined = joined[np.isfinite(joined)]
    if above_best:
        joined = joined[joined > 0]
    if not len(joined):
        return
    low, high = joined.min(), joined.max()
    if low > 0 and (high > _WIDE * low or above_best):
        axes.set_yscale("log")
        if high < 500 * low:
            _label_between_powers(axes)
        return
    # A diverging method must not squeeze all others into a line.
    firsts = [curve[np.isfinite(curve)][:1] for curve in curves]
    ordinary = float(np.concatenate(firsts).max())
    room = 0.05 * max(ordinary - low, 1e-12)
    if high > ordinary + 20 * room:
        axes.set_ylim(low - room, ordinary + room)


def _label_between_powers(axes: Any) -> None:
    """Numbers at 1, 2 and 5 times the powers of ten, where these alone would be too few."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
