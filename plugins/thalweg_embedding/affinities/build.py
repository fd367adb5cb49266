"""From a data set to the weights of an embedding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from thalweg.data import Dataset
from thalweg.engines.laplacian import Relocation, component_labels
from thalweg.errors import InputError
from thalweg.parallel import Layout, rows_at, sum_over_ranks
from thalweg_embedding.affinities.coarse_cells import CoarseCells
from thalweg_embedding.affinities.distances import (
    SparseDataset,
    measured_by_coordinates,
    measured_rows,
    nearest_by,
)
from thalweg_embedding.affinities.entropic import entropic_rows
from thalweg_embedding.affinities.fuzzy import fuzzy_rows
from thalweg_embedding.affinities.symmetric import (
    Weights,
    both_ways,
    check_weights,
    column_numbers,
    transposed,
)
from thalweg_embedding.memory import require_room_for_dense
from thalweg_embedding.pairs import decomposition

#: Largest number of points for which all pairs have an affinity; beyond, the nearest neighbors.
DENSE_LIMIT = 1000

#: Neighbors a point, in units of the perplexity.
NEIGHBORS_PER_PERPLEXITY = 3

#: Rows of a rank, relative to its share, beyond which rows stay on the ranks that they came to.
MAX_IMBALANCE = 1.5

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


@dataclass(frozen=True)
class Affinities:
    """Symmetric weights, and what they were made from.

    Attributes
    ----------
    weights
        This rank's rows, which sum to 1 over all ranks: CSR, or an array for all pairs.
    total
        Their sum before that, as weights of at most 1 where they are made from points.
    squared
        This rank's rows of the squared distances to the nearest neighbors, at most 3 x
        perplexity of them, CSR, where asked for.
    places
        Where the rows of these matrices lie, if not where the data's do.
    """

    weights: Weights
    total: float = 1.0
    squared: scipy.sparse.csr_matrix | None = None
    places: Relocation | None = None


def affinities_of(
    dataset: Dataset,
    kind: str = "entropic",
    *,
    perplexity: float | None = None,
    perplexities: Sequence[float] | None = None,
    n_neighbors: int = 15,
    graph: str = "auto",
    metric: str = "euclidean",
    search: str = "exact",
    seed: int = 0,
    note: Callable[[str], None] = lambda sentence: None,
    distances: bool = False,
    relocate: bool = False,
) -> Affinities:
    """Symmetric affinities of a data set's rows.  Collective.

    Parameters
    ----------
    dataset
        Points as rows.
    kind
        ``"entropic"``: Gaussians whose width gives a perplexity; ``"uniform"``: the same for
        each of the nearest neighbors; ``"fuzzy"``: UMAP's.
    perplexity
        Effective number of neighbors, by default 30 (see :func:`perplexity_for`).
    perplexities
        Several instead, whose affinities are averaged: multiscale affinities.
    n_neighbors
        Neighbors of uniform and fuzzy affinities; the latter, as UMAP, count the point itself.
    graph
        Entropic affinities of all pairs, ``"dense"``, or of the 3 x perplexity nearest
        neighbors, ``"sparse"``; ``"auto"``: dense up to 1,000 points.
    metric, search, seed, note
        See :func:`~thalweg_embedding.affinities.distances.nearest_by`.
    distances
        Whether to keep the squared distances.
    relocate
        Whether rows may be brought to other ranks, by cells of the data, so that most neighbors
        of a row lie on its rank: where there are many rows, several ranks, and coordinates whose
        distances count.

    Raises
    ------
    InputError
        Too few points, or a perplexity or a number of neighbors that they cannot have.

    Notes
    -----
    Entropic and uniform ones are p_nm = (p_{m|n} + p_{n|m}) / 2N, fuzzy ones the union
    mu_nm = a_nm + a_mn - a_nm a_mn.  Constant features change nothing; duplicate points are
    treated as in :func:`~thalweg_embedding.affinities.entropic.entropic_rows`.
    """
    layout = dataset.layout
    several = [perplexity] if perplexities is None else list(perplexities)
    if not several:
        raise InputError("perplexities must hold at least one number")
    wanted = [perplexity_for(layout.rows, p) for p in several]
    dense = kind == "entropic" and graph != "sparse"
    if graph == "auto":
        dense = dense and layout.rows <= DENSE_LIMIT
    k = layout.rows - 1
    if dense:
        require_room_for_dense(layout)
    elif kind == "entropic":
        k = min(k, max(math.ceil(NEIGHBORS_PER_PERPLEXITY * max(wanted)), 2))
    elif not n_neighbors >= 2:
        raise InputError(f"n_neighbors must be at least 2, not {n_neighbors}")
    else:
        k = min(k, n_neighbors - (kind == "fuzzy"))
    search = "exact" if dense else search
    places, cells = _placed(dataset, metric) if relocate and not dense else (None, None)
    if places is not None and search == "approximate":
        values = places.forward(measured_rows(dataset, metric).values)
        moved = replace(dataset, values=values, layout=places.layout, labels=None)
        indices, squared = nearest_by(moved, k, metric, search, seed, note, cells)
        del values, moved
    else:
        # An exact search breaks ties by the numbers of rows, which must not depend on the ranks.
        indices, squared = nearest_by(dataset, k, metric, search, seed, note)
        if places is not None:
            indices = places.forward(places.new_numbers(indices))
            squared = places.forward(squared)
    layout = layout if places is None else places.layout
    fewer = indices.shape[1] < k
    k = indices.shape[1]
    if fewer and (kind != "entropic" or max(wanted) >= k):
        note(
            f"the distances given are those to {k} neighbors of a point, and the affinities use "
            "no more"
            + (f": the perplexity is {_within(max(wanted), k):g}" if kind == "entropic" else "")
        )
    if kind == "fuzzy":
        values = fuzzy_rows(squared)
    elif kind == "uniform":
        values = np.full(squared.shape, 1.0 / k)
    else:
        values = entropic_rows(squared, _within(wanted[0], k))
        for other in wanted[1:]:
            values += entropic_rows(squared, _within(other, k))
        values /= len(wanted)
    columns = column_numbers(layout, indices)
    few = np.empty((layout.local_rows, 0))
    if distances:  # of all pairs only near ones tell of local density
        few = squared[:, : math.ceil(NEIGHBORS_PER_PERPLEXITY * max(wanted))].copy()
    del indices, squared  # here memory is at its peak

    there, back = both_ways(layout, columns, values)
    weights = there + back
    if kind == "fuzzy":
        weights = weights - there.multiply(back)
    del there, back, values
    total = float(sum_over_ranks(layout.comm, float(weights.sum())))
    weights *= 1.0 / total
    if kind != "fuzzy":
        total *= 0.5  # of (p_{m|n} + p_{n|m}) / 2, which are at most 1
    kept = None
    if distances:
        # A sparse matrix forgets zeros: between duplicates there are edges too.
        there, back = both_ways(layout, columns, np.maximum(few, np.finfo(float).tiny))
        kept = there.maximum(back).tocsr()
    return Affinities(weights.toarray() if dense else weights.tocsr(), total, kept, places)


def _placed(dataset: Dataset, metric: str) -> tuple[Relocation, CoarseCells] | tuple[None, None]:
    """Places of rows by cells of the data, where they gain.  Collective."""
    layout = dataset.layout
    few = layout.comm.size == 1 or layout.rows < decomposition.SLAB_ROWS
    if few or isinstance(dataset, SparseDataset) or not measured_by_coordinates(metric):
        return None, None
    values = measured_rows(dataset, metric).values
    cells = CoarseCells.of(layout, values)
    places = cells.relocation(layout, values)
    uneven = places.layout.counts().max() * layout.comm.size > MAX_IMBALANCE * layout.rows
    return (None, None) if uneven else (places, cells)


def _within(perplexity: float, neighbors: int) -> float:
    """A perplexity that so many neighbors can have."""
    return perplexity if perplexity < neighbors else 0.9 * neighbors


def given_affinities(dataset: Dataset, normalize: bool = True) -> Affinities:
    """Affinities that the data set itself holds: a square matrix, one row per point.

    ``normalize``: whether they are scaled to sum 1.

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
    held = dataset.sparse if isinstance(dataset, SparseDataset) else dataset.values
    check_weights(layout, held)
    weights = held.astype(float)
    if not normalize:
        return Affinities(weights)
    total = float(sum_over_ranks(layout.comm, float(weights.sum())))
    return Affinities(weights * (1.0 / total), total)


def tied_together(
    layout: Layout, weights: Weights, places: Relocation | None = None
) -> tuple[Weights, int]:
    """Affinities whose graph is connected, and the number of components before.  Collective.

    Between components nothing attracts, so that a logarithm of repulsions has no minimum: they
    drift apart for ever, and their inner structure stands still meanwhile.  A uniform affinity
    between all pairs, of a hundredth of the total, holds them; of its pairs five per point are
    taken, at the same offsets for all points.  Groups of points count as components if no pair
    between them has the mean affinity of all pairs, and all such pairs together have less than
    the uniform affinity gives them: the little there is would hold the groups at distances at
    which they are dots.  A connected graph is left as it is.

    Parameters
    ----------
    weights
        This rank's rows of affinities that sum to 1 over all ranks.
    places
        Where the rows of ``weights`` lie, if not where those of ``layout`` do.
    """
    n = layout.rows
    given, layout = layout, layout if places is None else places.layout
    edges = scipy.sparse.csr_matrix(weights)
    counted = np.where(edges.data < 1.0 / (n * (n - 1.0)), 0.0, edges.data)
    strong = scipy.sparse.csr_matrix((counted, edges.indices, edges.indptr), shape=edges.shape)
    components, labels = component_labels(layout, strong)
    del strong, counted
    if components > 1:
        components = _groups_apart(layout, edges, components, labels)
    del edges
    if components == 1:
        return weights, 1
    count = min(LINKS, n - 1)
    offsets = 1 + np.random.default_rng(0).choice(n - 1, count, replace=False)
    columns = (np.arange(given.start, given.stop)[:, None] + offsets) % n
    if places is not None:
        columns = places.forward(places.new_numbers(columns))
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


def _groups_apart(
    layout: Layout, edges: scipy.sparse.csr_matrix, groups: int, labels: np.ndarray
) -> int:
    """How many sets of groups there are between which affinities are weak.  Collective."""
    n = layout.rows
    own = np.repeat(labels, np.diff(edges.indptr))
    pairs = (own, rows_at(layout, labels, edges.indices))
    between = scipy.sparse.csr_matrix((edges.data, pairs), shape=(groups, groups))
    between = sum(layout.comm.allgather(between)).tocoo()
    members = np.bincount(labels, minlength=groups).astype(float)
    sizes = np.asarray(sum_over_ranks(layout.comm, members))
    uniform = UNIFORM_SHARE * sizes[between.row] * sizes[between.col] / (n * (n - 1.0))
    held = between.data >= uniform
    pairs = (between.row[held], between.col[held])
    graph = scipy.sparse.csr_matrix((between.data[held], pairs), shape=(groups, groups))
    return int(connected_components(graph, directed=False)[0])
