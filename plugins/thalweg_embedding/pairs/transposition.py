"""Arrays with one axis shared out over the ranks, turned so that each is whole once."""

import numpy as np

from thalweg.parallel import MPI, Layout, exchange_rows


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
    parts = np.split(block, split.starts[1:-1], axis=split_axis)
    entries = np.concatenate([part.ravel() for part in parts])
    pieces = np.split(exchange_rows(split.comm, entries, sent, received), np.cumsum(received)[:-1])
    shapes = ((*shape[:joined_axis], n, *shape[joined_axis + 1 :]) for n in joined.counts())
    shaped = [piece.reshape(each) for piece, each in zip(pieces, shapes, strict=True)]
    return np.concatenate(shaped, axis=joined_axis)
