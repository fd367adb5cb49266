"""Pictures: a folder of them, a row each, or a single one, a row for each pixel."""

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.lazy import extra
from thalweg.workbench.readers.source import Rows, Source, refused

#: File name endings that count as pictures.
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp")


@dataclass(frozen=True)
class PictureRows:
    """Reads pictures, one per row, on any rank."""

    paths: tuple[Path, ...]
    mode: str

    def __call__(self, rows: Rows) -> np.ndarray:
        """Those pictures, shape ``(len, height, width)`` or ``(len, height, width, 3)``."""
        numbers = range(len(self.paths))[rows] if isinstance(rows, slice) else rows
        return np.stack([_pixels(self.paths[number], self.mode) for number in numbers])


def read_folder(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of a folder of pictures, in the order of their names.

    Pictures in subfolders are labeled by the subfolder's name, unless ``labels``
    names a file.  If any is in color, all are read as red, green and blue; with ``gray``, none is.
    Grays of 16 bits are read as such where all are of this kind, else as the upper 8 bits.
    """
    paths = sorted(_pictures(path))
    if not paths:
        raise InputError(f"folder '{path}' holds no pictures ({', '.join(ENDINGS)})")
    sizes, modes = zip(*map(_size_and_mode, paths), strict=True)
    (width, height), odd = sizes[0], [size != sizes[0] for size in sizes]
    if any(odd):
        other = odd.index(True)
        raise InputError(
            f"the pictures in '{path}' must all have one size: '{paths[0].name}' has "
            f"{width} x {height} pixels, '{paths[other].name}' has "
            f"{sizes[other][0]} x {sizes[other][1]}"
        )
    parents = [picture.parent.relative_to(path) for picture in paths]
    labels = None
    below = [bool(parent.parts) for parent in parents]
    if options.get("labels") is None and any(below):
        if not all(below):
            raise InputError(
                f"folder '{path}' has pictures both in subfolders, whose names are labels, "
                f"and beside them: '{paths[below.index(False)].name}'"
            )
        labels = np.array([parent.as_posix() for parent in parents])
    mode = "L" if len({*modes}) > 1 else modes[0]
    if "RGB" in modes:
        mode = "L" if options.get("gray") else "RGB"
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    dtype = np.dtype(np.uint16 if mode == "I;16" else np.uint8)
    return Source(len(paths), shape, dtype, PictureRows(tuple(paths), mode), labels=labels)


def _pictures(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Pictures in a folder and its subfolders, of which links to folders are some too."""
    real = folder.resolve()
    if real in above:  # a link to a folder that this one is in
        return
    entry = folder
    try:
        for entry in folder.iterdir():
            hidden = entry.name.startswith(".")
            mode = entry.lstat().st_mode if hidden else entry.stat().st_mode
            if stat.S_ISDIR(mode):
                yield from _pictures(entry, (*above, real))
            elif stat.S_ISREG(mode) and not hidden and entry.suffix.lower() in ENDINGS:
                yield entry
    except OSError as error:  # what cannot be read must not be missing from the data
        raise InputError(f"'{entry}' cannot be read: {error.strerror}") from error


def read_picture(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of a single picture: a row for each pixel, with one column or three.

    With ``distinct`` each color is one row, however many pixels have it, in ascending order.
    """
    mode = _size_and_mode(path)[1]
    pixels = _pixels(path, "L" if mode == "RGB" and options.get("gray") else mode)
    rows = pixels.reshape(-1, pixels.shape[2] if pixels.ndim == 3 else 1)
    if options.get("distinct"):
        rows = np.unique(rows, axis=0)
    return Source.of(rows, f"'{path}'")


def _size_and_mode(path: Path) -> tuple[tuple[int, int], str]:
    """Width and height, and "RGB", "L" or "I;16" (grays of 16 bits), from the header alone."""
    Image = extra("PIL.Image", "pictures", f"the picture '{path}'")

    # Pillow's readers raise nearly anything on a damaged file.
    what = f"'{path}' is not a picture that can be read"
    with refused(Exception, what), Image.open(path) as picture:
        if (pages := getattr(picture, "n_frames", 1)) > 1:
            raise InputError(f"'{path}' has {pages} pages; save each as a picture of its own")
        if picture.mode == "F" or (picture.mode == "I" and picture.format == "TIFF"):
            raise InputError(f"'{path}' has pixels of 32 bits; save them as an array (.npy)")
        if picture.mode in {"1", "L", "LA"}:
            return picture.size, "L"
        return picture.size, "I;16" if picture.mode.startswith("I") else "RGB"


def _pixels(path: Path, mode: str) -> np.ndarray:
    Image = extra("PIL.Image", "pictures", f"the picture '{path}'")

    with refused(Exception, f"'{path}' is damaged or truncated"), Image.open(path) as picture:
        if picture.mode.startswith("I"):  # Pillow would clip them at 255 instead of scaling them
            pixels = np.asarray(picture).astype(np.uint16)
            if mode == "I;16":
                return pixels
            upper = (pixels // 256).astype(np.uint8)
            return np.dstack([upper] * 3) if mode == "RGB" else upper
        return np.asarray(picture.convert(mode))
