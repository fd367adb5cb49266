"""Neighbors that connect all points, and the weights with which they rebuild a point."""

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from thalweg.data import Dataset
from thalweg.engines.laplacian import component_labels
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.errors import InputError
from thalweg.parallel import Layout, RowExchange, RowPlan, on_root

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
        raise InputError(f"an embedding needs at least 3 points, not n_samples = {layout.rows}")
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
    another, found on rank 0 as by Boruvka (1926): each component but the largest takes its nearest
    pair, and those that are now connected are one, until one is left.  ``count`` and ``labels`` are
    from :func:`~thalweg.engines.laplacian.component_labels`; the pairs are global row numbers.
    """
    points, whole = layout.gather_rows(values), layout.gather_rows(labels)
    return on_root(layout.comm, lambda: _spanning_pairs(points.astype(float), whole, count))


def _spanning_pairs(points: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    pairs = []
    while count > 1:
        asking = np.flatnonzero(labels != np.bincount(labels).argmax())
        squared, nearest = np.empty(len(asking)), np.empty(len(asking), dtype=np.int64)
        step = max(1, BLOCK // len(points))
        for part in (slice(first, first + step) for first in range(0, len(asking), step)):
            distances = cdist(points[asking[part]], points, "sqeuclidean")
            distances[labels[asking[part], None] == labels] = np.inf
            nearest[part], squared[part] = distances.argmin(axis=1), distances.min(axis=1)
        low, high = np.sort([asking, nearest], axis=0)
        order = np.lexsort((high, low, squared, labels[asking]))
        chosen = order[np.unique(labels[asking[order]], return_index=True)[1]]
        pairs.append(np.column_stack([low, high])[chosen])
        joined = labels[asking[chosen]], labels[nearest[chosen]]
        graph = scipy.sparse.coo_matrix((np.ones(len(chosen)), joined), shape=(count, count))
        count, merged = connected_components(graph, directed=False)
        labels = merged[labels]
    return np.unique(np.concatenate(pairs), axis=0)


def reconstruction_weights(
    dataset: Dataset, graph: scipy.sparse.csr_matrix, regularization: float
) -> scipy.sparse.csr_matrix:
    """This rank's rows of the weights with which neighbors rebuild each point.  Collective."""
    plan = RowPlan.of(dataset.layout, graph.indices)
    known = RowExchange(plan).with_ghosts(np.asarray(dataset.values))
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
