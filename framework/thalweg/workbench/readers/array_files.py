"""NumPy's ``.npy`` and ``.npz``, and IDX, read without trusting what their headers promise.

An npy or IDX file is mapped into memory by every rank, so that each reads only its rows; of
an npz file rank 0 unpacks one array.
"""

import gzip
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError, suggestion
from thalweg.files import refuse_special_file
from thalweg.workbench.memory import require_memory
from thalweg.workbench.readers.source import PACKED, FileRows, Source, check_array, refused

#: Types of numbers by their code in IDX.
_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

#: Errors that damaged files raise.
_DAMAGED = (
    ValueError, EOFError, SyntaxError, TypeError, KeyError, OverflowError, MemoryError,
    RecursionError, NotImplementedError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_npy(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of an npy file; its rows stay on disk."""
    array = map_npy(path)
    if array.dtype.kind in "US":
        # Strings can only be labels: they are few enough to be held whole.
        return Source.of(np.array(array), f"'{path}'")
    check_array(array.dtype, array.shape, f"'{path}'")
    fortran = array.ndim > 1 and not array.flags.c_contiguous
    shape = array.shape if array.ndim > 1 else (len(array), 1)
    reader = FileRows(path, array.offset, array.dtype, shape, fortran)
    return Source(shape[0], shape[1:], array.dtype, reader)


def map_npy(path: Path) -> np.memmap:
    """Memory map of an npy file; Python objects are never unpickled."""
    refuse_special_file(path)
    error = refused(_DAMAGED, f"'{path}' is damaged, or not an npy file of numbers")
    with np.errstate(over="ignore"), error:  # of the length that a header declares
        return np.lib.format.open_memmap(path, mode="r")


def read_npz(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of one array of an npz file, named by ``key`` if there are several.

    Labels are taken from the same file if ``labels`` is one of its keys.  A sparse matrix, as
    ``scipy.sparse.save_npz`` writes one, is made dense.
    """
    with (
        refused(RuntimeError, f"'{path}' cannot be unpacked"),  # an encrypted archive
        refused(_DAMAGED, f"'{path}' is damaged, or not an npz file of numbers"),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as archive,
    ):
        if {"format", "shape", "data"} <= set(archive.files) and options.get("key") is None:
            return _read_sparse(path, options)
        sizes = {
            info.filename.removesuffix(".npy"): info.file_size for info in archive.zip.filelist
        }
        key, labels_key = choose_keys(archive.files, options, path)
        what = f"array '{key}' of '{path}'"
        require_memory(2.0 * sizes[key], what, "save it as .npy, of which ranks read their rows")
        labels = None if labels_key is None else archive[labels_key]
        return Source.of(archive[key], what, labels)


def _read_sparse(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of a sparse matrix of SciPy's, of which no more rows than asked for are made dense."""
    import scipy.sparse

    what = f"the sparse matrix of '{path}'"
    matrix = scipy.sparse.load_npz(path)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    rows = matrix.shape[0]
    matrix = matrix.tocsr()[: None if options.get("sample") else options.get("rows")]
    require_memory(
        2.0 * math.prod(matrix.shape) * matrix.dtype.itemsize, f"{what}, made dense,",
        "give fewer 'rows', or give the matrix itself to an estimator",
    )  # fmt: skip
    return Source.of(matrix.toarray(), what, None, rows)


def choose_keys(
    names: Sequence[str], options: Mapping[str, Any], path: Path
) -> tuple[str, str | None]:
    """The array that ``key`` names, or the only one, and that of the labels, if there is one."""
    key, labels = options.get("key"), options.get("labels")
    labels = labels if labels in names else None
    names = [name for name in names if name != labels]
    if key is None and len(names) == 1:
        return names[0], labels
    if key in names:
        return key, labels
    if key is not None:
        raise InputError(f"'{path}' has no array '{key}'{suggestion(key, names)}")
    if not names:
        raise InputError(f"'{path}' holds no array")
    listed = ", ".join(sorted(names))
    raise InputError(f"'{path}' holds several arrays; choose one by 'key': {listed}")


def read_idx(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of an IDX file, the format of MNIST; an uncompressed one stays on disk.

    Big-endian: two zero bytes, a type code, the number of dimensions, the dimensions as 32-bit
    numbers, then the values.
    """
    packed, what, body = path.suffix == ".gz", f"'{path}'", b""
    opened: Any = gzip.open if packed else open
    with refused(PACKED, f"{what} is damaged or truncated"), opened(path, "rb") as stream:
        magic = stream.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES or not magic[3]:
            raise InputError(
                f"{what} is not an IDX file: it begins with the bytes {magic.hex(' ')}"
            )
        dtype, dimensions = np.dtype(_IDX_TYPES[magic[2]]), magic[3]
        sizes = stream.read(4 * dimensions)
        if len(sizes) < 4 * dimensions:
            raise InputError(f"{what} is truncated within its header")
        if dimensions > 16:
            raise InputError(f"{what} is damaged: its header declares {dimensions} dimensions")
        shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", sizes)
        offset, promised = stream.tell(), math.prod(shape) * dtype.itemsize
        if packed:
            require_memory(2.0 * promised, what, "unpack it, so that ranks read their rows")
            body = stream.read(promised + 1)
    size = len(body) if packed else path.stat().st_size - offset
    if size != promised:
        raise InputError(
            f"{what} is {'truncated' if size < promised else 'too long'}: its header declares "
            f"{' x '.join(map(str, shape))} numbers, {promised} bytes, but {size} bytes follow"
        )
    shape = shape if len(shape) > 1 else (*shape, 1)
    if packed:
        return Source.of(np.frombuffer(body, dtype=dtype).reshape(shape), what)
    check_array(dtype, shape, what)
    return Source(shape[0], shape[1:], dtype, reader=FileRows(path, offset, dtype, shape))
