"""IDX, the format of MNIST, plain or compressed by gzip.

Big-endian: two zero bytes, a type code, the number of dimensions, the
dimensions as 32-bit numbers, then the values.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from thalweg.errors import InputError
from thalweg.workbench.memory import require_memory
from thalweg.workbench.readers.source import FileRows, Source, check_array, check_length

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path, options: Mapping[str, Any]) -> Source:
    """Source of an IDX file; an uncompressed one stays on disk."""
    if path.suffix == ".gz":
        return _read_compressed(path)
    with path.open("rb") as stream:
        dtype, shape = _header(stream, path)
        offset = stream.tell()
    check_length(path.stat().st_size - offset, dtype, shape, f"'{path}'")
    check_array(dtype, shape, f"'{path}'")
    shape = shape if len(shape) > 1 else (*shape, 1)
    return Source(shape[0], shape[1:], dtype, reader=FileRows(path, offset, dtype, shape))


def _read_compressed(path: Path) -> Source:
    try:
        with gzip.open(path, "rb") as stream:
            dtype, shape = _header(stream, path)
            promised = math.prod(shape) * dtype.itemsize
            require_memory(2.0 * promised, f"'{path}'", "unpack it, so that ranks read their rows")
            body = stream.read(promised + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error, OSError) as error:
        raise InputError(f"'{path}' is damaged or truncated: {error}") from error
    check_length(len(body), dtype, shape, f"'{path}'")
    array = np.frombuffer(body, dtype=dtype).reshape(shape)
    return Source.of(array if array.ndim > 1 else array[:, None], f"'{path}'")


def _header(stream: BinaryIO | gzip.GzipFile, path: Path) -> tuple[np.dtype, tuple[int, ...]]:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES or not magic[3]:
        raise InputError(f"'{path}' is not an IDX file: it begins with the bytes {magic.hex(' ')}")
    dimensions = magic[3]
    sizes = stream.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise InputError(f"'{path}' is truncated within its header")
    if dimensions > 16:
        raise InputError(f"'{path}' is damaged: its header declares {dimensions} dimensions")
    return np.dtype(_TYPES[magic[2]]), struct.unpack(f">{dimensions}I", sizes)
