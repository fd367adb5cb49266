"""Arrays of several axes shared out over the ranks, and turned so that each axis is whole in turn.

A Fourier transform of several axes takes each of them whole.  An array in *slabs* has one axis
shared out: no more ranks than its length have a part.  In *pencils* two axes are shared out, over
the rows and the columns of a grid of ranks; an array of n x n x n numbers then serves up to n^2
ranks, in two transpositions within rows and within columns of the grid, which send no more each
than the one transposition of slabs (Pekurovsky 2012, "P3DFFT: a framework for parallel
computations of Fourier transforms in three dimensions").
"""

from __future__ import annotations

import itertools
from typing import cast

import numpy as np

from thalweg.parallel import MPI, Layout, even_starts, exchange_rows


def grid_shape(ranks: int, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of a grid of ranks for an array of which two axes are shared out.

    It has at most as many rows and columns as the axes are long: ``(ranks, 1)``, slabs, up to
    ``rows`` ranks, and beyond, the grid of most ranks, and of those the one nearest to a square, in
    which a rank sends the fewest messages.
    """
    if ranks <= rows:
        return ranks, 1
    shapes = [(a, min(ranks // a, columns)) for a in range(1, max(1, rows) + 1)]
    return max(shapes, key=lambda shape: (shape[0] * shape[1], -sum(shape)))


class RankGrid:
    """Ranks in rows and columns: rank ``a * columns + b`` has row a and column b.  Collective.

    Ranks beyond the product of ``shape`` have no part in arrays on the grid.  The ranks of this
    one's column, one of each row, are ``along``, and those of its row ``across``.
    """

    def __init__(self, comm: MPI.Comm, shape: tuple[int, int]) -> None:
        self.comm, self.shape = comm, shape
        self.takes_part = comm.rank < shape[0] * shape[1]
        self.along: MPI.Comm
        self.across: MPI.Comm
        if shape == (comm.size, 1):
            self.along, self.across = comm, MPI.COMM_SELF
        elif shape == (1, comm.size):
            self.along, self.across = MPI.COMM_SELF, comm
        else:
            self.along, self.across = _split(comm, shape)

    def owners(self, first: np.ndarray, second: np.ndarray, lengths: tuple[int, int]) -> np.ndarray:
        """Ranks that have the entries ``(first, second)`` of axes of these lengths, shared out."""
        rows, columns = (
            np.searchsorted(even_starts(length, parts)[1:], places, side="right")
            for places, length, parts in zip((first, second), lengths, self.shape, strict=True)
        )
        return np.asarray(rows * self.shape[1] + columns)

    def transpositions(
        self, first: int, second: int, turned: int, last: int
    ) -> tuple[Transposition, Transposition]:
        """Turns of an array of three axes, whose lengths are transformed one after another.

        Axes of the lengths ``first`` and ``second`` are shared out over the grid's rows and columns
        at first; once they are transformed, the second and the last have the lengths ``turned`` and
        ``last``.  Gives the turn from a whole last axis to a whole second axis, and that from there
        to a whole first axis.
        """
        if not self.takes_part:
            first = second = turned = last = 0
        return (
            Transposition(self.across, second, last, (1, 2)),
            Transposition(self.along, first, turned, (0, 1)),
        )


class Transposition:
    """An array with one axis shared out over the ranks, turned so that another one is, and back.

    ``rows`` and ``columns`` are the lengths of the two axes, either of which is shared out evenly,
    and ``axes`` their numbers.  Each rank sends 1 - 1/P of its part, in P - 1 messages.
    """

    def __init__(self, comm: MPI.Comm, rows: int, columns: int, axes: tuple[int, int]) -> None:
        self.rows, self.columns = Layout(comm, rows), Layout(comm, columns)
        self._axes = axes

    def to_columns(self, block: np.ndarray) -> np.ndarray:
        """From this rank's part of the rows, and all columns, to the opposite.  Collective."""
        row_axis, column_axis = self._axes
        return _turned(block, self.columns, column_axis, self.rows, row_axis)

    def to_rows(self, block: np.ndarray) -> np.ndarray:
        """From this rank's part of the columns, and all rows, to the opposite.  Collective."""
        row_axis, column_axis = self._axes
        return _turned(block, self.rows, row_axis, self.columns, column_axis)


def _turned(
    block: np.ndarray, split: Layout, split_axis: int, joined: Layout, joined_axis: int
) -> np.ndarray:
    """``block`` with one axis, which is whole, cut up for the ranks, and another one made whole."""
    shape = list(block.shape)
    shape[split_axis], shape[joined_axis] = split.local_rows, joined.rows
    if split.comm.size == 1 and list(block.shape) == shape:
        return block
    others = [n for axis, n in enumerate(shape) if axis not in (split_axis, joined_axis)]
    width = int(np.prod(others, dtype=np.int64))
    sent = split.counts() * (width * joined.local_rows)
    received = joined.counts() * (width * split.local_rows)
    before = (slice(None),) * split_axis
    parts = [block[(*before, slice(i, j))].ravel() for i, j in itertools.pairwise(split.starts)]
    received_entries = exchange_rows(split.comm, np.concatenate(parts), sent, received)
    if joined_axis == 0:
        return received_entries.reshape(shape)
    whole = np.empty(shape, block.dtype)
    places = np.concatenate([[0], np.cumsum(received)])
    before = (slice(None),) * joined_axis
    for rank, (i, j) in enumerate(itertools.pairwise(joined.starts)):
        target = whole[(*before, slice(i, j))]
        target[...] = received_entries[places[rank] : places[rank + 1]].reshape(target.shape)
    return whole


#: Shape of a grid to the communicators of this rank's column and row.
_Grids = dict[tuple[int, int], tuple[MPI.Comm, MPI.Comm]]

_keyval: list[int] = []


def _split(comm: MPI.Comm, shape: tuple[int, int]) -> tuple[MPI.Comm, MPI.Comm]:
    """Communicators of this rank's column and row of a grid, made once.  Collective at first."""
    if not _keyval:
        _keyval.append(MPI.Comm.Create_keyval(delete_fn=_free))
    made = cast(_Grids | None, comm.Get_attr(_keyval[0]))
    if made is None:
        made = {}
        comm.Set_attr(_keyval[0], made)  # once: MPI frees what it replaces
    if shape not in made:
        row, column = divmod(comm.rank, shape[1])
        beyond = comm.rank >= shape[0] * shape[1]
        colors = (MPI.UNDEFINED, MPI.UNDEFINED) if beyond else (column, row)
        along, across = (comm.Split(color, comm.rank) for color in colors)
        made[shape] = (MPI.COMM_SELF, MPI.COMM_SELF) if beyond else (along, across)
    return made[shape]


def _free(comm: MPI.Comm, keyval: int, made: _Grids) -> None:
    if not MPI.Is_finalized():
        for one in (one for pair in made.values() for one in pair):
            if one != MPI.COMM_SELF:
                one.Free()
