"""An optimization as a moving picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from thalweg.files import atomic_write
from thalweg.workbench.report.embedding_picture import scatter
from thalweg.workbench.report.figures import ORIGIN, new_figure, plain, style

if TYPE_CHECKING:
    from PIL import Image


#: How long a frame is shown; the last one stays for two seconds.
MILLISECONDS = 83


def draw_animation(
    path: Path | str,
    frames: Sequence[np.ndarray],
    labels: np.ndarray | None = None,
    captions: Sequence[str] | None = None,
) -> None:
    """Write a GIF of successive embeddings.  Called on one rank.

    The window follows the map as it grows, and never shrinks, so that the eye
    sees the points move and not the axes.

    Parameters
    ----------
    frames
        Embeddings, each of shape ``(n, 2)``; of more dimensions the first two are drawn,
        and a single one along a line.
    captions
        A line of text for each frame.
    """
    from PIL import Image

    if not frames:
        raise ValueError("an animation needs at least one frame")
    pictures = []
    reach = 0.0
    with style():
        for number, frame in enumerate(frames):
            points = _in_the_plane(frame)
            middle = (points.min(axis=0) + points.max(axis=0)) / 2
            reach = max(reach, float(np.abs(points - middle).max(initial=0.0)) * 1.06, 1e-12)
            figure = new_figure(4.6, 4.8)
            axes = figure.add_subplot()
            scatter(axes, points, labels)
            axes.set(xticks=[], yticks=[], aspect="equal")
            axes.set(
                xlim=(middle[0] - reach, middle[0] + reach),
                ylim=(middle[1] - reach, middle[1] + reach),
            )
            for spine in axes.spines.values():
                spine.set_visible(False)
            axes.set_title(plain(captions[number]) if captions is not None else "", fontsize=9)
            figure.set_dpi(110)
            canvas = figure.canvas
            canvas.draw()
            pixels = np.asarray(canvas.buffer_rgba())[:, :, :3]  # type: ignore[attr-defined]
            pictures.append(Image.fromarray(np.ascontiguousarray(pixels)))
    pictures = _with_one_palette(pictures)
    with atomic_write(path) as temporary:
        pictures[0].save(
            temporary,
            save_all=True,
            append_images=pictures[1:],
            duration=[MILLISECONDS] * (len(pictures) - 1) + [2000],
            loop=0,
            comment=ORIGIN.encode(),
            format="GIF",
        )


def _in_the_plane(frame: np.ndarray) -> np.ndarray:
    points = np.asarray(frame, dtype=float)[:, :2]
    return points if points.shape[1] == 2 else np.pad(points, ((0, 0), (0, 1)))


def _with_one_palette(pictures: list[Image.Image]) -> list[Image.Image]:
    """The frames in the same 128 colors: colors that flicker would look like motion."""
    from PIL import Image

    width, height = pictures[0].size
    strip = Image.new("RGB", (width, height * len(pictures)))
    for number, picture in enumerate(pictures):
        strip.paste(picture, (0, number * height))
    strip = strip.quantize(128)
    return [
        strip.crop((0, number * height, width, (number + 1) * height))
        for number in range(len(pictures))
    ]
