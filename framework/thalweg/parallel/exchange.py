"""Rows that a rank needs of others: a plan, and its execution on PETSc's star forests.

A sparse matrix whose rows are distributed multiplies its rank's rows, and those rows of other
ranks that its columns name: the *ghost rows*.  A plan says which they are; it is a value, made
without communication.  An exchange fetches them, and adds what was gathered for them to their
owners' rows; both may overlap with work on this rank's own rows.

The model is PETSc's star forest: an owned row is a root, its copies on other ranks are leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from mpi4py import MPI

from thalweg.parallel.layout import Layout, row_bytes
from thalweg.parallel.petsc import PETSc
from thalweg.parallel.traffic import count_messages


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
    def of(cls, layout: Layout, rows: np.ndarray) -> RowPlan:
        """Plan for these global row numbers, such as the column indices of a CSR matrix.

        They may be repeated, in any order, and this rank's own may be among them.
        """
        rows = np.unique(rows).astype(np.int64)  # sorted as they are given, mostly in 32 bits
        if rows.size and not 0 <= rows[0] <= rows[-1] < layout.rows:
            raise ValueError(f"row numbers must lie in 0 to {layout.rows - 1}")
        return cls(layout, rows[(rows < layout.start) | (rows >= layout.stop)])

    @cached_property
    def owners(self) -> np.ndarray:
        """Rank that owns each ghost row."""
        return self.layout.owners(self.ghosts)

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Positions of rows among this rank's rows followed by the ghost rows; int64.

        Every row must be one of this rank's, or a ghost row.
        """
        rows = np.asarray(rows)
        found = rows.astype(np.int64)
        found -= self.layout.start
        away = (found < 0) | (found >= self.layout.local_rows)
        found[away] = np.searchsorted(self.ghosts, rows[away]) + self.layout.local_rows
        return found


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
        self._forest = PETSc.SF().create(layout.comm)
        remote = np.stack([plan.owners, plan.ghosts - layout.starts[plan.owners]], axis=1)
        self._forest.setGraph(layout.local_rows, None, remote.astype(PETSc.IntType))
        self._forest.setUp()
        wanted = np.bincount(plan.owners, minlength=layout.comm.size)
        given = np.empty_like(wanted)
        layout.comm.Alltoall(wanted, given)
        self.rows_sent = int(given.sum())
        self._receivers, self._owners = int((given > 0).sum()), int((wanted > 0).sum())
        self._units: dict[tuple[int, int], MPI.Datatype] = {}

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

    def begin_fetch(
        self, block: np.ndarray, out: np.ndarray | None = None
    ) -> Callable[[], np.ndarray]:
        """Begin to :meth:`fetch`; the function returned ends it, on all ranks.

        ``block`` must not change before.  ``out`` is where the ghost rows go, if given.
        """
        block = self._checked(block, self.plan.layout.local_rows)
        if out is None:
            out = np.empty((len(self.plan.ghosts), *block.shape[1:]), block.dtype)
        received = self._checked(out, len(self.plan.ghosts))
        if received is not out or out.shape[1:] != block.shape[1:] or out.dtype != block.dtype:
            raise ValueError("the ghost rows must be C-contiguous, of the block's type and shape")
        if row_bytes(block) == 0:
            return lambda: received
        unit = self._unit(MPI.BYTE, row_bytes(block))
        roots, leaves = (array.reshape(-1).view(np.uint8) for array in (block, received))
        count_messages(self.rows_sent * row_bytes(block), self._receivers)
        self._forest.bcastBegin(unit, roots, leaves, MPI.REPLACE)

        def end() -> np.ndarray:
            self._forest.bcastEnd(unit, roots, leaves, MPI.REPLACE)
            return received

        return end

    def add(self, contributions: np.ndarray, block: np.ndarray) -> None:
        """Add what this rank gathered for its ghost rows to their owners' ``block``, in place.

        Parameters
        ----------
        contributions
            Shape ``(ghosts, ...)``.
        block
            This rank's rows, shape ``(local_rows, ...)``, C-contiguous, of the same dtype: real
            numbers.  Other dtypes than float64 travel as float64.
        """
        self._combine(contributions, block, MPI.SUM)

    def minimum(self, candidates: np.ndarray, block: np.ndarray) -> None:
        """As :meth:`add`, but ``block`` gets the least of its own and all candidates."""
        self._combine(candidates, block, MPI.MIN)

    def _combine(self, given: np.ndarray, block: np.ndarray, op: MPI.Op) -> None:
        if given.dtype != block.dtype or given.shape[1:] != block.shape[1:]:
            raise ValueError("contributions must have the type and row shape of the block")
        if not block.flags.c_contiguous:
            raise ValueError("the block must be C-contiguous")
        # PETSc's forests add up doubles alone, whatever its precision of the rest.
        sums = block if block.dtype == np.float64 else block.astype(np.float64)
        sent = self._checked(given.astype(np.float64, copy=False), len(self.plan.ghosts))
        self._checked(sums, self.plan.layout.local_rows)
        if row_bytes(sums) == 0:
            return
        unit = self._unit(MPI.DOUBLE, row_bytes(sums) // sums.itemsize)
        count_messages(len(sent) * unit.size, self._owners)
        self._forest.reduceBegin(unit, sent, sums, op)
        self._forest.reduceEnd(unit, sent, sums, op)
        if sums is not block:
            block[...] = sums

    @staticmethod
    def _checked(array: np.ndarray, rows: int) -> np.ndarray:
        if array.shape[:1] != (rows,):
            raise ValueError(f"an array of shape {array.shape} is not one of {rows} rows")
        if array.dtype.hasobject:
            raise ValueError("arrays of Python objects cannot be sent")
        return np.ascontiguousarray(array)

    def _unit(self, kind: MPI.Datatype, count: int) -> MPI.Datatype:
        # A row is one item.  PETSc knows a single double by its own name alone.
        if count == 1:
            return kind
        key = (kind.size, count)
        if key not in self._units:
            self._units[key] = kind.Create_contiguous(count).Commit()
        return self._units[key]

    def destroy(self) -> None:
        """Free what PETSc and MPI hold."""
        self._forest.destroy()
        for unit in self._units.values():
            unit.Free()
        self._units.clear()


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
    exchange = RowExchange(plan)
    found = exchange.with_ghosts(block)[plan.positions(rows)]
    exchange.destroy()
    return np.asarray(found)
