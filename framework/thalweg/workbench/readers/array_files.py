"""NumPy's ``.npy`` and ``.npz``, IDX, and vectors, read without trusting what headers promise.

These files, but npz, are mapped into memory by every rank, so that each reads only its rows; of an
npz file rank 0 unpacks one array.
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

#: Types of the numbers in files of vectors, by the end of a file's name.
_VECTOR_TYPES = {"f": "<f4", "b": "u1", "i": "<i4", "u8": "u1", "i8": "i1"}

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
            import scipy.sparse

            what = f"the sparse matrix of '{path}'"
            matrix = scipy.sparse.load_npz(path)
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)
            rows = matrix.shape[0]  # no more than asked for are made dense
            matrix = matrix.tocsr()[: None if options.get("sample") else options.get("rows")]
            require_memory(
                2.0 * math.prod(matrix.shape) * matrix.dtype.itemsize, f"{what}, made dense,",
                "give fewer 'rows', or give the matrix itself to an estimator",
            )  # fmt: skip
            return Source.of(matrix.toarray(), what, None, rows)
        sizes = {one.filename.removesuffix(".npy"): one.file_size for one in archive.zip.filelist}
        key, labels_key = choose_keys(archive.files, options, path)
        what = f"array '{key}' of '{path}'"
        require_memory(2.0 * sizes[key], what, "save it as .npy, of which ranks read their rows")
        return Source.of(archive[key], what, None if labels_key is None else archive[labels_key])


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
            raise InputError(f"{what} is not an IDX file: it begins with bytes {magic.hex(' ')}")
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


def read_vectors(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of vectors as benchmarks of nearest neighbors have them; they stay on disk.

    Little-endian: in ``.fvecs``, ``.bvecs`` and ``.ivecs``, of SIFT, each row comes after its
    length of 32 bits; in ``.fbin``, ``.u8bin`` and ``.i8bin``, of DEEP, all rows come after their
    number and their length.
    """
    ending, what, size = path.suffix[1:].lower(), f"'{path}'", path.stat().st_size
    has_lengths = ending.endswith("vecs")
    dtype = np.dtype(_VECTOR_TYPES[ending.removesuffix("vecs").removesuffix("bin")])
    with path.open("rb") as stream:
        first, second = struct.unpack("<II", stream.read(8).ljust(8, b"\0"))
    columns, header = (first, 0) if has_lengths else (second, 8)
    step = 4 * has_lengths + columns * dtype.itemsize
    rows = size // step if has_lengths else first
    if size != header + rows * step:
        raise InputError(
            f"{what} is damaged or truncated: its first bytes declare rows of {columns} numbers, "
            f"which do not fill its {size} bytes"
        )
    check_array(dtype, (rows, columns), what)
    stored = np.dtype([("length", "<u4"), ("row", dtype, (columns,))]) if has_lengths else dtype
    shape = (rows,) if has_lengths else (rows, columns)
    return Source(rows, (columns,), dtype, FileRows(path, header, stored, shape))
