"""The picture of an embedding: its points, colored by label; and of its making, in motion."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.files import atomic_write
from thalweg.lazy import extra
from thalweg.numerics.principal import principal_components
from thalweg.parallel import MPI, Layout
from thalweg.workbench.report.figures import (
    INK,
    ORIGIN,
    PLAIN,
    class_colors,
    class_count,
    new_figure,
    plain,
    save_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Largest number of classes for which there is a legend.
_MAX_NAMED = 60
_NAMES_A_COLUMN = 20

#: Largest number of classes whose names are written on a map.
_MAX_ON_MAP = 20

#: Beyond this many points a map is shaded by density, in so many pixels along a side.
SHADED, PIXELS = 20_000, 900

#: Color of what explains a map.
FADED = "#555555"

#: How long a frame of an animation is shown; the last one stays for two seconds.
MILLISECONDS = 83


def draw_embedding(
    path: Path | str | None,
    points: np.ndarray,
    labels: np.ndarray | None = None,
    label_names: Sequence[str] | None = None,
    title: str = "",
    caption: str = "",
) -> "Figure":
    """Write a picture of points, colored by label, and return it as a figure of matplotlib.

    One dimension is drawn as a row for each class, two as a map, three in perspective; of more, the
    two principal axes are shown.  Maps of many points are shaded by density, and names of up to 20
    classes stand on the map.  Called on one rank.

    Parameters
    ----------
    path
        File to write: ``.png``, ``.pdf`` or ``.svg``; None for no file.
    points
        Whole embedding, shape ``(n, d)``.
    labels
        Integers from 0, shape ``(n,)``.
    label_names
        Name of each label; by default its number.
    title, caption
        Lines above the picture and, of a map, below it.
    """
    points = np.asarray(points, dtype=float)
    points = points.reshape(len(points), -1)
    dimensions = points.shape[1]
    if dimensions > 3:
        points = principal_components(points, Layout(MPI.COMM_SELF, *points.shape), 2)
    count = 0 if labels is None else class_count(labels, len(points))
    names = [str(number) for number in range(count)]
    if label_names is not None:
        short = (name if len(name) <= 24 else name[:22] + "..." for name in label_names[:count])
        names = [plain(name) for name in short]
    if dimensions == 1:  # scattered about a line for each class
        beside = np.random.default_rng(0).uniform(-0.32, 0.32, len(points))
        beside -= 0 if labels is None else np.asarray(labels)
        width = points.max(initial=0.0) - points.min(initial=0.0)
        points = np.column_stack([points, 0.5 * width / max(len(names), 1) * beside])
    with style():
        figure = new_figure(7.2, 6.4)
        axes: Any = figure.add_subplot(projection="3d" if dimensions == 3 else None)
        if dimensions == 3:
            sizes = {"s": point_size(len(points)), "linewidths": 0, "rasterized": True}
            axes.scatter(*points.T, c=point_colors(labels), **sizes)
            axes.set_box_aspect(np.maximum(np.ptp(points, axis=0), 1e-12), zoom=1.05)
            for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
                axis.set_ticks([])
                axis.set_pane_color((0.985, 0.985, 0.985, 1.0))
        else:
            _draw_map(axes, points, labels, caption)
        axes.set_title(plain(title), loc="left")
        if dimensions != 3 and 1 < len(names) <= _MAX_ON_MAP:
            _name_classes(axes, points, np.asarray(labels), names)
        elif (1 if label_names else 2) <= len(names) <= _MAX_NAMED:
            _add_legend(figure, names)
        if path is not None:
            save_figure(figure, path)
    return figure


def point_size(count: int) -> float:
    """Area of a point, in square points: the more there are, the smaller."""
    return float(np.clip(24000 / max(count, 1), 0.25, 28))


def point_colors(labels: np.ndarray | None) -> np.ndarray:
    """Color of each point, shape ``(n, 3)``, or one for all, shape ``(1, 3)``."""
    if labels is None:
        from matplotlib.colors import to_rgb

        return np.array([to_rgb(PLAIN)])
    labels = np.asarray(labels)
    return class_colors(int(labels.max(initial=0)) + 1)[labels]


def scatter(axes: Any, points: np.ndarray, labels: np.ndarray | None) -> Any:
    """Points on axes of two dimensions, in an order that hides no class behind another."""
    order = np.random.default_rng(0).permutation(len(points))
    colors = point_colors(labels)
    return axes.scatter(
        *points[order].T, c=colors if labels is None else colors[order], s=point_size(len(points)),
        linewidths=0, alpha=0.6 if len(points) > 20000 else 0.85, rasterized=True,
    )  # fmt: skip


def _draw_map(axes: Any, points: np.ndarray, labels: np.ndarray | None, caption: str) -> None:
    if len(points) > SHADED:
        _shade(axes, points, labels)
    else:
        scatter(axes, points, labels)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.03)
    axes.grid(False)
    _hide_positions(axes)
    if caption:
        axes.text(0, -0.01, plain(caption), transform=axes.transAxes, va="top", color=FADED)


def _hide_positions(axes: Any) -> None:
    """Only nearness counts."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _shade(axes: Any, points: np.ndarray, labels: np.ndarray | None) -> None:
    """Points as a raster: the mean color of a pixel's points, darker the more there are."""
    low, high = points.min(axis=0), points.max(axis=0)
    side = max(float((high - low).max()), 1e-12)
    middle = 0.5 * (low + high)
    across, up = np.rint(((points - middle) / side + 0.5) * (PIXELS - 1)).astype(np.int64).T
    pixels = up * PIXELS + across
    counts = np.bincount(pixels, minlength=PIXELS**2)
    drawn = np.zeros((PIXELS**2, 4))
    colors = np.broadcast_to(point_colors(labels), (len(points), 3))
    for channel in range(3):
        sums = np.bincount(pixels, weights=colors[:, channel], minlength=PIXELS**2)
        drawn[:, channel] = sums / np.maximum(counts, 1)
    most = np.log1p(np.quantile(counts[counts > 0], 0.99))
    drawn[:, 3] = np.where(counts > 0, np.minimum(1.0, 0.35 + 0.65 * np.log1p(counts) / most), 0.0)
    box = [middle[0] - side / 2, middle[0] + side / 2, middle[1] - side / 2, middle[1] + side / 2]
    axes.imshow(drawn.reshape(PIXELS, PIXELS, 4), origin="lower", extent=box)


def _name_classes(axes: Any, points: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> None:
    """The name of each class at the point of it that has the least median distance to others."""
    from matplotlib.patheffects import withStroke

    generator = np.random.default_rng(0)
    for label, (name, color) in enumerate(zip(names, class_colors(len(names)), strict=True)):
        members = points[labels == label]
        if not len(members):
            continue
        some = members[generator.permutation(len(members))[:300]]
        apart = np.linalg.norm(some[:, None] - some, axis=2)
        axes.annotate(
            name, some[np.median(apart, axis=1).argmin()], ha="center", va="center", fontsize=11,
            fontweight="bold", color=tuple(0.6 * color),
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )  # fmt: skip


def _add_legend(figure: Any, names: Sequence[str]) -> None:
    """Names of the classes beside the points, never over them."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", linestyle="", markersize=6, color=tuple(color), label=name)
        for color, name in zip(class_colors(len(names)), names, strict=True)
    ]
    figure.legend(
        handles=handles, loc="outside right center", ncols=-(-len(names) // _NAMES_A_COLUMN),
        handletextpad=0.1, columnspacing=0.8, labelcolor=INK,
    )  # fmt: skip


def draw_animation(
    path: Path | str,
    frames: Sequence[np.ndarray],
    labels: np.ndarray | None = None,
    captions: Sequence[str] | None = None,
) -> None:
    """Write a GIF of successive embeddings, each with a line of text.  Called on one rank.

    Of more than two dimensions the first two are drawn, and a single one along a line.  The window
    follows the map as it grows, and never shrinks: the eye sees the points move and not the axes.
    """
    if not frames:
        raise ValueError("an animation needs at least one frame")
    Image = extra("PIL.Image", "pictures", "an animation")
    pictures, reach = [], 0.0
    with style():
        for number, frame in enumerate(frames):
            points = np.asarray(frame, dtype=float)[:, :2]
            points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
            middle = (points.min(axis=0) + points.max(axis=0)) / 2
            reach = max(reach, float(np.abs(points - middle).max(initial=0.0)) * 1.06, 1e-12)
            figure = new_figure(4.6, 4.8)
            axes = figure.add_subplot()
            scatter(axes, points, labels)
            _hide_positions(axes)
            low, high = middle - reach, middle + reach
            axes.set(aspect="equal", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
            axes.set_title(plain(captions[number]) if captions is not None else "", fontsize=9)
            figure.set_dpi(110)
            canvas: Any = figure.canvas
            canvas.draw()
            pixels = np.asarray(canvas.buffer_rgba())[:, :, :3]
            pictures.append(Image.fromarray(np.ascontiguousarray(pixels)))
    # The frames in the same 128 colors: colors that flicker would look like motion.
    width, height = pictures[0].size
    strip = Image.new("RGB", (width, height * len(pictures)))
    tops = range(0, height * len(pictures), height)
    for top, picture in zip(tops, pictures, strict=True):
        strip.paste(picture, (0, top))
    strip = strip.quantize(128)
    pictures = [strip.crop((0, top, width, top + height)) for top in tops]
    with atomic_write(path) as temporary:
        pictures[0].save(
            temporary, save_all=True, append_images=pictures[1:], loop=0, comment=ORIGIN.encode(),
            format="GIF", duration=[MILLISECONDS] * (len(pictures) - 1) + [2000],
        )  # fmt: skip
