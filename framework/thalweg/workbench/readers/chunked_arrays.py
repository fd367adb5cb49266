"""HDF5 (``.h5``, ``.hdf5``, ``.h5ad``) by h5py, and ``.zarr`` by zarr; each rank reads its rows."""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from thalweg.errors import InputError
from thalweg.lazy import extra
from thalweg.workbench.memory import require_memory
from thalweg.workbench.readers.array_files import choose_keys
from thalweg.workbench.readers.source import Rows, Source, check_array, refused


def _hdf5(path: Path) -> AbstractContextManager[Any]:
    return extra("h5py", "formats", f"the HDF5 file '{path}'").File(path, "r")  # type: ignore[no-any-return]


def _zarr(path: Path) -> AbstractContextManager[Any]:
    return nullcontext(extra("zarr", "zarr", f"the Zarr array '{path}'").open(path, mode="r"))


@dataclass(frozen=True)
class StoredRows:
    """Rows of a stored array; with ``columns_first`` its axes are in reverse there."""

    path: Path
    name: str
    opening: Callable[[Path], AbstractContextManager[Any]]
    columns_first: bool = False

    def __call__(self, rows: Rows) -> np.ndarray:
        """Read those rows, and nothing else but the rest of their chunks."""
        with refused(RuntimeError, f"'{self.path}' is damaged"), self.opening(self.path) as file:
            array = file[self.name] if self.name else file
            shape = array.shape[::-1] if self.columns_first else array.shape
            count = len(range(*rows.indices(shape[0]))) if isinstance(rows, slice) else len(rows)
            size = float(count) * math.prod(shape[1:]) * array.dtype.itemsize
            require_memory(size, f"this rank's rows of '{self.path}'", "use more ranks")
            read = np.asarray(array[..., rows].T if self.columns_first else array[rows])
            return read.astype(str) if read.dtype.kind == "T" else read  # zarr's strings


def read_hdf5(path: Path, options: Mapping[str, Any], *, columns_first: bool = False) -> Source:
    """Source of one array of an HDF5 file; its rows stay on disk.

    ``key`` names the array if there are several, as ``group/array`` where it lies in a group; in
    AnnData's files it is ``obsm/X_pca``, or else ``X``, a sparse one of which is made dense.
    Labels are taken from the same file if ``labels`` is one of its arrays, there a column of
    ``obs``.  With ``columns_first``, as MATLAB writes its variables, there are no groups.
    """
    h5py = extra("h5py", "formats", f"the HDF5 file '{path}'")
    names: list[str] = []

    def note(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset) and entry.shape and not (columns_first and "/" in name):
            names.append(name)

    errors = (OSError, RuntimeError, KeyError, IndexError, TypeError, ValueError)
    with refused(errors, f"'{path}' is damaged, or not an HDF5 file"), _hdf5(path) as file:
        file.visititems(note)
        if path.suffix.lower() == ".h5ad":
            usual = "obsm/X_pca" if "obsm/X_pca" in file else "X"
            named = options.get("labels") and f"obs/{options['labels']}"
            options = {"key": options.get("key") or usual, "labels": named}
            names += [options["key"]] if f"{options['key']}/indptr" in names else []
        key, labels_key = choose_keys(names, options, path)
        labels = None if labels_key is None else _whole(file[labels_key], path).T
        column = file.get(str(options.get("labels")))
        categories = None if column is None else column.attrs.get("categories")
        if isinstance(column, h5py.Group):
            labels = _column(column.get("codes"), column.get("categories"), path)
            if "mask" in column:  # True where a value is missing
                values, mask = _whole(column["values"], path), _whole(column["mask"], path)
                labels = np.where(mask, "", values.astype(str))
        elif isinstance(categories, h5py.Reference):  # as AnnData before 0.8 wrote it
            labels = _column(column, file[categories], path)
        array, what = file[key], f"array '{key}' of '{path}'"
        if isinstance(array, h5py.Group):  # a sparse matrix, which is made dense
            shape, form = tuple(array.attrs["shape"]), str(array.attrs["encoding-type"])
            require_memory(16.0 * math.prod(shape), f"{what}, made dense,", "use obsm/X_pca")
            parts = [_whole(array[name], path) for name in ("data", "indices", "indptr")]
            if parts[0].dtype == np.float16:  # which SciPy does not take
                parts[0] = parts[0].astype(np.float32)
            kinds = {f"cs{by}_matrix": getattr(scipy.sparse, f"cs{by}_matrix") for by in "rc"}
            matrix = kinds[form](tuple(parts), shape)
            matrix.check_format(full_check=True)
            return Source.of(matrix.toarray(), what, labels)
        if h5py.check_string_dtype(array.dtype):
            # Strings can only be labels: they are few enough to be held whole.
            return Source.of(_whole(array, path), what, labels)
        if "MATLAB_empty" in array.attrs or array.attrs.get("MATLAB_class") == b"char":
            raise InputError(f"{what} is empty, or text, not real numbers")
        _refuse_elsewhere(array, path)
        dtype, shape = array.dtype, array.shape[::-1] if columns_first else array.shape
    check_array(dtype, shape, what)
    reader = StoredRows(path, key, _hdf5, columns_first)
    return Source(shape[0], shape[1:] or (1,), dtype, reader, labels=labels)


def read_zarr(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of an array of version 2 or 3, or of one of a group, that ``key`` names as in HDF5.

    Labels are taken from the same group if ``labels`` is one of its arrays.  Python objects are
    refused, and so is what would be unpickled.
    """
    # Codecs of any library raise nearly anything.
    with refused(Exception, f"'{path}' is damaged, or no Zarr array"), _zarr(path) as root:
        members = {"": root} if hasattr(root, "shape") else dict(root.members(max_depth=None))
        arrays = {name: one for name, one in members.items() if hasattr(one, "shape")}
        key, labels_key = choose_keys([*arrays], options, path)
        what = f"array '{key}' of '{path}'"
        for name in {key, labels_key or key}:
            # The codec that calls pickle may be named of numbers, too.
            if "pickle" in str({**arrays[name].metadata.to_dict(), "attributes": None}):
                raise InputError(f"array '{name}' of '{path}' would be unpickled; save numbers")
        labels = None if labels_key is None else StoredRows(path, labels_key, _zarr)(slice(None))
        dtype, shape = np.dtype(arrays[key].dtype), arrays[key].shape
    check_array(dtype, shape, what)
    return Source(shape[0], shape[1:] or (1,), dtype, StoredRows(path, key, _zarr), labels=labels)


def _column(codes: Any, categories: Any, path: Path) -> np.ndarray | None:
    """Names of categories by their codes, "" for -1; None where there are no categories."""
    if categories is None:
        return None
    words, codes = np.append(_whole(categories, path).astype(str), ""), _whole(codes, path)
    return words[np.where((codes < -1) | (codes > len(words) - 2), len(words), codes)]


def _refuse_elsewhere(array: Any, path: Path) -> None:
    """Refuse an array whose numbers are in other files.

    HDF5 takes the bytes of any file for numbers, where an array is stored outside, and gives the
    fill value for each part of a virtual array that is missing.
    """
    if array.external or array.is_virtual:
        raise InputError(
            f"array '{array.name}' of '{path}' has its numbers in another file, which may be "
            "missing, or none of data; copy them into one array"
        )


def _whole(array: Any, path: Path) -> np.ndarray:
    import h5py

    _refuse_elsewhere(array, path)
    require_memory(8.0 * array.size, f"array '{array.name}'", "save fewer rows")
    if h5py.check_string_dtype(array.dtype):
        return np.asarray(array.asstr()[...], dtype=str)
    return np.asarray(array)
