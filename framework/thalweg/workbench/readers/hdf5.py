"""HDF5 (``.h5``, ``.hdf5``) through h5py; each rank reads its own rows."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.lazy import extra
from thalweg.workbench.memory import require_memory
from thalweg.workbench.readers.array_files import choose_keys
from thalweg.workbench.readers.source import Rows, Source, check_array, refused


@dataclass(frozen=True)
class HDF5Rows:
    """Rows of an array in a file."""

    path: Path
    name: str

    def __call__(self, rows: Rows) -> np.ndarray:
        """Read those rows, and nothing else but the rest of their chunks."""
        import h5py

        with h5py.File(self.path, "r") as file:
            array = stored_array(file, self.name, self.path)
            count = len(range(*rows.indices(len(array)))) if isinstance(rows, slice) else len(rows)
            size = float(count) * math.prod(array.shape[1:]) * array.dtype.itemsize
            require_memory(size, f"this rank's rows of '{self.path}'", "use more ranks")
            return np.asarray(array[rows])


def read_hdf5(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of one array of an HDF5 file; its rows stay on disk.

    ``key`` names the array if there are several, as ``group/array`` where it lies in a group.
    Labels are taken from the same file if ``labels`` is one of its arrays.
    """
    h5py = extra("h5py", "formats", f"the HDF5 file '{path}'")
    names: list[str] = []

    def note(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset) and entry.shape:
            names.append(name)

    errors = (OSError, RuntimeError, KeyError, TypeError, UnicodeDecodeError)
    with (
        refused(errors, f"'{path}' is damaged, or not an HDF5 file"),
        h5py.File(path, "r") as file,
    ):
        file.visititems(note)
        key, labels_key = choose_keys(names, options, path)
        labels = None if labels_key is None else _whole(stored_array(file, labels_key, path))
        array = stored_array(file, key, path)
        if h5py.check_string_dtype(array.dtype):
            # Strings can only be labels: they are few enough to be held whole.
            return Source.of(_whole(array), f"array '{key}' of '{path}'", labels)
        dtype, shape = array.dtype, array.shape
    check_array(dtype, shape, f"array '{key}' of '{path}'")
    return Source(shape[0], shape[1:] or (1,), dtype, HDF5Rows(path, key), labels=labels)


def stored_array(file: Any, name: str, path: Path) -> Any:
    """An array of an open HDF5 file, once it is known where its numbers come from.

    HDF5 takes the bytes of any file for numbers, where an array is stored outside, and gives the
    fill value for each part of a virtual array that is missing.
    """
    array = file[name]
    what = f"array '{name}' of '{path}'"
    if array.external:
        raise InputError(
            f"{what} has its numbers in another file, '{array.external[0][0]}', which need not be "
            "one of data; store them in the HDF5 file"
        )
    for source in array.virtual_sources() if array.is_virtual else ():
        _check_source(source, what, path)
    return array


def _check_source(source: Any, what: str, path: Path) -> None:
    """Refuse a source of a virtual array that is missing, or smaller than the part it stands for.

    ``source`` is as h5py describes it.
    """
    import h5py

    label = f"'{source.dset_name}' of '{source.file_name}'"
    if "%b" in source.file_name + source.dset_name:
        raise InputError(f"{what} is virtual with a pattern for its sources, {label}; name each")
    # HDF5 searches the folder of the file, the current one, and those that are set.
    prefixes = os.environ.get("HDF5_VDS_PREFIX", "").replace("${ORIGIN}", str(path.parent))
    folders = [path.parent, path.resolve().parent, Path(), *map(Path, prefixes.split(":"))]
    names = (source.file_name, Path(source.file_name).name)
    places = [Path(folder, name) for name in names for folder in folders]
    place = path if source.file_name == "." else next((p for p in places if p.is_file()), None)
    try:
        if place is None:
            raise KeyError("there is no such file")
        with h5py.File(place, "r") as file:
            shape = stored_array(file, source.dset_name, place).shape
        extent = source.src_space.shape  # of a source that is taken whole it is not known
        numbers = math.prod(extent) if extent else source.vspace.get_select_npoints()
        if math.prod(shape) < numbers or not all(map(operator.ge, shape, extent)):
            raise KeyError(f"it has {' x '.join(map(str, shape))} numbers, which are too few")
    except (OSError, KeyError) as error:
        raise InputError(
            f"{what} is virtual, but its source {label} cannot be read: {error.args[0]}"
        ) from error


def _whole(array: Any) -> np.ndarray:
    import h5py

    require_memory(8.0 * array.size, f"array '{array.name}'", "save fewer rows")
    if h5py.check_string_dtype(array.dtype):
        return np.asarray(array.asstr()[...], dtype=str)
    return np.asarray(array)
