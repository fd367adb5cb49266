"""Rows sent to ranks that their holder chooses, and arrays turned from row blocks to column blocks.

Points go to the rank that holds their part of space; a Fourier transform of several axes needs
each of them whole in turn.  Both are all-to-all exchanges whose messages shrink with the ranks.
"""

from __future__ import annotations

import itertools

import numpy as np
from mpi4py import MPI

from thalweg.parallel.layout import Layout
from thalweg.parallel.traffic import count_messages


class RowRoutes:
    """Rows that go to ranks of the sender's choice, and values that come back.  Collective.

    Parameters
    ----------
    comm
        The ranks.
    destinations
        Ranks that rows go to, shape (routes,).
    rows
        Which of this rank's rows goes there, shape (routes,); a row may go to several ranks.
        By default each row goes to one.

    Attributes
    ----------
    rows : ndarray of int64, shape (routes,)
        The rows in the order in which they are sent: by destination, then as given.
    received : ndarray of int64, shape (comm.size,)
        Rows that come from each rank; they arrive in the order of ranks.

    Notes
    -----
    Where rows arrive depends on the routes alone, so that sums over them have the same bits every
    time.  A message is counted in rows: 2**31 bytes are no limit.
    """

    def __init__(
        self, comm: MPI.Comm, destinations: np.ndarray, rows: np.ndarray | None = None
    ) -> None:
        self.comm = comm
        # Small integers are sorted in linear time.
        small = np.asarray(destinations, dtype=np.uint16 if comm.size < 2**16 else np.int64)
        order = np.argsort(small, kind="stable")
        self.rows = order if rows is None else np.asarray(rows, dtype=np.int64)[order]
        self._sent = np.bincount(destinations, minlength=comm.size).astype(np.int64)
        self.received = np.empty_like(self._sent)
        comm.Alltoall(self._sent, self.received)

    def deliver(self, block: np.ndarray) -> np.ndarray:
        """Rows that other ranks, and this one, sent here: shape (received.sum(), ...).

        ``block`` holds this rank's rows, of any dtype without Python objects.
        """
        return _exchanged(self.comm, block[self.rows], self._sent, self.received)

    def give_back(self, values: np.ndarray) -> np.ndarray:
        """What the receivers say of the rows sent, in the order of :attr:`rows`.

        ``values`` are this rank's answers to what :meth:`deliver` brought, in that order.
        """
        return _exchanged(self.comm, values, self.received, self._sent)


class Transposition:
    """An array in blocks of rows, turned to blocks of columns, and back.

    The first axis, of length ``rows``, or the last, of length ``columns``, is shared out evenly
    over the ranks; axes between are whole.

    Parameters
    ----------
    comm
        The ranks.
    rows, columns
        Lengths of the axes.

    Attributes
    ----------
    rows, columns : Layout
        How either axis is shared out.

    Notes
    -----
    Each rank sends 1 - 1/P of its part, in P - 1 messages.
    """

    def __init__(self, comm: MPI.Comm, rows: int, columns: int) -> None:
        self.rows, self.columns = Layout(comm, rows), Layout(comm, columns)

    def to_columns(self, block: np.ndarray) -> np.ndarray:
        """From shape (local rows, ..., columns) to (rows, ..., local columns).  Collective."""
        if self.rows.comm.size == 1:
            return block
        between, bounds = block.shape[1:-1], self.columns.starts
        width = int(np.prod(between, dtype=np.int64))
        parts = [block[..., i:j].ravel() for i, j in itertools.pairwise(bounds)]
        sent = len(block) * width * self.columns.counts()
        received = self.rows.counts() * width * self.columns.local_rows
        found = _exchanged(self.rows.comm, np.concatenate(parts), sent, received)
        return found.reshape(self.rows.rows, *between, self.columns.local_rows)

    def to_rows(self, block: np.ndarray) -> np.ndarray:
        """From shape (rows, ..., local columns) to (local rows, ..., columns).  Collective."""
        if self.rows.comm.size == 1:
            return block
        between, bounds = block.shape[1:-1], self.columns.starts
        width = int(np.prod(between, dtype=np.int64))
        sent = self.rows.counts() * width * block.shape[-1]
        received = self.rows.local_rows * width * self.columns.counts()
        found = _exchanged(self.rows.comm, block.ravel(), sent, received)
        whole = np.empty((self.rows.local_rows, *between, self.columns.rows), block.dtype)
        places = np.concatenate([[0], np.cumsum(received)])
        for rank, (i, j) in enumerate(itertools.pairwise(bounds)):
            part = found[places[rank] : places[rank + 1]]
            whole[..., i:j] = part.reshape(*whole.shape[:-1], j - i)
        return whole


def _exchanged(
    comm: MPI.Comm, block: np.ndarray, sent: np.ndarray, received: np.ndarray
) -> np.ndarray:
    """Rows of ``block`` in the order of ranks go to them; theirs come in the order of ranks."""
    if comm.size == 1:
        return np.asarray(block)
    block = np.ascontiguousarray(block)
    row_bytes = int(np.prod(block.shape[1:], dtype=np.int64)) * block.dtype.itemsize
    found = np.empty((int(received.sum()), *block.shape[1:]), block.dtype)
    if row_bytes == 0:
        return found
    others = np.arange(comm.size) != comm.rank
    count_messages(int(sent[others].sum()) * row_bytes, int((sent[others] > 0).sum()))
    unit = MPI.BYTE.Create_contiguous(row_bytes).Commit()
    try:
        comm.Alltoallv(
            [block, (sent, np.cumsum(sent) - sent), unit],
            [found, (received, np.cumsum(received) - received), unit],
        )
    finally:
        unit.Free()
    return found
