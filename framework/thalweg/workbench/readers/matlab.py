"""MATLAB's ``.mat``: version 5 through SciPy, version 7.3, which is HDF5, through h5py."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thalweg.errors import InputError
from thalweg.workbench.memory import require_memory
from thalweg.workbench.readers.array_files import choose_keys
from thalweg.workbench.readers.chunked_arrays import read_hdf5
from thalweg.workbench.readers.source import Source, refused


def read_mat(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of one variable of a mat file, named by ``key`` if there are several.

    Labels are taken from the same file if ``labels`` is one of its variables.
    """
    import scipy.io
    import scipy.sparse

    with path.open("rb") as stream:
        if stream.read(10) == b"MATLAB 7.3":
            return read_hdf5(path, options, columns_first=True)
    # SciPy's reader raises nearly anything on a damaged file.
    with refused(Exception, f"'{path}' is damaged, or not a mat file"):
        shapes = {name: shape for name, shape, _ in scipy.io.whosmat(path, appendmat=False)}
        key, labels_key = choose_keys(list(shapes), options, path)
        what = f"variable '{key}' of '{path}'"
        # Compressed files may promise more than they hold.
        require_memory(8.0 * math.prod(shapes[key]), what, "save fewer rows")
        names = [key] if labels_key is None else [key, labels_key]
        variables = scipy.io.loadmat(path, appendmat=False, variable_names=names)
    value = variables[key].toarray() if scipy.sparse.issparse(variables[key]) else variables[key]
    if value.dtype.kind not in "buifUS":
        raise InputError(f"{what} is a cell array, struct or complex matrix; save a real matrix")
    return Source.of(value, what, None if labels_key is None else variables[labels_key])
