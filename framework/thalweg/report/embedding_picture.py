"""The picture of an embedding: its points, colored by label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.parallel import MPI, Layout
from thalweg.parallel.principal import principal_components
from thalweg.report.figures import (
    INK,
    PLAIN,
    class_colors,
    new_figure,
    plain,
    save_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Beyond this many classes a legend would be no help.
_MOST_NAMED = 60
_NAMES_A_COLUMN = 20


def draw_embedding(
    path: Path | str,
    points: np.ndarray,
    labels: np.ndarray | None = None,
    label_names: Sequence[str] | None = None,
    title: str = "",
) -> None:
    """Write a picture of points, colored by label.

    One dimension is drawn as a row for each class, two as a map, three in
    perspective; of more, the two principal axes are shown.  Called on one rank.

    Parameters
    ----------
    path
        File to write; ``.png``, ``.pdf`` or ``.svg``.
    points
        Whole embedding, shape ``(n, d)``.
    labels
        Integers from 0, shape ``(n,)``.
    label_names
        Name of each label; by default its number.
    """
    points = np.asarray(points, dtype=float)
    points = points.reshape(len(points), -1)
    axes_name = ""
    if points.shape[1] > 3:
        layout = Layout(MPI.COMM_SELF, *points.shape)
        points, axes_name = principal_components(points, layout, 2), "principal axis"
    with style():
        if points.shape[1] == 1:
            figure = _draw_line(points[:, 0], labels, label_names, title)
        elif points.shape[1] == 3:
            figure = _draw_space(points, labels, label_names, title)
        else:
            figure = _draw_map(points, labels, label_names, title, axes_name)
        save_figure(figure, path)


def point_size(count: int) -> float:
    """Area of a point, in square points: the more there are, the smaller."""
    return float(np.clip(24000 / max(count, 1), 0.25, 28))


def point_colors(labels: np.ndarray | None, count: int) -> np.ndarray | str:
    """Color of each point, shape ``(count, 3)``, or one for all."""
    if labels is None:
        return PLAIN
    labels = np.asarray(labels)
    return class_colors(int(labels.max(initial=0)) + 1)[labels]


def scatter(axes: Any, points: np.ndarray, labels: np.ndarray | None) -> Any:
    """Points on axes of two dimensions, in an order that hides no class behind another."""
    order = np.random.default_rng(0).permutation(len(points))
    colors = point_colors(labels, len(points))
    shown = points[order]
    many = len(points) > 20000
    return axes.scatter(
        *shown.T,
        c=colors if isinstance(colors, str) else colors[order],
        s=point_size(len(points)),
        linewidths=0,
        alpha=0.6 if many else 0.85,
        rasterized=True,
    )


def _draw_map(
    points: np.ndarray,
    labels: np.ndarray | None,
    names: Sequence[str] | None,
    title: str,
    axes_name: str,
) -> Figure:
    figure = new_figure(7.2, 6.4)
    axes = figure.add_subplot()
    scatter(axes, points, labels)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.03)
    # Positions on a map have no unit: only nearness counts.
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if axes_name:
        axes.set(xlabel=f"first {axes_name}", ylabel=f"second {axes_name}")
    axes.set_title(plain(title))
    _legend(figure, labels, names)
    return figure


def _draw_space(
    points: np.ndarray, labels: np.ndarray | None, names: Sequence[str] | None, title: str
) -> Figure:
    figure = new_figure(7.2, 6.4)
    axes: Any = figure.add_subplot(projection="3d")
    colors = point_colors(labels, len(points))
    axes.scatter(*points.T, c=colors, s=point_size(len(points)), linewidths=0, rasterized=True)
    axes.set_box_aspect(np.maximum(np.ptp(points, axis=0), 1e-12), zoom=1.05)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_ticks([])
        axis.set_pane_color((0.985, 0.985, 0.985, 1.0))
    axes.set_title(plain(title), loc="left")
    _legend(figure, labels, names)
    return figure


def _draw_line(
    values: np.ndarray, labels: np.ndarray | None, names: Sequence[str] | None, title: str
) -> Figure:
    labels_or_zero = np.zeros(len(values), dtype=np.int64) if labels is None else labels
    count = int(labels_or_zero.max(initial=0)) + 1
    figure = new_figure(7.2, 1.3 + 0.32 * min(count, _MOST_NAMED))
    axes = figure.add_subplot()
    scattered = np.random.default_rng(0).uniform(-0.32, 0.32, len(values))
    axes.scatter(
        values,
        labels_or_zero + scattered,
        c=point_colors(labels, len(values)),
        s=np.minimum(point_size(len(values)), 12),
        linewidths=0,
        alpha=0.7,
        rasterized=True,
    )
    axes.set_ylim(count - 0.4, -0.6)
    if labels is None:
        axes.set_yticks([])
    elif count <= _MOST_NAMED:
        axes.set_yticks(range(count), _names(count, names))
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title(plain(title))
    return figure


def _legend(figure: Figure, labels: np.ndarray | None, names: Sequence[str] | None) -> None:
    """Names of the classes beside the points, never over them."""
    from matplotlib.lines import Line2D

    if labels is None or not len(labels):
        return
    count = int(np.max(labels)) + 1
    if (count == 1 and names is None) or count > _MOST_NAMED:
        return
    handles = [
        Line2D([], [], marker="o", linestyle="", markersize=6, color=tuple(color), label=name)
        for color, name in zip(class_colors(count), _names(count, names), strict=True)
    ]
    figure.legend(
        handles=handles,
        loc="outside right center",
        ncols=-(-count // _NAMES_A_COLUMN),
        handletextpad=0.1,
        columnspacing=0.8,
        labelcolor=INK,
    )


def _names(count: int, names: Sequence[str] | None) -> list[str]:
    if names is None:
        return [str(number) for number in range(count)]
    return [plain(name if len(name) <= 24 else name[:22] + "...") for name in names[:count]]
