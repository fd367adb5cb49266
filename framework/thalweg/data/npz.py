"""NumPy's ``.npz``: several arrays under keys."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data.keys import choose_key
from thalweg.data.source import Source
from thalweg.errors import InputError


def read_npz(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of one array of an npz file, named by ``key`` if there are several.

    Labels are taken from the same file if ``labels`` is one of its keys.

    Raises
    ------
    InputError
        No npz file, a damaged one, an unknown key, or an array of objects.
    """
    if not zipfile.is_zipfile(path):
        raise InputError(f"'{path}' is damaged, or no npz file")
    try:
        # NumPy would leave the file open where the archive is damaged.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            wanted = options.get("labels")
            labels_key = wanted if isinstance(wanted, str) and wanted in archive.files else None
            others = [name for name in archive.files if name != labels_key]
            key = choose_key(others, options.get("key"), path)
            array = _member(archive, key, path)
            labels = None if labels_key is None else _member(archive, labels_key, path)
    except (zipfile.BadZipFile, ValueError, EOFError, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{path}' is damaged, or no npz file: {error}") from error
    if array.dtype.kind in "US":
        return Source(len(array), array.shape[1:], array.dtype, whole=array, labels=labels)
    return Source.of(array, f"array '{key}' of '{path}'", labels)


def _member(archive: Any, key: str, path: Path) -> np.ndarray:
    try:
        return np.asarray(archive[key])
    except ValueError as error:
        if "bject" in str(error):
            raise InputError(
                f"array '{key}' of '{path}' holds Python objects, which are never unpickled"
            ) from error
        raise
