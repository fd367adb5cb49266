"""Rows that a rank needs of others, by a plan; and rows sent to ranks that their holder chooses.

A sparse matrix whose rows are distributed multiplies its rank's rows, and those rows of other
ranks that its columns name: the *ghost rows*.  A plan says which they are; it is a value, made
without communication.  An exchange fetches them, and adds what was gathered for them to their
owners' rows; a fetch may overlap with work on this rank's own rows.  Routes are all-to-all
exchanges whose messages shrink with the ranks, such as of points to the rank of their cell.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from mpi4py import MPI

from thalweg.parallel.kernels import kernel
from thalweg.parallel.layout import Layout, begin_transfer, row_bytes, row_type
from thalweg.parallel.traffic import count_messages

#: Marks of the messages that bring ghost rows, and of those that bring contributions to them.
FETCHED, GATHERED = 71, 72

#: A table of all numbers in a range costs less than sorting those that occur: up to so many each.
MOST_MARKS = 4

#: What is under way.  Messages read and write its arrays, also where an error keeps them from
#: being waited for.
_under_way: dict[int, list[MPI.Request]] = {}

#: Ranks, and the rows that go to them or come from them.
Parts = list[tuple[int, slice]]


@dataclass(frozen=True)
class RowPlan:
    """Which rows of other ranks a rank needs.  No part of it communicates.

    Attributes
    ----------
    layout
        Distribution of the rows; its number of columns has no meaning here.
    ghosts
        Global numbers of the rows needed of other ranks, ascending, each once; int64.
    """

    layout: Layout
    ghosts: np.ndarray

    @classmethod
    def of(cls, layout: Layout, rows: np.ndarray) -> Self:
        """Plan for these global row numbers, such as the column indices of a CSR matrix.

        They may be repeated, in any order, and this rank's own may be among them.
        """
        rows = np.asarray(rows)
        if rows.size and not 0 <= rows.min() <= rows.max() < layout.rows:
            raise ValueError(f"row numbers must lie in 0 to {layout.rows - 1}")
        away = rows[(rows < layout.start) | (rows >= layout.stop)]  # far fewer than all, mostly
        if not away.size or np.ptp(away) > MOST_MARKS * away.size:
            return cls(layout, np.unique(away).astype(np.int64))
        return cls(layout, np.flatnonzero(np.bincount(away - away.min())) + int(away.min()))

    @cached_property
    def owners(self) -> np.ndarray:
        """Rank that owns each ghost row."""
        return self.layout.owners(self.ghosts)

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Positions of rows among this rank's rows followed by the ghost rows; int64.

        Every row must be one of this rank's, or a ghost row.
        """
        rows = np.asarray(rows)
        places = rows.astype(np.int64)
        places -= self.layout.start
        away = (places < 0) | (places >= self.layout.local_rows)
        rows = rows[away]
        if not rows.size or np.ptp(self.ghosts) > MOST_MARKS * rows.size:
            ghosts = np.searchsorted(self.ghosts, rows)
        else:
            table = np.empty(np.ptp(self.ghosts) + 1, dtype=np.int64)
            table[self.ghosts - self.ghosts[0]] = np.arange(len(self.ghosts))
            ghosts = table[rows - self.ghosts[0]]
        places[away] = ghosts + self.layout.local_rows
        return places


class RowExchange:
    """Moves the rows of a plan.  Collective, as all its methods.

    Parameters
    ----------
    plan
        Rows that this rank needs; the ranks' plans have one layout.

    Attributes
    ----------
    rows_sent : int
        Rows that this rank sends in a fetch.

    Notes
    -----
    One message goes to each rank that needs rows of this one.  A message is counted in rows,
    so that 2**31 bytes are no limit.  Sums are in an order that the plans alone decide: the
    same bits every time.
    """

    def __init__(self, plan: RowPlan) -> None:
        self.plan = plan
        layout = plan.layout
        routes = RowRoutes(layout.comm, plan.owners)  # ascend, as ghosts do
        self._asked = routes.deliver(plan.ghosts - layout.starts[plan.owners])
        self.rows_sent = len(self._asked)
        self._owners, self._receivers = _parts(routes.sent), _parts(routes.received)

    def fetch(self, block: np.ndarray) -> np.ndarray:
        """The ghost rows of an array of which ``block`` are this rank's rows.

        Parameters
        ----------
        block
            Shape ``(local_rows, ...)``, of any dtype without Python objects.

        Returns
        -------
        ndarray, shape (ghosts, ...)
        """
        return self.begin_fetch(block)()

    def with_ghosts(self, block: np.ndarray) -> np.ndarray:
        """This rank's rows followed by the ghost rows: ``block`` itself where there are none.

        :meth:`RowPlan.positions` gives the place of a row in it.
        """
        ghosts = self.fetch(block)
        return np.concatenate([block, ghosts]) if len(ghosts) else np.asarray(block)

    def begin_fetch(self, block: np.ndarray) -> Callable[[], np.ndarray]:
        """Begin to :meth:`fetch`; the function returned ends it, on all ranks.

        ``block`` must not change before.
        """
        block = self._checked(block, self.plan.layout.local_rows)
        received = np.empty((len(self.plan.ghosts), *block.shape[1:]), block.dtype)
        if row_bytes(block) == 0:
            return lambda: received
        count_messages(self.rows_sent * row_bytes(block), len(self._receivers))
        leaving = block.take(self._asked, axis=0)  # quicker than by brackets
        return self._send(leaving, self._receivers, received, self._owners, FETCHED)

    def add(self, contributions: np.ndarray, block: np.ndarray) -> None:
        """Add what this rank gathered for its ghost rows to their owners' ``block``, in place.

        Parameters
        ----------
        contributions
            Shape ``(ghosts, ...)``.
        block
            This rank's rows, shape ``(local_rows, ...)``, C-contiguous, of the same dtype: real
            numbers.
        """
        received = self._gather(contributions, block)
        if received.size:
            rows = block.reshape(len(block), -1)
            _add_rows(self._asked, received.reshape(len(received), -1), rows)

    def minimum(self, candidates: np.ndarray, block: np.ndarray) -> None:
        """As :meth:`add`, but ``block`` gets the least of its own and all candidates."""
        np.minimum.at(block, self._asked, self._gather(candidates, block))

    def _gather(self, ghosts: np.ndarray, block: np.ndarray) -> np.ndarray:
        """What the other ranks gathered for the rows that they asked for."""
        if ghosts.dtype != block.dtype or ghosts.shape[1:] != block.shape[1:]:
            raise ValueError("contributions must have the type and row shape of the block")
        if not block.flags.c_contiguous:
            raise ValueError("the block must be C-contiguous")
        sent = self._checked(ghosts, len(self.plan.ghosts))
        self._checked(block, self.plan.layout.local_rows)
        received = np.empty((self.rows_sent, *block.shape[1:]), block.dtype)
        if row_bytes(block):
            count_messages(sent.nbytes, len(self._owners))
            self._send(sent, self._owners, received, self._receivers, GATHERED)()
        return received

    def _send(
        self, leaving: np.ndarray, receivers: Parts, coming: np.ndarray, senders: Parts, tag: int
    ) -> Callable[[], np.ndarray]:
        """Begin to send and to receive parts of rows; the function returned waits for them."""
        comm = self.plan.layout.comm
        requests = [begin_transfer(comm.Irecv, coming[p], rank, tag) for rank, p in senders]
        requests += [begin_transfer(comm.Isend, leaving[p], rank, tag) for rank, p in receivers]
        _under_way[id(requests)] = requests

        def end() -> np.ndarray:
            MPI.Request.Waitall(requests)
            _under_way.pop(id(requests), None)
            return coming

        return end

    @staticmethod
    def _checked(array: np.ndarray, rows: int) -> np.ndarray:
        if array.shape[:1] != (rows,):
            raise ValueError(f"an array of shape {array.shape} is not one of {rows} rows")
        if array.dtype.hasobject:
            raise ValueError("arrays of Python objects cannot be sent")
        return np.ascontiguousarray(array)


def _parts(counts: np.ndarray) -> Parts:
    """The ranks that have a part of rows ordered by rank, with it."""
    stops = np.cumsum(counts).tolist()
    parts = [slice(stop - count, stop) for stop, count in zip(stops, counts.tolist(), strict=True)]
    return [(rank, part) for rank, part in enumerate(parts) if part.stop > part.start]


@kernel()
def _add_rows(places, rows, sums):  # type: ignore[no-untyped-def]
    """Add rows, in their order, at places that may repeat."""
    for n in range(len(places)):
        owned = sums[places[n]]
        for c in range(rows.shape[1]):
            owned[c] += rows[n, c]


def rows_at(layout: Layout, block: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of a distributed array by their global numbers, for once.  Collective.

    Parameters
    ----------
    layout
        Distribution of the rows.
    block
        This rank's rows, shape ``(local_rows, ...)``.
    rows
        Numbers of the rows wanted here, each from 0 to ``layout.rows - 1``.

    Returns
    -------
    ndarray, shape (len(rows), ...)
    """
    plan = RowPlan.of(layout, rows)
    return np.asarray(RowExchange(plan).with_ghosts(block)[plan.positions(rows)])


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
    sent, received : ndarray of int64, shape (comm.size,)
        Rows that go to each rank, and come from each; they arrive in the order of ranks.

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
        self._order = np.argsort(small, kind="stable")
        self.rows = self._order if rows is None else np.asarray(rows, dtype=np.int64)[self._order]
        self.sent = np.bincount(destinations, minlength=comm.size).astype(np.int64)
        self.received = np.empty_like(self.sent)
        comm.Alltoall(self.sent, self.received)

    def deliver(self, block: np.ndarray) -> np.ndarray:
        """Rows that other ranks, and this one, sent here: shape (received.sum(), ...).

        ``block`` holds this rank's rows, of any dtype without Python objects.
        """
        return exchange_rows(self.comm, block[self.rows], self.sent, self.received)

    def give_back(self, values: np.ndarray) -> np.ndarray:
        """Values that the receivers return for the rows sent, in the order of the routes as given.

        ``values`` are this rank's answers to what :meth:`deliver` brought, in that order.
        """
        returned = exchange_rows(self.comm, values, self.received, self.sent)
        given = np.empty_like(returned)
        given[self._order] = returned
        return given


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
