"""MATLAB's ``.mat``: version 5 through SciPy, version 7.3 (HDF5) through h5py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.lazy import extra
from thalweg.workbench.memory import require_memory
from thalweg.workbench.readers.array_files import choose_keys
from thalweg.workbench.readers.hdf5 import stored_array
from thalweg.workbench.readers.source import Source, refused


def read_mat(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of one variable of a mat file, named by ``key`` if there are several.

    Labels are taken from the same file if ``labels`` is one of its variables.
    """
    with path.open("rb") as stream:
        modern = stream.read(10) == b"MATLAB 7.3"
    names, fetch = _open_hdf5(path) if modern else _open_version5(path)
    key, labels_key = choose_keys(names, options, path)
    array = fetch(key)
    labels = None if labels_key is None else fetch(labels_key)
    return Source.of(array, f"variable '{key}' of '{path}'", labels)


def _open_version5(path: Path) -> tuple[list[str], Any]:
    import scipy.io
    import scipy.sparse

    # SciPy's reader raises nearly anything on a damaged file.
    with refused(Exception, f"'{path}' is damaged, or not a mat file"):
        shapes = {name: shape for name, shape, _ in scipy.io.whosmat(path, appendmat=False)}

    def fetch(key: str) -> np.ndarray:
        what = f"variable '{key}' of '{path}'"
        # Compressed files may promise more than they hold.
        require_memory(8.0 * math.prod(shapes[key]), what, "save fewer rows")
        with refused(Exception, f"'{path}' is damaged"):
            value = scipy.io.loadmat(path, appendmat=False, variable_names=[key])[key]
        if scipy.sparse.issparse(value):
            value = value.toarray()
        value = np.asarray(value)
        if value.dtype.kind not in "buifUS":
            raise InputError(
                f"{what} is a cell array, struct or complex matrix; "
                f"save it as a matrix of real numbers"
            )
        return value

    return list(shapes), fetch


def _open_hdf5(path: Path) -> tuple[list[str], Any]:
    h5py = extra("h5py", "formats", f"the MATLAB 7.3 file '{path}' (unlike one saved with '-v7')")
    with refused(Exception, f"'{path}' is damaged"), h5py.File(path, "r") as file:
        # A link to another file, which MATLAB writes nowhere, is no variable of this one.
        own = [name for name in file if isinstance(file.get(name, getlink=True), h5py.HardLink)]
        names = [name for name in own if isinstance(file[name], h5py.Dataset)]

    def fetch(key: str) -> np.ndarray:
        what = f"variable '{key}' of '{path}'"
        with h5py.File(path, "r") as file:
            array = stored_array(file, key, path)
            if array.dtype.kind not in "buif":
                raise InputError(f"{what} is not a matrix of real numbers")
            require_memory(8.0 * array.size, what, "save fewer rows")
            with refused(Exception, f"'{path}' is damaged"):
                # MATLAB stores columns first: HDF5 shows the axes in reverse.
                return np.asarray(array).T

    return names, fetch
