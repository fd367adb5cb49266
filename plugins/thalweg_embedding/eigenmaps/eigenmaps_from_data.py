"""Laplacian eigenmaps and locally linear embedding of a data set."""

from typing import Annotated, Literal

import numpy as np
import scipy.sparse

from thalweg.data import Dataset
from thalweg.engines.laplacian import component_labels
from thalweg.errors import InputError
from thalweg.parallel import MPI, sum_over_ranks
from thalweg.plugins import Help
from thalweg_embedding.affinities.affinities_from_data import affinities_of, given_affinities
from thalweg_embedding.affinities.symmetric import Weights, assembled, transposed
from thalweg_embedding.eigenmaps.eigenvector_embedding import EigenvectorEmbedding
from thalweg_embedding.eigenmaps.neighbor_graph import neighbor_graph, reconstruction_weights
from thalweg_embedding.options import Dimensions, Neighbors, Perplexity


def laplacian_eigenmaps(
    dataset: Dataset,
    comm: MPI.Comm,
    *,
    dimensions: Dimensions = 2,
    affinity: Annotated[
        Literal["neighbors", "entropic", "precomputed"],
        Help("weights: 1 for near neighbors, entropic affinities, or the data are the weights"),
    ] = "neighbors",
    n_neighbors: Neighbors = 10,
    perplexity: Perplexity = None,
    normalized: Annotated[bool, Help("constraint with the degrees D")] = True,
    weights: Weights | None = None,
) -> EigenvectorEmbedding:
    """Belkin and Niyogi (2003): least sum w d with X'DX = I, X'D1 = 0.  Collective.

    Without ``normalized``, X'X = I and X'1 = 0.  Weights of 1 are also between the nearest pairs of
    rows that connect the components of the graph of neighbors, which a note tells.  ``weights`` are
    this rank's rows of weights instead.

    Raises
    ------
    InputError
        Given or entropic weights whose graph falls into pieces: eigenvectors would only
        tell which piece a point is in; as many neighbors as points.
    """
    components, remedy = 1, "connect the pieces, or embed each by itself"
    if weights is None and affinity == "neighbors":
        one_way, components = neighbor_graph(dataset, n_neighbors)
        weights = one_way.maximum(transposed(dataset.layout, one_way))
    elif weights is None and affinity == "precomputed":
        weights = given_affinities(dataset, normalize=False).weights
    elif weights is None:
        weights = affinities_of(dataset, perplexity=perplexity).weights
        remedy = "use a larger perplexity, or affinity = 'neighbors'"
    graph = scipy.sparse.csr_matrix(weights)
    pieces, _ = component_labels(dataset.layout, graph)
    if pieces > 1:
        raise InputError(
            f"the graph of affinities has {pieces} components, and eigenvectors would "
            f"show nothing but these; {remedy}"
        )
    layout = dataset.layout.with_columns(dimensions)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scaling = 1.0 / np.sqrt(degrees) if normalized else np.ones(layout.local_rows)
    whole = layout.gather_rows(scaling)
    off_diagonal = scipy.sparse.diags(scaling) @ graph @ scipy.sparse.diags(whole)
    diagonal = scipy.sparse.diags(degrees * scaling**2, layout.start, graph.shape)
    matrix = (diagonal - off_diagonal).tocsr()
    null = 1.0 / scaling
    null /= np.sqrt(float(sum_over_ranks(layout.comm, float(null @ null))))
    made = EigenvectorEmbedding(layout, matrix, null, scaling, "laplacian-eigenmaps", components)
    if affinity == "precomputed":
        made.options = None
    return made


def locally_linear_embedding(
    dataset: Dataset,
    comm: MPI.Comm,
    *,
    dimensions: Dimensions = 2,
    n_neighbors: Neighbors = 12,
    regularization: Annotated[float, Help("share of traces added to matrices", above=0)] = 1e-3,
) -> EigenvectorEmbedding:
    """Roweis and Saul (2000): points rebuilt from their neighbors.  Collective.

    Each point is written as the combination, with weights W that sum to 1, of its ``n_neighbors``
    nearest neighbors that comes closest to it; the map keeps these weights: least
    ||(I - W) X||^2 with X'X = I and X'1 = 0.  The nearest pairs of rows that connect the components
    of the graph of neighbors are neighbors too, which a note tells.

    Raises
    ------
    InputError
        Fewer than 3 points, or as many neighbors as points.
    """
    layout = dataset.layout.with_columns(dimensions)
    graph, components = neighbor_graph(dataset, n_neighbors)
    combination = reconstruction_weights(dataset, graph, regularization)
    ones = np.ones(layout.local_rows)
    residual = (scipy.sparse.eye(*graph.shape, layout.start) - combination).tocsr()
    # PETSc's product adds what other ranks send in the order of arrival, in other bits each time.
    product = (residual.T @ residual).tocoo()
    matrix = assembled(layout, product.row, product.col, product.data)
    null = np.full(layout.local_rows, 1.0 / np.sqrt(layout.rows))
    return EigenvectorEmbedding(layout, matrix, null, ones, "lle", components)
