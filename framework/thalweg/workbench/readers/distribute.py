"""From a source on rank 0 to rows on every rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, on_root, raise_on_all_ranks
from thalweg.parallel.layout import row_type
from thalweg.workbench.readers.source import Rows, Source


def open_source(comm: MPI.Comm, read: Callable[[], Source]) -> tuple[Source, Source | None]:
    """A reader's source: its description on every rank, itself on rank 0.  Collective."""
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
        native = source.dtype.newbyteorder("=")
        return layout.scatter_from_root(whole, (source.columns,), native)
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


def scatter_labels(labels: np.ndarray | None, layout: Layout) -> np.ndarray:
    """This rank's labels, int64, of those that rank 0 has of all rows.  Collective."""
    return layout.scatter_from_root(labels, (), np.int64)


def rebalance(block: np.ndarray, held: Layout, wanted: Layout) -> np.ndarray:
    """This rank's rows under another layout of the same rows.  Collective."""
    comm = held.comm
    if np.array_equal(held.starts, wanted.starts):
        return block
    block = np.ascontiguousarray(block)
    out = np.empty((wanted.local_rows, *block.shape[1:]), dtype=block.dtype)
    with row_type(block) as row:
        comm.Alltoallv([block, _overlaps(held, wanted), row], [out, _overlaps(wanted, held), row])
    return out


def _overlaps(mine: Layout, theirs: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Number of this rank's rows that each rank has in the other layout, and their start."""
    low = np.clip(theirs.starts[:-1], mine.start, mine.stop)
    high = np.clip(theirs.starts[1:], mine.start, mine.stop)
    return high - low, low - mine.start
