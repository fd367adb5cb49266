"""Arrays distributed by rows in npy files: each rank writes its own rows."""

import os
from pathlib import Path

import numpy as np
from mpi4py import MPI

from thalweg.files import storing
from thalweg.parallel.failures import on_root, raise_on_all_ranks
from thalweg.parallel.layout import Layout, row_bytes


def write_rows(comm: MPI.Comm, path: Path, layout: Layout, block: np.ndarray) -> None:
    """Write an npy file of all rows, straight under its name.  Collective on ``comm``.

    ``layout`` distributes the rows, of one dtype; of a replicated array rank 0 writes all.  On all
    ranks a ``StorageError``, where one of them cannot write.
    """
    block = np.ascontiguousarray(block)

    def create() -> int:
        with storing(path), open(path, "wb") as stream:
            rows = len(block) if layout.replicated else layout.rows
            kind, shape = np.lib.format.dtype_to_descr(block.dtype), (rows, *block.shape[1:])
            head = {"descr": kind, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, head)
            offset = stream.tell()
            stream.truncate(offset + rows * row_bytes(block))
            return offset

    offset = on_root(comm, create)
    with raise_on_all_ranks(comm):
        writes = comm.rank == 0 or not layout.replicated
        if writes and block.size:
            with storing(path), open(path, "r+b") as stream:
                start = 0 if layout.replicated else layout.start
                stream.seek(offset + row_bytes(block) * start)
                stream.write(block.data)
                stream.flush()
                os.fsync(stream.fileno())
