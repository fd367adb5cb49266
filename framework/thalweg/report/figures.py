"""Figures drawn without a display, and without pyplot's global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.files import atomic_write
from thalweg.report.colours import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#ececec",
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "savefig.dpi": 160,
}


@contextmanager
def style() -> Iterator[None]:
    """The look that all pictures share."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, on the canvas that writes pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain(text: str) -> str:
    """A text of the user's, in which a dollar sign begins no formula."""
    return text.replace("$", r"\$")


def save_figure(figure: Figure, path: Path | str, **options: Any) -> None:
    """Write a figure aside, then give it its name; the ending tells the format."""
    with atomic_write(path) as aside:
        figure.savefig(aside, **options)
