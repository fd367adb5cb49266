"""Connected components of a graph whose rows are distributed, and sums over them."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from thalweg.parallel.layout import Layout
from thalweg.parallel.reductions import any_over_ranks, sum_large

_TAG = 24003

#: Entries of a dense block that are turned into edges at once.
_ENTRIES = 2**22


def component_labels(
    layout: Layout, weights: scipy.sparse.csr_matrix | np.ndarray
) -> tuple[int, np.ndarray]:
    """Components of the graph whose edges are the non-zero weights.  Collective.

    Parameters
    ----------
    layout
        Distribution of the rows.
    weights
        This rank's rows, shape ``(local_rows, rows)``, sparse or dense.

    Returns
    -------
    count : int
        Number of components.
    labels : ndarray of int32, shape (local_rows,)
        Component of each of this rank's rows, from 0.

    Notes
    -----
    Each rank reduces its edges to a spanning forest.  The forests, of fewer than N
    edges, are merged pairwise in log2(ranks) rounds, so that no rank ever holds more than
    two of them.
    """
    comm = layout.comm
    if not scipy.sparse.issparse(weights) and _has_full_row(layout, np.asarray(weights)):
        return 1, np.zeros(layout.local_rows, dtype=np.int32)
    labels = _local_labels(layout, weights)
    reach = 1
    while reach < comm.size:
        if comm.rank % (2 * reach) == reach:
            comm.Send(labels, comm.rank - reach, _TAG)
            break
        if comm.rank + reach < comm.size:
            other = np.empty(layout.rows, dtype=np.int32)
            comm.Recv(other, comm.rank + reach, _TAG)
            labels = _merged(labels, other)
        reach *= 2
    comm.Bcast(labels, root=0)
    count = int(labels.max()) + 1 if layout.rows else 0
    return count, labels[layout.start : layout.stop].copy()


def _has_full_row(layout: Layout, weights: np.ndarray) -> bool:
    # One row with all its neighbours connects everything: so it is with most dense weights.
    full = any(
        np.count_nonzero(row) - bool(row[layout.start + i]) == layout.rows - 1
        for i, row in enumerate(weights[:8])
    )
    return any_over_ranks(layout.comm, full)


def _local_labels(layout: Layout, weights: scipy.sparse.csr_matrix | np.ndarray) -> np.ndarray:
    """Components of all N rows by the edges of this rank alone."""
    rows, height = layout.rows, layout.local_rows
    labels = np.arange(rows, dtype=np.int32)
    step = max(1, height if scipy.sparse.issparse(weights) else _ENTRIES // max(1, rows))
    for top in range(0, height, step):
        block = scipy.sparse.coo_array(weights[top : top + step])
        first, second = np.int32(layout.start + top) + block.row, block.col
        edges = block.data != 0
        labels = _joined(rows, labels, first[edges], second[edges])
    return labels


def _joined(rows: int, labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    graph = scipy.sparse.coo_array(
        (np.ones(len(first), dtype=np.int8), (labels[first], labels[second])), shape=(rows, rows)
    )
    return connected_components(graph, directed=False)[1][labels].astype(np.int32)


def _merged(labels: np.ndarray, other: np.ndarray) -> np.ndarray:
    # Each row is joined to the first row of its component in the other forest.
    representatives = np.unique(other, return_index=True)[1]
    rows = np.arange(len(labels))
    return _joined(len(labels), labels, rows, representatives[other])


class MeanRemoval:
    """Takes the mean over each of some components off the columns of an array.

    Parameters
    ----------
    layout
        Distribution of the rows; its columns have no meaning here.
    count, labels
        From :func:`component_labels`.
    chosen
        Whether a component's mean is taken off, shape ``(count,)``, equal on all ranks.
    """

    def __init__(self, layout: Layout, count: int, labels: np.ndarray, chosen: np.ndarray) -> None:
        self.layout = layout
        sizes = np.bincount(labels, minlength=count).astype(np.int64)
        sum_large(layout.comm, sizes)
        self.active = bool(chosen.any())
        self.everywhere = count == 1 and self.active
        number = np.where(chosen, np.cumsum(chosen) - 1, -1)[labels]
        self.rows = np.flatnonzero(number >= 0)
        self.number = number[self.rows]
        self.sizes = sizes[chosen]

    def apply(self, block: np.ndarray) -> None:
        """Take the means off this rank's ``(local_rows, columns)`` block, in place.  Collective."""
        if not self.active:
            return
        if self.everywhere:
            total = block.sum(axis=0)[None]
            block -= sum_large(self.layout.comm, total) / self.sizes[:, None]
            return
        totals = np.zeros((len(self.sizes), block.shape[1]))
        for column in range(block.shape[1]):
            totals[:, column] = np.bincount(
                self.number, weights=block[self.rows, column], minlength=len(self.sizes)
            )
        means = sum_large(self.layout.comm, totals) / self.sizes[:, None]
        block[self.rows] -= means[self.number]
        # A lone row is its own mean, exactly.
        block[self.rows[self.sizes[self.number] == 1]] = 0.0

    def null_vectors(self, limit: int) -> list[np.ndarray]:
        """This rank's rows of the unit vectors that :meth:`apply` projects out, if few."""
        if len(self.sizes) > limit:
            return []
        vectors = []
        for number, size in enumerate(self.sizes):
            vector = np.zeros(self.layout.local_rows)
            vector[self.rows[self.number == number]] = 1.0 / np.sqrt(size)
            vectors.append(vector)
        return vectors
