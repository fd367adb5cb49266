"""HDF5 (``.h5``, ``.hdf5``) through h5py; each rank reads its own rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data.numpy_files import choose_key
from thalweg.data.source import Rows, Source, check_array
from thalweg.errors import InputError
from thalweg.parallel.memory import require_memory


@dataclass(frozen=True)
class HDF5Rows:
    """Rows of an array in a file."""

    path: Path
    name: str

    def __call__(self, rows: Rows) -> np.ndarray:
        """Read those rows, and nothing else but the rest of their chunks."""
        import h5py

        with h5py.File(self.path, "r") as file:
            array = file[self.name]
            count = len(range(*rows.indices(len(array)))) if isinstance(rows, slice) else len(rows)
            size = float(count) * math.prod(array.shape[1:]) * array.dtype.itemsize
            require_memory(size, f"this rank's rows of '{self.path}'", "use more ranks")
            return np.asarray(array[rows])


def read_hdf5(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of one array of an HDF5 file; its rows stay on disk.

    ``key`` names the array if there are several, as ``group/array`` where it lies in a group.
    Labels are taken from the same file if ``labels`` is one of its arrays.

    Raises
    ------
    InputError
        A damaged file, an unknown array, one of other values than real numbers, or h5py missing.
    """
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"'{path}' is an HDF5 file, which needs h5py: install it") from error
    names: list[str] = []

    def note(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset) and entry.shape:
            names.append(name)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(note)
            wanted = options.get("labels")
            labels_key = wanted if isinstance(wanted, str) and wanted in names else None
            key = choose_key([n for n in names if n != labels_key], options.get("key"), path)
            labels = None if labels_key is None else _whole(file[labels_key])
            if h5py.check_string_dtype(file[key].dtype):
                # Strings can only be labels: they are few enough to be held whole.
                return Source.of(_whole(file[key]), f"array '{key}' of '{path}'", labels)
            dtype, shape = file[key].dtype, file[key].shape
    except (OSError, RuntimeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise InputError(f"'{path}' is damaged, or not an HDF5 file: {error}") from error
    check_array(dtype, shape, f"array '{key}' of '{path}'")
    return Source(shape[0], shape[1:] or (1,), dtype, HDF5Rows(path, key), labels=labels)


def _whole(array: Any) -> np.ndarray:
    import h5py

    require_memory(8.0 * array.size, f"array '{array.name}'", "save fewer rows")
    if h5py.check_string_dtype(array.dtype):
        return np.asarray(array.asstr()[...], dtype=str)
    return np.asarray(array)
