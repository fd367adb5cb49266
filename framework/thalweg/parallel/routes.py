"""Rows sent to ranks that their holder chooses, such as points to the rank of their part of space.

These are all-to-all exchanges whose messages shrink with the ranks.
"""

import numpy as np
from mpi4py import MPI

from thalweg.parallel.layout import row_bytes, row_type
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
        return exchange_rows(self.comm, block[self.rows], self._sent, self.received)

    def give_back(self, values: np.ndarray) -> np.ndarray:
        """Values that the receivers return for the rows sent, in the order of :attr:`rows`.

        ``values`` are this rank's answers to what :meth:`deliver` brought, in that order.
        """
        return exchange_rows(self.comm, values, self.received, self._sent)


def swap_rows(comm: MPI.Comm, sent: np.ndarray, to: int, received: np.ndarray, source: int) -> None:
    """Send rows to one rank, and receive rows of the same type from one.  Collective on these.

    Parameters
    ----------
    sent, received
        C-contiguous; rows of one shape, of any number of which either rank knows.
    """
    if row_bytes(sent) == 0:
        return
    count_messages(sent.nbytes)
    with row_type(sent) as row:
        comm.Sendrecv(
            [sent, len(sent), row], to, recvbuf=[received, len(received), row], source=source
        )


def exchange_rows(
    comm: MPI.Comm, block: np.ndarray, sent: np.ndarray, received: np.ndarray
) -> np.ndarray:
    """Rows of ``block`` in the order of ranks go to them; theirs come in the order of ranks.

    ``sent`` and ``received`` are the numbers of rows for, and from, each rank.  Collective.
    """
    if comm.size == 1:
        return np.asarray(block)
    block = np.ascontiguousarray(block)
    arrived = np.empty((int(received.sum()), *block.shape[1:]), block.dtype)
    if row_bytes(block) == 0:
        return arrived
    others = np.arange(comm.size) != comm.rank
    count_messages(int(sent[others].sum()) * row_bytes(block), int((sent[others] > 0).sum()))
    with row_type(block) as row:
        comm.Alltoallv(
            [block, (sent, np.cumsum(sent) - sent), row],
            [arrived, (received, np.cumsum(received) - received), row],
        )
    return arrived
