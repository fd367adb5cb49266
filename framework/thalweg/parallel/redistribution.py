"""Rows sent to ranks that their holder chooses, such as points to the rank of their part of space.

These are all-to-all exchanges whose messages shrink with the ranks.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from mpi4py import MPI

from thalweg.parallel.layout import Layout, row_bytes, row_type
from thalweg.parallel.row_exchange import RowExchange, RowPlan, rows_at
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


class Relocation:
    """Rows of a layout at ranks chosen row by row, and their exchange in both directions.

    Rows that a graph's edges connect, or that lie close together, come to one rank: exchanges of
    ghost rows are then as small as the borders.  Collective, as all its methods.

    Parameters
    ----------
    layout
        Distribution of the rows.
    destinations
        Rank that each of this rank's rows goes to, shape (local_rows,).

    Attributes
    ----------
    origin : Layout
        Distribution of the rows as given.
    layout : Layout
        The same rows at their new places, where they have new numbers.
    """

    def __init__(self, layout: Layout, destinations: np.ndarray) -> None:
        self.origin = layout
        self._routes = RowRoutes(layout.comm, destinations)
        arrived = int(self._routes.received.sum())
        self.layout = Layout(layout.comm, layout.rows, layout.columns, local_rows=arrived)

    def forward(self, block: np.ndarray) -> np.ndarray:
        """The rows that are placed at this rank, from the ranks' rows ``block`` of the origin."""
        return self._routes.deliver(block)

    def backward(self, block: np.ndarray) -> np.ndarray:
        """This rank's rows of the origin, from the rows placed at the ranks: the inverse."""
        returned = self._routes.give_back(block)
        rows = np.empty_like(returned)
        rows[self._routes.rows] = returned
        return rows

    def original_numbers(self, rows: np.ndarray) -> np.ndarray:
        """Numbers in the origin of rows given by their new numbers; int64, of the same shape."""
        original = self.forward(np.arange(self.origin.start, self.origin.stop))
        return rows_at(self.layout, original, rows)

    def new_numbers(self, rows: np.ndarray) -> np.ndarray:
        """New numbers of rows given by their numbers in the origin; int64, of the same shape."""
        numbers = self.backward(np.arange(self.layout.start, self.layout.stop))
        return rows_at(self.origin, numbers, rows)

    def backward_matrix(self, matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
        """This rank's rows of the origin, of a square matrix with rows and columns as placed."""
        own = self.forward(np.arange(self.origin.start, self.origin.stop))
        rows = np.repeat(own, np.diff(matrix.indptr))
        routes = RowRoutes(self.origin.comm, self.origin.owners(rows))
        columns = routes.deliver(self.original_numbers(matrix.indices))
        entries = routes.deliver(matrix.data)
        rows = routes.deliver(rows) - self.origin.start
        shape = (self.origin.local_rows, self.origin.rows)
        return scipy.sparse.csr_matrix((entries, (rows, columns)), shape=shape)


class RowMatrix:
    """A matrix distributed by rows, which multiplies arrays distributed in the same way.

    Collective, as all its methods.

    Parameters
    ----------
    layout
        Distribution of the arrays' rows, and of the matrix's.
    rows
        This rank's rows, shape ``(local_rows, rows)``: a CSR matrix, or a dense array, which
        needs every row of what it multiplies.
    places
        Where the matrix's rows lie, if not where the arrays' do.
    """

    def __init__(
        self,
        layout: Layout,
        rows: scipy.sparse.csr_matrix | np.ndarray,
        places: Relocation | None = None,
    ) -> None:
        self._layout = layout = layout if places is None else places.layout
        self._rows, self._places = rows, places
        self._exchange: RowExchange | None = None
        if not isinstance(rows, np.ndarray):
            plan = RowPlan.of(layout, rows.indices)
            self._exchange = RowExchange(plan)
            self._rows = scipy.sparse.csr_matrix(
                (rows.data, plan.positions(rows.indices), rows.indptr),
                shape=(layout.local_rows, layout.local_rows + len(plan.ghosts)),
            )

    def multiply(self, block: np.ndarray) -> np.ndarray:
        """This rank's rows of the product with the array whose rows here are ``block``."""
        places = self._places
        here = block if places is None else places.forward(block)
        gather = self._layout.gather_rows if self._exchange is None else self._exchange.with_ghosts
        needed = gather(here)
        product = np.asarray(self._rows @ needed)
        return product if places is None else places.backward(product)

    def destroy(self) -> None:
        """Free the exchange."""
        if self._exchange is not None:
            self._exchange.destroy()


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
    found = np.empty((int(received.sum()), *block.shape[1:]), block.dtype)
    if row_bytes(block) == 0:
        return found
    others = np.arange(comm.size) != comm.rank
    count_messages(int(sent[others].sum()) * row_bytes(block), int((sent[others] > 0).sum()))
    with row_type(block) as row:
        comm.Alltoallv(
            [block, (sent, np.cumsum(sent) - sent), row],
            [found, (received, np.cumsum(received) - received), row],
        )
    return found
