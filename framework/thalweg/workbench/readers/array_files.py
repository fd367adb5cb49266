"""NumPy's ``.npy`` and ``.npz``, and IDX, read without trusting what their headers promise.

An npy or IDX file is mapped into memory by every rank, so that each reads only its rows; of
an npz file rank 0 unpacks one array, and no more rows than are asked for.
"""

from __future__ import annotations

import gzip
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from thalweg.errors import InputError, suggestion
from thalweg.files import refuse_special_file
from thalweg.workbench.memory import require_memory
from thalweg.workbench.readers.source import (
    PACKED,
    FileRows,
    Source,
    check_array,
    check_length,
    refused,
)

_NPY_MAGIC = b"\x93NUMPY"

#: Types of numbers by their code in IDX.
_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

#: Errors that damaged files raise.
_DAMAGED = (
    ValueError, EOFError, SyntaxError, TypeError, KeyError, OverflowError, MemoryError,
    RecursionError, NotImplementedError, zipfile.BadZipFile, zlib.error,
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
    """Memory map of an npy file."""
    refuse_special_file(path)
    size = path.stat().st_size
    with path.open("rb") as stream:
        shape, fortran, dtype = _npy_header(stream, f"'{path}'")
        offset = stream.tell()
    check_length(size - offset, dtype, shape, f"'{path}'", exact=False)
    if 0 in shape:
        raise InputError(f"'{path}' is empty: its shape is {' x '.join(map(str, shape))}")
    return np.memmap(
        path, dtype=dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C"
    )


def read_npz(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of one array of an npz file, named by ``key`` if there are several.

    Labels are taken from the same file if ``labels`` is one of its keys.  A sparse matrix, as
    ``scipy.sparse.save_npz`` writes one, is made dense.
    """
    if not zipfile.is_zipfile(path):
        raise InputError(f"'{path}' is damaged, or not an npz file")
    with (
        refused(RuntimeError, f"'{path}' cannot be unpacked"),  # an encrypted archive
        refused(_DAMAGED, f"'{path}' is damaged, or not an npz file"),
        zipfile.ZipFile(path) as archive,
    ):
        found = [name.removesuffix(".npy") for name in archive.namelist()]
        if {"format", "shape", "data"} <= set(found) and options.get("key") is None:
            return _read_sparse(archive, path, options)
        key, labels_key = choose_keys(found, options, path)
        wanted_rows = None if options.get("sample") else options.get("rows")
        rows, array = _member(archive, key, path, wanted_rows)
        labels = None if labels_key is None else _member(archive, labels_key, path, None)[1]
    return Source.of(array, f"array '{key}' of '{path}'", labels, rows)


def _read_sparse(archive: zipfile.ZipFile, path: Path, options: Mapping[str, Any]) -> Source:
    """Source of a sparse matrix of SciPy's, of which no more rows than asked for are made dense."""
    import scipy.sparse

    what = f"the sparse matrix of '{path}'"

    def part(name: str) -> np.ndarray:
        return _member(archive, name, path, None)[1]

    kind, sizes = str(part("format").astype(str)), part("shape")
    if sizes.dtype.kind not in "iu":
        raise InputError(f"{what} is damaged: its shape is {sizes.tolist()}")
    shape = tuple(int(size) for size in sizes)
    places = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}
    if kind not in places:
        raise InputError(f"{what} has the format '{kind}'; save its tocsr()")
    if len(shape) != 2 or min(shape) < 1:
        raise InputError(f"{what} is damaged: its shape is {shape}")
    values, first, second = part("data"), *(part(name) for name in places[kind])
    if kind == "coo":
        matrix = scipy.sparse.coo_matrix((values, (first, second)), shape).tocsr()
    else:
        made = scipy.sparse.csr_matrix if kind == "csr" else scipy.sparse.csc_matrix
        matrix = made((values, first, second), shape)
        matrix.check_format(full_check=True)
        matrix = matrix.tocsr()
    wanted = None if options.get("sample") else options.get("rows")
    matrix = matrix[:wanted]
    require_memory(
        2.0 * math.prod(matrix.shape) * matrix.dtype.itemsize, f"{what}, made dense,",
        "give fewer 'rows', or give the matrix itself to an estimator",
    )  # fmt: skip
    return Source.of(matrix.toarray(), what, None, shape[0])


def choose_keys(
    found: Sequence[str], options: Mapping[str, Any], path: Path
) -> tuple[str, str | None]:
    """The array that ``key`` names, or the only one, and that of the labels, if there is one."""
    wanted, labels = options.get("key"), options.get("labels")
    labels = labels if labels in found else None
    found = [name for name in found if name != labels]
    if wanted is None and len(found) == 1:
        return found[0], labels
    if wanted in found:
        return wanted, labels
    if wanted is not None:
        raise InputError(f"'{path}' has no array '{wanted}'{suggestion(wanted, found)}")
    if not found:
        raise InputError(f"'{path}' holds no array")
    listed = ", ".join(sorted(found))
    raise InputError(f"'{path}' holds several arrays; choose one by 'key': {listed}")


def _member(
    archive: zipfile.ZipFile, key: str, path: Path, wanted: int | None
) -> tuple[int, np.ndarray]:
    """Number of rows of an array, and its first ``wanted`` ones, or all."""
    what = f"array '{key}' of '{path}'"
    names = archive.namelist()
    info = archive.getinfo(f"{key}.npy" if f"{key}.npy" in names else key)
    with archive.open(info) as stream:
        shape, fortran, dtype = _npy_header(stream, what)
        check_length(info.file_size - stream.tell(), dtype, shape, what, exact=False)
        rows = shape[0] if shape else 1
        first = shape
        if wanted is not None and wanted < rows and not fortran:
            first = (wanted, *shape[1:])
        size = math.prod(first) * dtype.itemsize
        require_memory(2.0 * size, what, "give fewer 'rows', or save it as .npy")
        body = bytearray(size)
        _fill(stream, memoryview(body), what)
    array = np.frombuffer(body, dtype=dtype).reshape(first, order="F" if fortran else "C")
    return rows, array


def _fill(stream: IO[bytes], body: memoryview, what: str) -> None:
    filled = 0
    while filled < len(body):
        block = stream.read(min(len(body) - filled, 2**24))
        if not block:
            raise InputError(f"{what} is truncated: its header declares more numbers than follow")
        body[filled : filled + len(block)] = block
        filled += len(block)


def _npy_header(stream: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type that the header declares, refused where they cannot be."""
    start = stream.read(len(_NPY_MAGIC) + 2)
    if not start.startswith(_NPY_MAGIC):
        raise InputError(f"{what} is not an npy file: it does not begin with NumPy's magic string")
    version = tuple(start[len(_NPY_MAGIC) :])
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise InputError(f"{what} cannot be read: it has version {version} of the format")
    try:
        shape, fortran, dtype = readers[version](stream)
    except _DAMAGED as error:
        raise InputError(f"{what} cannot be read: {' '.join(str(error).split())}") from error
    if dtype.hasobject:
        raise InputError(
            f"{what} cannot be read: it holds Python objects, which are never unpickled"
        )
    # NumPy itself takes True for a size, and negative ones.
    if not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 16:
        raise InputError(f"{what} is damaged: its header declares the shape {shape}")
    return shape, fortran, dtype


def read_idx(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of an IDX file, the format of MNIST; an uncompressed one stays on disk.

    Big-endian: two zero bytes, a type code, the number of dimensions, the dimensions as 32-bit
    numbers, then the values.
    """
    if path.suffix == ".gz":
        return _read_compressed(path)
    with path.open("rb") as stream:
        dtype, shape = _idx_header(stream, path)
        offset = stream.tell()
    check_length(path.stat().st_size - offset, dtype, shape, f"'{path}'")
    check_array(dtype, shape, f"'{path}'")
    shape = shape if len(shape) > 1 else (*shape, 1)
    return Source(shape[0], shape[1:], dtype, reader=FileRows(path, offset, dtype, shape))


def _read_compressed(path: Path) -> Source:
    with refused(PACKED, f"'{path}' is damaged or truncated"), gzip.open(path, "rb") as stream:
        dtype, shape = _idx_header(stream, path)
        promised = math.prod(shape) * dtype.itemsize
        require_memory(2.0 * promised, f"'{path}'", "unpack it, so that ranks read their rows")
        body = stream.read(promised + 1)
    check_length(len(body), dtype, shape, f"'{path}'")
    array = np.frombuffer(body, dtype=dtype).reshape(shape)
    return Source.of(array if array.ndim > 1 else array[:, None], f"'{path}'")


def _idx_header(stream: BinaryIO | gzip.GzipFile, path: Path) -> tuple[np.dtype, tuple[int, ...]]:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES or not magic[3]:
        raise InputError(f"'{path}' is not an IDX file: it begins with the bytes {magic.hex(' ')}")
    dimensions = magic[3]
    sizes = stream.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise InputError(f"'{path}' is truncated within its header")
    if dimensions > 16:
        raise InputError(f"'{path}' is damaged: its header declares {dimensions} dimensions")
    return np.dtype(_IDX_TYPES[magic[2]]), struct.unpack(f">{dimensions}I", sizes)
