"""From a source on rank 0 to rows on every rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thalweg.data.source import Rows, Source
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, on_root, raise_on_all_ranks


def open_source(comm: MPI.Comm, read: Callable[[], Source]) -> tuple[Source, Source | None]:
    """What a reader found, described on every rank, and itself on rank 0.  Collective."""
    kept: list[Source] = []

    def described() -> Source:
        kept.append(read())
        return kept[0].described()

    return on_root(comm, described), kept[0] if kept else None


def local_rows(
    source: Source, full: Source | None, layout: Layout, chosen: np.ndarray | None
) -> np.ndarray:
    """This rank's rows, shape ``(local_rows, source.columns)``.  Collective.

    Parameters
    ----------
    chosen
        Ascending row numbers that make up the layout's rows; None for its first rows.
    """
    if source.reader is None:
        whole = None
        if full is not None:
            assert full.whole is not None
            selection: Rows = slice(layout.rows) if chosen is None else chosen
            whole = full.whole.reshape(-1, source.columns)[selection]
        return scatter_rows(whole, layout, source.columns, source.dtype)
    block = np.empty((0, source.columns), dtype=source.dtype)
    with raise_on_all_ranks(layout.comm):
        if layout.local_rows:
            mine = slice(layout.start, layout.stop)
            try:
                read = source.reader(mine if chosen is None else chosen[mine])
            except (OSError, ValueError) as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"the data cannot be read: {error}") from error
            block = read.reshape(layout.local_rows, source.columns)
    return block


def scatter_rows(
    whole: np.ndarray | None, layout: Layout, columns: int, dtype: np.dtype
) -> np.ndarray:
    """This rank's rows of an array that rank 0 has.  Collective."""
    comm = layout.comm
    native = np.dtype(dtype).newbyteorder("=")
    if comm.size == 1:
        assert whole is not None
        return np.array(whole, dtype=native, order="C")
    block = np.empty((layout.local_rows, columns), dtype=native)
    # A row is one MPI item, so that counts stay below 2**31 whatever the width.
    row = MPI.BYTE.Create_contiguous(max(1, columns) * native.itemsize).Commit()
    try:
        send = None
        if whole is not None:
            send = [
                np.ascontiguousarray(whole, dtype=native),
                layout.counts(),
                layout.starts[:-1],
                row,
            ]
        comm.Scatterv(send, [block, layout.local_rows, row], root=0)
    finally:
        row.Free()
    return block


def scatter_labels(labels: np.ndarray | None, layout: Layout) -> np.ndarray:
    """This rank's labels, int64, of those that rank 0 has of all rows.  Collective."""
    whole = None if labels is None else labels[:, None]
    return scatter_rows(whole, layout, 1, np.dtype(np.int64))[:, 0]


def rebalance(block: np.ndarray, held: Layout, wanted: Layout) -> np.ndarray:
    """This rank's rows under another layout of the same rows.  Collective."""
    comm = held.comm
    if np.array_equal(held.starts, wanted.starts):
        return block
    block = np.ascontiguousarray(block)
    out = np.empty((wanted.local_rows, *block.shape[1:]), dtype=block.dtype)
    width = int(np.prod(block.shape[1:], dtype=np.int64))
    row = MPI.BYTE.Create_contiguous(max(1, width) * block.dtype.itemsize).Commit()
    try:
        comm.Alltoallv([block, _overlaps(held, wanted), row], [out, _overlaps(wanted, held), row])
    finally:
        row.Free()
    return out


def _overlaps(mine: Layout, theirs: Layout) -> tuple[np.ndarray, np.ndarray]:
    """How many of my rows each rank has under the other layout, and where they begin in mine."""
    low = np.clip(theirs.starts[:-1], mine.start, mine.stop)
    high = np.clip(theirs.starts[1:], mine.start, mine.stop)
    return high - low, low - mine.start
