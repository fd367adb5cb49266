"""Laplacian eigenmaps and locally linear embedding of a data set."""

from __future__ import annotations

import itertools
import logging
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, sum_over_ranks
from thalweg.parallel.laplacian import component_labels
from thalweg.parallel.pairs import Ring, nearest_neighbors
from thalweg.plugins import Help
from thalweg_embedding.affinities.build import entropic_affinities, given_affinities
from thalweg_embedding.affinities.symmetric import Weights, sum_of_parts, transposed
from thalweg_embedding.eigenmaps.objective import EigenvectorEmbedding
from thalweg_embedding.options import Dimensions, Perplexity

_logger = logging.getLogger("thalweg.embedding")


def laplacian_eigenmaps(
    dataset: Dataset,
    comm: MPI.Comm,
    *,
    dimensions: Dimensions = 2,
    affinity: Annotated[
        Literal["neighbors", "entropic", "precomputed"],
        Help("weights: 1 for near neighbors, entropic affinities, or the data are the weights"),
    ] = "neighbors",
    n_neighbors: Annotated[
        int,
        Help(
            "nearest neighbors of a point; doubled until their graph is connected",
            minimum=1,
            formerly=("count",),
        ),
    ] = 10,
    perplexity: Perplexity = None,
    normalized: Annotated[
        bool, Help("constraint with the degrees D", formerly=("normalised",))
    ] = True,
    weights: Weights | None = None,
) -> EigenvectorEmbedding:
    """Belkin and Niyogi (2003): least sum w d with X'DX = I, X'D1 = 0.  Collective.

    Parameters
    ----------
    affinity
        ``"neighbors"``: weight 1 between a point and its ``n_neighbors`` nearest, or twice, four
        times ... as many, until the graph is in one piece, which is logged as a warning and
        shows in the metrics;
        ``"entropic"``, with ``perplexity``; ``"precomputed"``: the data are weights.
    normalized
        Constraint with the degrees D, or X'X = I and X'1 = 0 without.
    weights
        This rank's rows of weights instead.

    Raises
    ------
    InputError
        Given or entropic weights whose graph falls into pieces: eigenvectors would only
        tell which piece a point is in; as many neighbors as points.
    """
    layout = dataset.layout
    facts: dict[str, Any] = {}
    remedy = "connect the pieces, or embed each by itself"
    if weights is None:
        if affinity == "neighbors":
            weights, facts = _connected_graph(dataset, n_neighbors)
        elif affinity == "precomputed":
            weights = given_affinities(dataset, normalize=False).weights
        else:
            weights = entropic_affinities(dataset, perplexity)
            remedy = "use a larger perplexity, or affinity = 'neighbors'"
    graph = scipy.sparse.csr_matrix(weights)
    pieces, _ = component_labels(layout, graph)
    if pieces > 1:
        raise InputError(
            f"the graph of affinities has {pieces} components, and eigenvectors would "
            f"show nothing but these; {remedy}"
        )
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scaling = 1.0 / np.sqrt(degrees) if normalized else np.ones(layout.local_rows)
    whole = layout.gather_rows(scaling)
    off_diagonal = scipy.sparse.diags(scaling) @ graph @ scipy.sparse.diags(whole)
    places = (np.arange(layout.local_rows), layout.start + np.arange(layout.local_rows))
    diagonal = scipy.sparse.csr_matrix((degrees * scaling**2, places), shape=graph.shape)
    null = 1.0 / scaling
    null /= np.sqrt(float(sum_over_ranks(layout.comm, float(null @ null))))
    return EigenvectorEmbedding(
        layout.with_columns(dimensions),
        (diagonal - off_diagonal).tocsr(),
        null,
        scaling,
        "laplacian-eigenmaps",
        facts,
    )


def locally_linear_embedding(
    dataset: Dataset,
    comm: MPI.Comm,
    *,
    dimensions: Dimensions = 2,
    n_neighbors: Annotated[
        int,
        Help(
            "nearest neighbors of a point; doubled until their graph is connected",
            minimum=1,
            formerly=("count",),
        ),
    ] = 12,
    regularization: Annotated[
        float,
        Help(
            "share of the trace added to the diagonal of local Gram matrices",
            above=0,
            formerly=("regularisation",),
        ),
    ] = 1e-3,
) -> EigenvectorEmbedding:
    """Roweis and Saul (2000): points rebuilt from their neighbors.  Collective.

    Each point is written as the combination, with weights W that sum to 1, of its ``n_neighbors``
    nearest neighbors that comes closest to it; the map keeps these weights: least
    ||(I - W) X||^2 with X'X = I and X'1 = 0.

    Parameters
    ----------
    n_neighbors
        Neighbors of a point; doubled until the neighbor graph is in one piece, which is
        logged as a warning and shows in the metrics.
    regularization
        Share of the trace that is added to the diagonal of each local Gram matrix.

    Raises
    ------
    InputError
        Fewer than 3 points, or as many neighbors as points.
    """
    layout = dataset.layout
    _, facts = _connected_graph(dataset, n_neighbors)
    combination = _reconstruction_weights(dataset, facts["neighbors"], regularization)
    places = (np.arange(layout.local_rows), layout.start + np.arange(layout.local_rows))
    ones = np.ones(layout.local_rows)
    residual = scipy.sparse.csr_matrix((ones, places), shape=combination.shape) - combination
    return EigenvectorEmbedding(
        layout.with_columns(dimensions),
        _gram(layout, residual.tocsr()),
        np.full(layout.local_rows, 1.0 / np.sqrt(layout.rows)),
        ones,
        "lle",
        facts,
    )


def _connected_graph(
    dataset: Dataset, wanted: int
) -> tuple[scipy.sparse.csr_matrix, dict[str, Any]]:
    """Neighbor graph in one piece; the counts of neighbors asked for and taken, as metrics."""
    layout = dataset.layout
    if layout.rows < 3:
        raise InputError(
            f"an embedding needs at least 3 points, and the data have n_samples = {layout.rows}"
        )
    if not 1 <= wanted < layout.rows:
        raise InputError(
            f"the number of neighbors must be at least 1 and less than the {layout.rows} points, "
            f"not {wanted}"
        )
    count = wanted
    while True:
        graph = _neighbor_graph(dataset, count)
        pieces, _ = component_labels(layout, graph)
        if count == wanted:
            first = pieces
        if pieces == 1:
            break
        count = min(2 * count, layout.rows - 1)
    if count > wanted and layout.comm.rank == 0:
        _logger.warning(
            "the graph of the %d nearest neighbors has %d components; %d neighbors per point "
            "are taken, which connect it",
            wanted,
            first,
            count,
        )
    return graph, {"neighbors": count, "neighbors_wanted": wanted}


def _neighbor_graph(dataset: Dataset, count: int) -> scipy.sparse.csr_matrix:
    """Weight 1 between two points of which one is among the other's nearest."""
    layout = dataset.layout
    indices, _ = nearest_neighbors(layout, dataset.values, count)
    starts = np.arange(0, indices.size + 1, count)
    one_way = scipy.sparse.csr_matrix(
        (np.ones(indices.size), indices.ravel(), starts), shape=(layout.local_rows, layout.rows)
    )
    return one_way.maximum(transposed(layout, one_way)).tocsr()


def _reconstruction_weights(
    dataset: Dataset, count: int, regularization: float
) -> scipy.sparse.csr_matrix:
    """This rank's rows of W."""
    layout = dataset.layout
    indices, _ = nearest_neighbors(layout, dataset.values, count)
    neighbors = _rows_of(dataset, indices)
    differences = neighbors - dataset.values[:, None, :].astype(float)
    gram = np.einsum("nkd,nld->nkl", differences, differences, optimize=True)
    trace = np.trace(gram, axis1=1, axis2=2)
    # A point that coincides with all its neighbors is their mean.
    added = np.where(trace > 0.0, regularization * trace, 1.0)
    gram += added[:, None, None] * np.eye(count)
    solved = np.linalg.solve(gram, np.ones((len(gram), count, 1)))[..., 0]
    solved /= solved.sum(axis=1, keepdims=True)
    starts = np.arange(0, indices.size + 1, count)
    return scipy.sparse.csr_matrix(
        (solved.ravel(), indices.ravel(), starts), shape=(layout.local_rows, layout.rows)
    )


def _rows_of(dataset: Dataset, indices: np.ndarray) -> np.ndarray:
    """Data rows of these global numbers, shape (*indices.shape, features), from all ranks."""
    layout = dataset.layout
    found = np.empty((*indices.shape, layout.columns))
    for block in Ring(layout).blocks(np.asarray(dataset.values)):
        here = (indices >= block.start) & (indices < block.stop)
        found[here] = block.arrays[0][indices[here] - block.start]
    return found


def _gram(layout, residual: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:  # type: ignore[no-untyped-def]
    """This rank's rows of R'R for row-distributed R.  Collective."""
    # PETSc's product adds what other ranks send in the order of arrival, in other bits each time.
    product = (residual.T @ residual).tocsr()
    return sum_of_parts(layout, [product[a:b] for a, b in itertools.pairwise(layout.starts)])
