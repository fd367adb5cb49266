"""From a data set to the weights of an embedding."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

import numpy as np
import scipy.sparse

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import Layout, approximate_neighbors, sum_over_ranks
from thalweg.parallel.laplacian import component_labels
from thalweg.parallel.pairs import nearest_neighbors
from thalweg_embedding.affinities.entropic import entropic_rows
from thalweg_embedding.affinities.symmetric import Weights, check_weights, transposed
from thalweg_embedding.memory import announce, require_room_for_dense

#: Up to this many points all pairs get an affinity, beyond it the nearest neighbors.
DENSE_LIMIT = 1000

#: Neighbors a point, in units of the perplexity.
NEIGHBORS_PER_PERPLEXITY = 3

#: Share of the uniform affinity that ties components together, and pairs per point that carry it.
UNIFORM_SHARE, LINKS = 0.01, 5


def perplexity_for(rows: int, wanted: float | None) -> float:
    """The perplexity, checked; by default 30, or less for fewer than 100 points.

    Raises
    ------
    InputError
        Fewer than 3 points, or a perplexity that so few points cannot have.
    """
    if rows < 3:
        raise InputError(
            f"an embedding needs at least 3 points, and the data have n_samples = {rows}"
        )
    if wanted is None:
        return min(30.0, max(1.5, (rows - 1) / 3.0)) if rows > 3 else 1.5
    if isinstance(wanted, bool) or not isinstance(wanted, Real):
        raise InputError(f"perplexity must be a number, not {wanted!r}")
    if not 1.0 < wanted < rows - 1:
        raise InputError(
            f"perplexity must be greater than 1 and less than the number of points minus 1 "
            f"({rows - 1}), not {wanted:g}; lower it or use more rows"
        )
    return float(wanted)


def entropic_affinities(
    dataset: Dataset,
    perplexity: float | None = None,
    graph: str = "auto",
    neighbors: str = "exact",
    seed: int = 0,
    note: Callable[[str], None] = lambda sentence: None,
) -> Weights:
    """This rank's rows of symmetric entropic affinities that sum to 1 over all ranks.

    Parameters
    ----------
    dataset
        Points as rows.
    perplexity
        Effective number of neighbors, by default 30 (see :func:`perplexity_for`).
    graph
        ``"dense"``: all pairs; ``"sparse"``: the 3 x perplexity nearest neighbors;
        ``"auto"``: dense up to 1,000 points.
    neighbors
        ``"exact"``, or ``"approximate"``.
    seed
        For approximate neighbors.
    note
        Called with a sentence that tells how many of the neighbors were found.

    Returns
    -------
    csr_matrix or ndarray, shape (local_rows, rows)

    Raises
    ------
    InputError
        Too few points, or a perplexity that they cannot have.

    Notes
    -----
    p_nm = (p_{m|n} + p_{n|m}) / 2N.  Constant features change nothing; duplicate points
    are treated as in :func:`~thalweg_embedding.affinities.entropic.entropic_rows`.
    """
    layout = dataset.layout
    perplexity = perplexity_for(layout.rows, perplexity)
    dense = layout.rows <= DENSE_LIMIT if graph == "auto" else graph == "dense"
    k = layout.rows - 1
    if dense:
        require_room_for_dense(layout)
    else:
        k = min(k, max(math.ceil(NEIGHBORS_PER_PERPLEXITY * perplexity), 2))
        announce(layout, layout.columns, k)
    if neighbors == "approximate" and not dense:
        indices, squared, recall = approximate_neighbors(layout, dataset.values, k, seed)
        note(f"approximate search found {recall:.1%} of the nearest neighbors, on a sample")
    else:
        indices, squared = nearest_neighbors(layout, dataset.values, k)
    conditional = entropic_rows(squared, perplexity)
    local = layout.local_rows
    column_type = np.int32 if layout.rows < 2**31 and local * k < 2**31 else np.int64
    one_way = scipy.sparse.csr_matrix(
        (
            conditional.ravel(),
            indices.astype(column_type).ravel(),
            np.arange(0, local * k + 1, k, dtype=column_type),
        ),
        shape=(local, layout.rows),
    )
    weights = one_way + transposed(layout, one_way)
    total = float(sum_over_ranks(layout.comm, float(weights.sum())))
    weights *= 1.0 / total
    return weights.toarray() if dense else weights.tocsr()


def given_affinities(dataset: Dataset, normalize: bool = True) -> Weights:
    """Affinities that the data set itself holds: a square matrix, one row per point.

    Raises
    ------
    InputError
        The matrix is not square, negative, asymmetric, or has a diagonal.
    """
    layout = dataset.layout
    if layout.rows != layout.columns:
        raise InputError(
            f"precomputed affinities must be a square matrix, not {layout.rows} x {layout.columns}"
        )
    check_weights(layout, dataset.values)
    weights = dataset.values.astype(float)
    if normalize:
        weights *= 1.0 / float(sum_over_ranks(layout.comm, float(weights.sum())))
    return weights


def tied_together(layout: Layout, weights: Weights) -> tuple[Weights, int]:
    """Affinities whose graph is connected, and the number of components before.  Collective.

    Between components nothing attracts, so that a logarithm of repulsions has no minimum: they
    drift apart for ever, and their inner structure stands still meanwhile.  A uniform affinity
    between all pairs, of a hundredth of the total, holds them; of its pairs five per point are
    taken, at the same offsets for all points.  Affinities below what a uniform one would give a
    pair do not count as edges.  A connected graph is left as it is.

    Parameters
    ----------
    weights
        This rank's rows of affinities that sum to 1 over all ranks.
    """
    n = layout.rows
    edges = scipy.sparse.csr_matrix(weights, copy=True)
    edges.data[edges.data < UNIFORM_SHARE / (n * (n - 1.0))] = 0.0
    edges.eliminate_zeros()
    components, _ = component_labels(layout, edges)
    if components == 1:
        return weights, 1
    count = min(LINKS, n - 1)
    offsets = 1 + np.random.default_rng(0).choice(n - 1, count, replace=False)
    rows = np.arange(layout.local_rows)[:, None]
    columns = (layout.start + rows + offsets) % n
    one_way = scipy.sparse.csr_matrix(
        (
            np.full(columns.size, 0.5 * UNIFORM_SHARE / (n * count)),
            columns.ravel(),
            np.arange(0, columns.size + 1, count),
        ),
        shape=(layout.local_rows, n),
    )
    links = one_way + transposed(layout, one_way)
    tied = weights * (1.0 - UNIFORM_SHARE) + links
    return np.asarray(tied) if not scipy.sparse.issparse(tied) else tied.tocsr(), components
