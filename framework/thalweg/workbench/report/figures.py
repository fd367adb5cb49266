"""The style of all pictures: figures without a display or pyplot's global state, and colors."""

import colorsys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.errors import InputError, printable, reason
from thalweg.files import atomic_write
from thalweg.lazy import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Color of points without labels.
PLAIN = "#35618f"

INK = "#222222"

#: Up to ten classes: strong, of similar weight, distinct in print as well.
_TEN = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
    "#8c564b", "#e377c2", "#4d4d4d", "#bcbd22", "#17becf",
)  # fmt: skip

_STYLE = str(Path(__file__).with_name("thalweg.mplstyle"))


@contextmanager
def style() -> Iterator[None]:
    """The style that all pictures share."""
    try:
        matplotlib = extra("matplotlib", "pictures", "drawing")
    except ValueError as error:  # MPLBACKEND has a value that it does not know
        raise InputError(f"matplotlib cannot be loaded: {reason(error)}") from error

    with matplotlib.rc_context(fname=_STYLE):
        yield


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of that size in inches, on the canvas that writes pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def class_count(labels: np.ndarray, points: int) -> int:
    """Number of classes; refused if the labels are not an integer from 0 for each point."""
    labels = np.asarray(labels)
    integers = labels.shape == (points,) and (labels.dtype.kind in "iu" or not points)
    if not integers or labels.min(initial=0) < 0:
        raise InputError(f"labels must be integers of at least 0, one for each of {points} points")
    return int(labels.max(initial=-1)) + 1


def plain(text: str) -> str:
    """A text of the user's, in which a dollar sign begins no formula."""
    return printable(text).replace("$", r"\$")


#: Among the first bytes of each picture and page; a file without it is not thalweg's.
ORIGIN = "drawn by thalweg"


def save_figure(figure: "Figure", path: Path | str, **options: Any) -> None:
    """Write a figure aside, then give it its name; the ending determines the format."""
    with atomic_write(path) as temporary:
        if temporary.suffix == ".png":
            options["metadata"] = {"Software": ORIGIN}
        figure.savefig(temporary, **options)


def class_colors(count: int) -> np.ndarray:
    """Colors for ``count`` classes, shape ``(count, 3)``, between 0 and 1.

    Beyond ten, hues go around the circle while lightness alternates, so that
    neighbors on the circle differ in lightness.
    """
    if count <= len(_TEN):
        return np.array([tuple(bytes.fromhex(code[1:])) for code in _TEN])[:count] / 255
    saturations, values = np.resize([0.75, 0.85, 0.5], count), np.resize([0.85, 0.6, 0.95], count)
    return np.array([*map(colorsys.hsv_to_rgb, np.arange(count) / count, saturations, values)])
