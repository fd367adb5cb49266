"""A map as one page of HTML that needs no network: pan, zoom, and what lies under the pointer."""

import base64
import html
import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError, printable
from thalweg.files import atomic_write
from thalweg.lazy import extra
from thalweg.workbench.report.figures import class_colors, class_count
from thalweg.workbench.strict_json import as_json

#: Side of a sheet of thumbnails, in pixels, and bytes that those of a page may have unpacked.
SHEET_SIDE, MAX_BYTES = 4096, 2**26

#: Largest coordinate, which leaves room for squares in single precision.
LARGEST = 1e15

#: Longest side of a thumbnail as it is stored, in pixels.
MAX_PIXELS = 64


def write_map_page(
    path: Path | str,
    points: np.ndarray,
    labels: np.ndarray | None = None,
    label_names: Sequence[str] | None = None,
    title: str = "",
    caption: str = "",
    thumbnails: np.ndarray | None = None,
    measures: Mapping[str, np.ndarray] | None = None,
    labelings: Mapping[str, tuple[np.ndarray, Sequence[str] | None]] | None = None,
    stops: Mapping[str, np.ndarray] | None = None,
    rows: np.ndarray | None = None,
) -> None:
    """Write a map of two dimensions as a page, or several of the same points.  Called on one rank.

    Dense places are shaded by density, up to a million points and more.  Classes are switched on
    and off in the legend; the pointer shows the row, the class and the picture of the nearest
    point.

    Parameters
    ----------
    path
        File to write.
    points
        Whole map, shape ``(n, 2)``; that of the ``stops`` which is shown first.
    labels
        Integers from 0, shape ``(n,)``.
    label_names
        Name of each label; by default its number.
    title, caption
        Lines at the top and at the bottom.
    thumbnails
        A picture of each point, shape ``(n, height, width)`` or ``(n, height, width, channels)``
        with 1, 3 or 4 of them, numbers of any range.  They are left out, and the caption says so,
        where they would take more than 64 MiB.
    measures
        Numbers of each point, shape ``(n,)``, by what they say; the page offers to color by each.
    labelings
        Further labels by their names, each with names of its classes or None; -1 is no class.
    stops
        Maps by their names, each of shape ``(n, 2)``, between which a slider moves the points.
        They are shown in one size, turned onto one another; the scale is that of each map.
    rows
        Number of each point in its source, shape ``(n,)``; by default those in the map.

    Raises
    ------
    InputError
        A map of another shape or not finite, labels, pictures or measures that do not fit.
    """
    maps = {"": np.asarray(points, dtype=float)}
    maps |= {name: np.asarray(places, dtype=float) for name, places in (stops or {}).items()}
    points = maps[""]
    for places in maps.values():
        if places.ndim != 2 or places.shape[1] != 2 or not np.isfinite(places).all():
            raise InputError(f"a page shows finite maps of shape (n, 2), not of {places.shape}")
        if np.abs(places).max(initial=0.0) > LARGEST:
            raise InputError(f"a page shows coordinates of at most {LARGEST:g}; scale the map")
    layers = {name: np.asarray(rows, dtype=float) for name, rows in (measures or {}).items()}
    classes = {name: (np.asarray(rows), names) for name, (rows, names) in (labelings or {}).items()}
    own = [("labels", labels), ("thumbnails", thumbnails), ("rows", rows), *layers.items()]
    own += [*(stops or {}).items(), *((name, codes) for name, (codes, _) in classes.items())]
    for what, some in own:
        if some is not None and len(some) != len(points):
            raise InputError(f"there are {len(some)} {what} for {len(points)} points")
    title, caption = printable(title), printable(caption)
    center = 0.5 * (points.max(axis=0) + points.min(axis=0)) if len(points) else np.zeros(2)
    facts: dict[str, Any] = {
        "title": title,
        "count": len(points),
        "center": center.tolist(),
        "places": "" if stops and len(points) else _encoded(points - center, "<f4"),
        "rows": None if rows is None else _encoded(rows, "<u4"),
    }
    if len(points):
        facts["stops"] = [_stop(name, maps[name], points) for name in stops or {}]
        facts["layers"] = [_layer(name, rows) for name, rows in layers.items()]
        facts["labelings"] = [
            {"name": printable(name), **_classes(rows, names, True)}
            for name, (rows, names) in classes.items()
        ]
    if labels is not None and len(labels):
        facts |= _classes(np.asarray(labels), label_names)
    if thumbnails is not None and len(points):
        pictures = _thinned(np.asarray(thumbnails))
        if pictures.size > MAX_BYTES:
            caption += " · pictures left out: too many"
        else:
            facts["pictures"] = _sheets(pictures)
    facts["caption"] = caption
    page = Path(__file__).with_suffix(".html").read_text("utf-8")
    # A string of the user's cannot end the script that holds it, nor name a place to be filled.
    text = as_json(facts, None).replace("<", "\\u003c")
    before, between, after = re.split(r"\{title\}|\{facts\}", page)
    page = "".join([before, html.escape(title or "map"), between, text, after])
    with atomic_write(path) as temporary:
        Path(temporary).write_text(page, encoding="utf-8", errors="replace")


def _classes(
    labels: np.ndarray, label_names: Sequence[str] | None, partly: bool = False
) -> dict[str, Any]:
    """Labels, with the name and the color of each class; ``partly``: where -1 is no class."""
    none = labels < 0 if partly else np.zeros(len(labels), dtype=bool)
    count = class_count(np.where(none, 0, labels), len(labels)) if not none.all() else 0
    names = [str(number) for number in range(count)] if label_names is None else label_names
    if len(names) < count:
        raise InputError(f"there are names of {len(names)} classes for {count}; give one for each")
    colors = np.rint(255 * class_colors(count)).astype(int).tolist()
    return {
        "names": [*(printable(str(name)) for name in names[:count]), *["none"] * bool(none.any())],
        "colors": [*colors, *[[200, 200, 200]] * bool(none.any())],
        "labels": _encoded(np.where(none, count, labels), "<u4"),
    }


def _stop(name: str, places: np.ndarray, points: np.ndarray) -> dict[str, Any]:
    """A map as integers that fill its box, and whether it is that of the points shown first."""
    low, high = places.min(axis=0), places.max(axis=0)
    step = max(float((high - low).max()), 1e-300) / 65535.0
    steps = _encoded(np.rint((places - low) / step), "<u2")
    is_first = np.array_equal(places, points)
    return {"name": printable(name), "step": step, "steps": steps, "isFirst": is_first}


def _layer(name: str, values: np.ndarray) -> dict[str, Any]:
    """A measure, and the values that the ends of its colors stand for: of all points but 2 %."""
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, [0.01, 0.99]).tolist() if finite.size else (0.0, 1.0)
    if finite.size and finite.min() >= 0.0 and finite.max() <= 1.0:  # a share
        low, high = 0.0, 1.0
    return {"name": printable(name), "low": low, "high": high, "values": _encoded(values, "<f4")}


def _encoded(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(array.astype(dtype).tobytes()).decode()


def _thinned(pictures: np.ndarray) -> np.ndarray:
    """Every k-th pixel of large pictures, as a view."""
    if pictures.shape[3:] == (1,):
        pictures = pictures[..., 0]
    if pictures.ndim < 3 or not pictures.size or pictures.shape[3:] not in ((), (3,), (4,)):
        raise InputError(
            "pictures must have shape (n, height, width) or (n, height, width, channels), not "
            f"{pictures.shape}"
        )
    step = math.ceil(max(pictures.shape[1:3]) / MAX_PIXELS)
    return pictures[:, ::step, ::step]


def _sheets(pictures: np.ndarray) -> dict[str, Any]:
    """Pictures in rows and columns on sheets, as PNG; what is not finite counts as 0."""
    Image = extra("PIL.Image", "pictures", "a page with pictures")

    pictures = np.nan_to_num(pictures.astype(float), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(pictures.min()), float(pictures.max())
    pictures = ((pictures - low) * (255.0 / (high - low) if high > low else 0.0)).astype(np.uint8)
    height, width = pictures.shape[1:3]
    across, down = max(1, SHEET_SIDE // width), max(1, SHEET_SIDE // height)
    sheets = []
    for first in range(0, len(pictures), across * down):
        part = pictures[first : first + across * down]
        rows = -(-len(part) // across)
        sheet = np.zeros((rows * across, *part.shape[1:]), np.uint8)
        sheet[: len(part)] = part
        sheet = sheet.reshape(rows, across, *part.shape[1:]).swapaxes(1, 2)
        sheet = sheet.reshape(rows * height, across * width, *part.shape[3:])
        stream = io.BytesIO()
        Image.fromarray(sheet).save(stream, "png")
        sheets.append("data:image/png;base64," + base64.b64encode(stream.getvalue()).decode())
    return {"width": width, "height": height, "across": across, "down": down, "sheets": sheets}
