"""Connected components of a graph whose rows are distributed, and sums over them."""

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from thalweg.engines.laplacian.contract import MatrixRows
from thalweg.parallel import Layout, RowExchange, RowPlan, any_over_ranks, rows_at, sum_large

#: Entries of a dense block that are turned into edges at once: their places take 64 MiB.
_ENTRIES = 2**22


def component_labels(layout: Layout, weights: MatrixRows) -> tuple[int, np.ndarray]:
    """Components of the graph whose edges are the non-zero weights.  Collective.

    Parameters
    ----------
    layout
        Distribution of the rows.
    weights
        This rank's rows, shape ``(local_rows, rows)``, sparse or dense.  An edge counts both
        ways, even if the weights do not.

    Returns
    -------
    count : int
        Number of components.
    labels : ndarray of int32, shape (local_rows,)
        Component of each of this rank's rows, from 0, by the first row of each.

    Notes
    -----
    Each rank joins what its own edges connect.  Then rows pass the least row number that
    they have heard of to their neighbors and to that row itself, and take over what that row
    has heard (pointer jumping), until nothing changes: the number of rounds grows with the
    logarithm of the rows, as in Shiloach and Vishkin (1982).  A rank holds its own rows and those
    that its edges name.
    """
    if isinstance(weights, np.ndarray):
        # One row with all its neighbors connects everything: so it is with most dense weights.
        rows, all_others = enumerate(weights[:8], layout.start), layout.rows - 1
        full = any(np.count_nonzero(row) - bool(row[i]) == all_others for i, row in rows)
        if any_over_ranks(layout.comm, full):
            return 1, np.zeros(layout.local_rows, dtype=np.int32)
        columns = np.flatnonzero(weights.any(axis=0))
    else:
        columns = weights.indices
    plan = RowPlan.of(layout, columns)
    clusters = _clusters(plan, weights)
    exchange = RowExchange(plan)
    count = layout.local_rows
    numbers = np.concatenate([np.arange(layout.start, layout.stop), plan.ghosts])
    least = _least_of_each(clusters, numbers)[:count]
    while True:
        before = least.copy()
        known = _least_of_each(clusters, np.concatenate([least, exchange.fetch(least)]))
        least[...] = known[:count]
        exchange.minimum(known[count:], least)
        _lower(layout, before, least)
        least = rows_at(layout, least, least)
        if not any_over_ranks(layout.comm, bool((least != before).any())):
            break
    first = least == np.arange(layout.start, layout.stop)  # of its component
    firsts = np.asarray(layout.comm.allgather(int(first.sum())))
    offset = firsts[: layout.comm.rank].sum()
    labels = rows_at(layout, np.where(first, offset + np.cumsum(first) - 1, -1), least)
    return int(firsts.sum()), labels.astype(np.int32)


def _clusters(plan: RowPlan, weights: MatrixRows) -> np.ndarray:
    """Components by this rank's edges alone, of its own rows followed by the ghost rows."""
    height, width = plan.layout.local_rows, plan.layout.rows
    nodes = height + len(plan.ghosts)
    clusters = np.arange(nodes)
    if isinstance(weights, np.ndarray):
        step = max(1, _ENTRIES // max(1, width))
    else:
        # As many edges at once as nodes, which each turn visits: no more time, and less memory.
        edges_per_row = max(1, weights.nnz // max(1, height))
        step = max(1, max(_ENTRIES // 64, 2 * nodes) // edges_per_row)
    for top in range(0, height, step):
        block = scipy.sparse.coo_array(weights[top : top + step])
        edges = block.data != 0
        first, second = top + block.row[edges], plan.positions(block.col[edges])
        graph = scipy.sparse.coo_array(
            (np.ones(len(first), dtype=np.int8), (clusters[first], clusters[second])),
            shape=(nodes, nodes),
        )
        clusters = connected_components(graph, directed=False)[1][clusters]
    return clusters


def _least_of_each(clusters: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """For each node the least number in its cluster."""
    least = np.full(len(clusters), np.iinfo(np.int64).max)
    np.minimum.at(least, clusters, numbers)
    return least[clusters]


def _lower(layout: Layout, rows: np.ndarray, block: np.ndarray) -> None:
    """Lower each of ``block``'s entries at ``rows`` to this rank's entry beside it.  Collective."""
    plan = RowPlan.of(layout, rows)
    exchange = RowExchange(plan)
    lowest = np.full(len(block) + len(plan.ghosts), layout.rows)
    np.minimum.at(lowest, plan.positions(rows), block)
    np.minimum(block, lowest[: len(block)], out=block)
    exchange.minimum(lowest[len(block) :], block)


class MeanRemoval:
    """Takes the mean over each of some components off the columns of an array.

    ``count`` and ``labels`` are from :func:`component_labels`; ``chosen``, equal on all ranks, says
    of each component whether its mean is taken off.
    """

    def __init__(self, layout: Layout, count: int, labels: np.ndarray, chosen: np.ndarray) -> None:
        self.layout = layout
        sizes = np.bincount(labels, minlength=count).astype(np.int64)
        sum_large(layout.comm, sizes)
        self.everywhere = count == 1 and bool(chosen.any())
        number = np.where(chosen, np.cumsum(chosen) - 1, -1)[labels]
        self.rows = np.flatnonzero(number >= 0)
        self.number = number[self.rows]
        self.sizes = sizes[chosen]

    def apply(self, block: np.ndarray) -> None:
        """Take the means off this rank's ``(local_rows, columns)`` block, in place.  Collective."""
        if not len(self.sizes):
            return
        if self.everywhere:
            block -= sum_large(self.layout.comm, block.sum(axis=0)[None]) / self.sizes[:, None]
            return
        totals = np.zeros((len(self.sizes), block.shape[1]))
        for column in range(block.shape[1]):
            totals[:, column] = np.bincount(self.number, block[self.rows, column], len(self.sizes))
        block[self.rows] -= (sum_large(self.layout.comm, totals) / self.sizes[:, None])[self.number]
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
