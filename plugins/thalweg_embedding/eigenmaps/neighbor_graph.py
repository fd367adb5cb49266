"""Neighbors that connect all points, and the weights with which they rebuild a point."""

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from thalweg.data import Dataset
from thalweg.engines.laplacian import component_labels
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.errors import InputError
from thalweg.parallel import Layout, Ring, RowExchange, RowPlan, sum_over_ranks

#: Numbers that a block of distances, or of neighbors and their Gram matrices, holds at once.
BLOCK = 2**22


def neighbor_graph(dataset: Dataset, count: int) -> tuple[scipy.sparse.csr_matrix, int]:
    """The nearest neighbors of each point, and the number of their graph's components.  Collective.

    A one in the graph, shape (local_rows, rows), is a neighbor of this rank's points.  Where the
    graph of the ``count`` nearest has several components, the pairs of :func:`nearest_pairs` are
    neighbors of each other too.
    """
    layout = dataset.layout
    if layout.rows < 3:
        raise InputError(
            f"an embedding needs at least 3 points, and the data have n_samples = {layout.rows}"
        )
    if not 1 <= count < layout.rows:
        raise InputError(
            f"the number of neighbors must be at least 1 and less than the {layout.rows} points, "
            f"not {count}"
        )
    indices, _ = nearest_neighbors(layout, dataset.values, count)
    starts = np.arange(0, indices.size + 1, count)
    shape = (layout.local_rows, layout.rows)
    graph = scipy.sparse.csr_matrix((np.ones(indices.size), indices.ravel(), starts), shape=shape)
    components, labels = component_labels(layout, graph)
    if components > 1:
        pairs = nearest_pairs(layout, dataset.values, components, labels)
        ends = np.concatenate([pairs, pairs[:, ::-1]])
        ends = ends[(ends[:, 0] >= layout.start) & (ends[:, 0] < layout.stop)]
        edges = (np.ones(len(ends)), (ends[:, 0] - layout.start, ends[:, 1]))
        graph = (graph + scipy.sparse.csr_matrix(edges, shape=shape)).tocsr()
    return graph, components


def nearest_pairs(layout: Layout, values: np.ndarray, count: int, labels: np.ndarray) -> np.ndarray:
    """Pairs of rows that connect components with the least sum of distances.  Collective.

    They are the edges of a minimum spanning tree of all points that lead from one component to
    another, found as by Boruvka (1926): each component but the largest takes its nearest pair, and
    those that are now connected are one, until one is left.  ``count`` and ``labels`` are from
    :func:`~thalweg.engines.laplacian.component_labels`; the pairs are global row numbers, the same
    on all ranks.
    """
    labels, pairs = labels.astype(np.int64), []
    while count > 1:
        sizes = np.bincount(labels, minlength=count).astype(float)
        largest = np.argmax(np.asarray(sum_over_ranks(layout.comm, sizes)))
        table = _shortest(_nearest_of_others(layout, values, labels, int(largest)))
        table = _shortest(np.concatenate(layout.comm.allgather(table)))
        pairs.append(table[:, 2:4].astype(np.int64))
        joined = (np.ones(len(table)), table[:, [0, 4]].astype(np.int64).T)
        graph = scipy.sparse.coo_matrix(joined, shape=(count, count))
        count, merged = connected_components(graph, directed=False)
        labels = merged[labels]
    return np.unique(np.concatenate(pairs), axis=0)


def _nearest_of_others(
    layout: Layout, values: np.ndarray, labels: np.ndarray, largest: int
) -> np.ndarray:
    """The nearest row of another component, of each row that is not of the largest.

    Columns: component, squared distance, lower and higher row number, the other component.
    """
    asking = np.flatnonzero(labels != largest)
    own, points = labels[asking], values[asking].astype(float)
    squared = np.full(len(asking), np.inf)
    nearest, other = np.full((2, len(asking)), layout.rows)
    for block in Ring(layout).blocks(np.asarray(values), labels):
        rows, theirs = block.arrays
        step = max(1, BLOCK // max(1, len(rows)))
        for first in range(0, len(asking) if len(rows) else 0, step):
            part = slice(first, first + step)
            distances = cdist(points[part], rows.astype(float), "sqeuclidean")
            distances[own[part, None] == theirs] = np.inf
            near = distances.argmin(axis=1)
            least, number = distances[np.arange(len(near)), near], block.start + near
            earlier = (least == squared[part]) & (number < nearest[part])
            better = (least < squared[part]) | earlier
            for best, new in ((squared, least), (nearest, number), (other, theirs[near])):
                best[part][better] = new[better]
    ends = np.sort([layout.start + asking, nearest], axis=0)
    return np.column_stack([own, squared, *ends, other])


def _shortest(table: np.ndarray) -> np.ndarray:
    """The first row of each component, by squared distance, lower and higher row number."""
    table = table[np.lexsort(table[:, 3::-1].T)]
    return np.asarray(table[np.unique(table[:, 0], return_index=True)[1]])


def reconstruction_weights(
    dataset: Dataset, graph: scipy.sparse.csr_matrix, regularization: float
) -> scipy.sparse.csr_matrix:
    """This rank's rows of the weights with which neighbors rebuild each point.  Collective."""
    plan = RowPlan.of(dataset.layout, graph.indices)
    exchange = RowExchange(plan)
    known = exchange.with_ghosts(np.asarray(dataset.values))
    positions, counts = plan.positions(graph.indices), np.diff(graph.indptr)
    weights = np.empty(graph.nnz)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        step = max(1, BLOCK // int(count * (count + known.shape[1])))
        for part in (rows[first : first + step] for first in range(0, len(rows), step)):
            entries = graph.indptr[part][:, None] + np.arange(count)
            differences = known[positions[entries]] - known[part][:, None, :].astype(float)
            weights[entries] = barycentric_weights(differences, regularization)
    return scipy.sparse.csr_matrix((weights, graph.indices, graph.indptr), shape=graph.shape)


def barycentric_weights(differences: np.ndarray, regularization: float) -> np.ndarray:
    """Weights, of sum 1, of the combinations of neighbors that come closest to points.

    ``differences`` of neighbors and point have shape (points, neighbors, features).  The share
    ``regularization`` of the trace of a local Gram matrix is added to its diagonal.
    """
    gram = np.einsum("nkd,nld->nkl", differences, differences, optimize=True)
    trace = np.trace(gram, axis1=1, axis2=2)
    # A point that coincides with all its neighbors is their mean.
    added = np.where(trace > 0.0, regularization * trace, 1.0)
    gram += added[:, None, None] * np.eye(gram.shape[1])
    weights = np.linalg.solve(gram, np.ones((*gram.shape[:2], 1)))[..., 0]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
