"""NumPy's ``.npy``: mapped into memory by every rank, so that each reads only its rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.data.source import FileRows, Source, check_array
from thalweg.errors import InputError

_MAGIC = b"\x93NUMPY"


def read_npy(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of an npy file; its rows stay on disk.

    Raises
    ------
    InputError
        No npy file, a damaged or truncated one, or one of objects or texts.
    """
    array = map_npy(path)
    what = f"'{path}'"
    if array.dtype.kind in "US":
        # Texts can only be labels: they are few enough to be held whole.
        return Source(len(array), array.shape[1:], array.dtype, whole=np.array(array))
    check_array(array.dtype, array.shape, what)
    fortran = array.ndim > 1 and not array.flags.c_contiguous
    reader = FileRows(path, array.offset, array.dtype, array.shape, fortran)
    if array.ndim == 1:
        reader = FileRows(path, array.offset, array.dtype, (len(array), 1))
    return Source(array.shape[0], array.shape[1:] or (1,), array.dtype, reader=reader)


def map_npy(path: Path) -> np.memmap:
    """Memory map of an npy file."""
    with path.open("rb") as stream:
        magic = stream.read(len(_MAGIC))
    if magic != _MAGIC:
        raise InputError(f"'{path}' is no npy file: it does not begin with NumPy's mark")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, TypeError) as error:
        text = str(error)
        if "bject" in text:
            text = "it holds Python objects, which are never unpickled"
        elif "mmap length" in text or "EOF" in text or "buffer" in text:
            text = "it is truncated: its header promises more numbers than the file holds"
        elif "empty" in text:
            text = "it is empty"
        raise InputError(f"'{path}' cannot be read: {text}") from error
    assert isinstance(array, np.memmap)
    return array
