"""A solver on rank 0 for right-hand sides from all ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse
from mpi4py import MPI

from thalweg.errors import InputError
from thalweg.parallel.failures import raise_on_all_ranks
from thalweg.parallel.laplacian.interface import Method
from thalweg.parallel.layout import MPI_COUNT, Layout


class OnRoot:
    """A method that runs on rank 0, which gathers right-hand sides and scatters solutions.

    The arithmetic is that of one rank: the answer has the same bits at any number of
    ranks and every time, which no parallel factorization promises.
    """

    def __init__(
        self,
        layout: Layout,
        rows: scipy.sparse.csr_matrix | np.ndarray,
        build: Callable[[Layout, scipy.sparse.csr_matrix | np.ndarray], Method],
    ) -> None:
        self.layout, comm = layout, layout.comm
        self.method: Method | None = None
        whole = (
            _csr_on_root(layout, rows) if scipy.sparse.issparse(rows) else (_on_root(layout, rows))
        )
        with raise_on_all_ranks(comm):
            if comm.rank == 0:
                self.method = build(Layout(MPI.COMM_SELF, layout.rows, layout.columns), whole)

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""
        whole = _on_root(self.layout, block)
        with raise_on_all_ranks(self.layout.comm):
            if self.method is not None:
                whole = self.method.solve(whole)
        return _from_root(self.layout, whole, block)

    def destroy(self) -> None:
        """Free what PETSc holds.  Collective."""
        if self.method is not None:
            self.method.destroy()


def _on_root(layout: Layout, block: np.ndarray) -> np.ndarray:
    """All ranks' blocks on rank 0, an array of no rows on the others."""
    if layout.comm.size == 1:
        return block
    row = MPI.DOUBLE.Create_contiguous(max(1, block.shape[1])).Commit()
    whole = np.empty((layout.rows if layout.comm.rank == 0 else 0, block.shape[1]))
    try:
        layout.comm.Gatherv(
            [np.ascontiguousarray(block), layout.local_rows, row],
            [whole, layout.counts(), layout.starts[:-1], row],
            root=0,
        )
    finally:
        row.Free()
    return whole


def _from_root(layout: Layout, whole: np.ndarray, like: np.ndarray) -> np.ndarray:
    if layout.comm.size == 1:
        return whole
    block = np.empty(like.shape)
    row = MPI.DOUBLE.Create_contiguous(max(1, like.shape[1])).Commit()
    try:
        layout.comm.Scatterv(
            [np.ascontiguousarray(whole), layout.counts(), layout.starts[:-1], row],
            [block, layout.local_rows, row],
            root=0,
        )
    finally:
        row.Free()
    return block


def _csr_on_root(layout: Layout, rows: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    comm = layout.comm
    if comm.size == 1:
        return rows
    entries = np.asarray(comm.allgather(int(rows.nnz)), dtype=np.int64)
    if entries.sum() > MPI_COUNT:
        raise InputError(
            f"a matrix of {entries.sum()} entries is too large for one rank, since MPI counts to "
            f"{MPI_COUNT}; use a distributed method: 'mumps', 'amg', 'icc' or 'jacobi'"
        )
    by_entry = Layout.__new__(Layout)
    by_entry.comm, by_entry.rows, by_entry.columns = comm, int(entries.sum()), 1
    by_entry.starts = np.concatenate([[0], np.cumsum(entries)])
    # Numbers below 2**53 pass unharmed through float64, and share its way.
    columns = _on_root(by_entry, rows.indices.astype(float)[:, None])
    data = _on_root(by_entry, np.asarray(rows.data, dtype=float)[:, None])
    lengths = _on_root(layout, np.diff(rows.indptr).astype(float)[:, None])
    if comm.rank != 0:
        return rows[:0]
    pointers = np.concatenate([[0], np.cumsum(lengths[:, 0].astype(np.int64))])
    return scipy.sparse.csr_matrix(
        (data[:, 0], columns[:, 0].astype(np.int64), pointers), shape=(layout.rows, layout.rows)
    )
