"""From a data set to the weights of an embedding."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from thalweg.data import Dataset
from thalweg.engines.laplacian import component_labels
from thalweg.errors import InputError
from thalweg.parallel import Layout, any_over_ranks, rows_at, sum_over_ranks
from thalweg_embedding.affinities.coarse_cells import CoarseCells
from thalweg_embedding.affinities.distances import (
    SparseDataset,
    measured_by_coordinates,
    measured_rows,
    nearest_by,
    square_matrix,
)
from thalweg_embedding.affinities.labeled import follow_labels
from thalweg_embedding.affinities.row_affinities import entropic_rows, fuzzy_rows
from thalweg_embedding.affinities.symmetric import Weights, both_ways, check_weights, column_numbers
from thalweg_embedding.defaults import DENSE_LIMIT, NEIGHBORS_PER_PERPLEXITY, PERPLEXITY
from thalweg_embedding.options import AffinityOptions
from thalweg_embedding.pairs import decomposition
from thalweg_embedding.relocation import Relocation

#: Rows of a rank, relative to its share, beyond which rows stay on the ranks that they came to.
MAX_IMBALANCE = 1.5

#: Sets of offsets between copies of a row.
OFFSETS = 64

#: Share of the uniform affinity that ties components together, and pairs per point that carry it.
UNIFORM_SHARE, LINKS = 0.01, 5


def perplexity_for(rows: int, perplexity: float | None) -> float:
    """The perplexity, checked; by default 30, or less for fewer than 100 points."""
    if rows < 3:
        raise InputError(f"an embedding needs at least 3 points, not n_samples = {rows}")
    if perplexity is None:
        return min(PERPLEXITY, max(1.5, (rows - 1) / 3.0)) if rows > 3 else 1.5
    if isinstance(perplexity, bool) or not isinstance(perplexity, Real):
        raise InputError(f"perplexity must be a number, not {perplexity!r}")
    if not 1.0 < perplexity < rows - 1:
        raise InputError(
            f"perplexity must be greater than 1 and less than the number of points minus 1 "
            f"({rows - 1}), not {perplexity:g}; lower it or use more rows"
        )
    return float(perplexity)


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
    kind: str | AffinityOptions = "entropic",
    *,
    note: Callable[[str], None] = lambda sentence: None,
    distances: bool = False,
    relocate: bool = False,
    **options: Any,
) -> Affinities:
    """Symmetric affinities of a data set's rows.  Collective.

    Parameters
    ----------
    dataset
        Points as rows.
    kind
        ``"entropic"``, ``"uniform"`` or ``"fuzzy"``; or all options.
    note
        See :func:`~thalweg_embedding.affinities.distances.nearest_by`.
    distances
        Whether to keep the squared distances.
    relocate
        Whether rows may be brought to other ranks, by cells of the data, so that most neighbors
        of a row lie on its rank: where there are many rows, several ranks, and coordinates whose
        distances count.
    **options
        Fields of :class:`~thalweg_embedding.options.AffinityOptions`.

    Raises
    ------
    InputError
        Too few points, or a perplexity or a number of neighbors that they cannot have.
    """
    if not isinstance(kind, AffinityOptions):
        kind = AffinityOptions(affinity=kind, **options)  # type: ignore[arg-type]
    layout, fuzzy = dataset.layout, kind.affinity == "fuzzy"
    largest, dense = max(perplexities_for(layout.rows, kind)), _is_dense(layout.rows, kind)
    k = neighbor_count(layout.rows, kind)
    indices, squared, places = _nearest(dataset, k, kind, relocate, note)
    layout = layout if places is None else places.layout
    most, entropic = indices.shape[1], kind.affinity == "entropic"
    for name in ("n_neighbors",) if entropic else ("perplexity", "perplexities"):
        if not np.array_equal(getattr(kind, name), getattr(AffinityOptions, name)):
            note(f"{name} has no effect on affinities that are {kind.affinity}")
    if most < k and (not entropic or largest >= most):
        note(
            f"the distances given are those to {most} neighbors of a point, and the affinities use "
            "no more" + (f": the perplexity is {_within(largest, most):g}" if entropic else "")
        )
    values = one_way(squared, kind, layout.rows)
    if kind.target_weight > 0.0:
        follow_labels(values, indices, dataset, places, kind.target_weight, fuzzy)
    columns = column_numbers(layout, indices)
    few = np.empty((layout.local_rows, 0))
    if distances:  # of all pairs only near ones tell of local density
        few = squared[:, : math.ceil(NEIGHBORS_PER_PERPLEXITY * largest)].copy()
    del indices, squared  # here memory is at its peak

    there, back = both_ways(layout, columns, values)
    weights = there + back - there.multiply(back) if fuzzy else there + back
    del there, back, values
    total = float(sum_over_ranks(layout.comm, float(weights.sum())))
    weights *= 1.0 / total
    if not fuzzy:
        total *= 0.5  # of (p_{m|n} + p_{n|m}) / 2, which are at most 1
    edges = None
    if distances:
        # A sparse matrix forgets zeros: between duplicates there are edges too.
        there, back = both_ways(layout, columns, np.maximum(few, np.finfo(float).tiny))
        edges = there.maximum(back).tocsr()
    return Affinities(weights.toarray() if dense else weights.tocsr(), total, edges, places)


def perplexities_for(rows: int, options: AffinityOptions) -> list[float]:
    """The perplexities of so many points, checked."""
    if options.perplexities is not None and options.perplexity is not None:
        raise InputError("perplexity and perplexities are both given; give one of them")
    several = [options.perplexity] if options.perplexities is None else list(options.perplexities)
    if not several:
        raise InputError("perplexities must hold at least one number")
    return [perplexity_for(rows, perplexity) for perplexity in several]


def _is_dense(rows: int, options: AffinityOptions) -> bool:
    """Whether all pairs have an affinity."""
    few = rows <= DENSE_LIMIT and isinstance(options.neighbor_search, str)
    dense = options.graph == "dense" or (options.graph == "auto" and few)
    return dense and options.affinity == "entropic"


def neighbor_count(rows: int, options: AffinityOptions) -> int:
    """Neighbors of a point, of so many, that have an affinity."""
    perplexity, others = max(perplexities_for(rows, options)), rows - 1
    if _is_dense(rows, options):
        return others
    if options.affinity == "entropic":
        return min(others, max(math.ceil(NEIGHBORS_PER_PERPLEXITY * perplexity), 2))
    if not options.n_neighbors >= 2:
        raise InputError(f"n_neighbors must be at least 2, not {options.n_neighbors}")
    return min(others, options.n_neighbors - (options.affinity == "fuzzy"))


def _nearest(
    dataset: Dataset, k: int, options: AffinityOptions, relocate: bool, note: Callable[[str], None]
) -> tuple[np.ndarray, np.ndarray, Relocation | None]:
    """Neighbors and squared distances, and where their rows lie if they were moved."""
    metric, dense = options.metric, _is_dense(dataset.layout.rows, options)
    search = "exact" if dense else options.neighbor_search
    places, cells = _placed(dataset, metric) if relocate and not dense else (None, None)
    own = np.arange(dataset.layout.start, dataset.layout.stop)
    own_search = isinstance(search, str)  # a transformer may know the rows in their order alone
    if places is not None and own_search:  # it then finds most neighbors on each rank
        values, layout = places.forward(dataset.values), places.layout
        layout = layout.with_columns(values.shape[1])
        dataset = replace(dataset, values=values, layout=layout, labels=None)
        # An exact search breaks ties by the numbers of rows, which must not depend on the ranks.
        own = places.forward(own) if search == "exact" else np.arange(layout.start, layout.stop)
    indices, squared = nearest_by(dataset, k, metric, search, note, 0, cells, own)
    if measured_by_coordinates(metric):
        _spread_over_copies(dataset.layout, own, indices, squared)
    if places is not None and search != "approximate":
        indices = places.new_numbers(indices)
    if places is not None and not own_search:
        indices, squared = places.forward(indices), places.forward(squared)
    return indices, squared, places


def _spread_over_copies(
    layout: Layout, numbers: np.ndarray, indices: np.ndarray, squared: np.ndarray
) -> None:
    """Give rows with more copies than neighbors drawn ones of these, in place.  Collective.

    The first copies would be the neighbors of all.  Each copy takes one of a few sets of drawn
    offsets in the list of them: a single set is the graph of a ring.
    """
    crowded, k = squared[:, -1] == 0.0, indices.shape[1]
    if not any_over_ranks(layout.comm, bool(crowded.any())):
        return
    places, firsts = np.full(layout.rows, -1), np.empty(layout.rows, dtype=np.int64)
    places[numbers] = np.arange(len(numbers))  # of the rows that are here
    found = np.where(crowded, np.minimum(numbers, indices[:, 0]), -1)
    firsts[layout.gather_rows(numbers)] = layout.gather_rows(found)
    order = np.argsort(firsts, kind="stable")
    for copies in np.split(order, np.flatnonzero(np.diff(firsts[order])) + 1):
        if firsts[copies[0]] >= 0 and len(copies) > k:
            draw, m = np.random.default_rng(0), len(copies)
            sets = 1 + np.array([draw.choice(m - 1, k, replace=False) for _ in range(OFFSETS)])
            here = np.flatnonzero(places[copies] >= 0)
            ends = here[:, None] + sets[draw.integers(OFFSETS, size=m)[here]]
            indices[places[copies[here]]] = copies[ends % m]


def one_way(squared: np.ndarray, options: AffinityOptions, rows: int) -> np.ndarray:
    """Affinities of points, of so many, to their neighbors, from their squared distances."""
    k = squared.shape[1]
    if options.affinity == "fuzzy":
        return fuzzy_rows(squared)
    if options.affinity == "uniform":
        return np.full(squared.shape, 1.0 / k)
    first, *others = perplexities_for(rows, options)
    values = entropic_rows(squared, _within(first, k))
    for other in others:
        values += entropic_rows(squared, _within(other, k))
    values /= 1 + len(others)
    return values


def _placed(dataset: Dataset, metric: str) -> tuple[Relocation, CoarseCells] | tuple[None, None]:
    """Places of rows by cells of the data, where they gain.  Collective."""
    layout = dataset.layout
    few = layout.comm.size == 1 or layout.rows < decomposition.SLAB_ROWS
    if few or isinstance(dataset, SparseDataset) or not measured_by_coordinates(metric):
        return None, None
    values = measured_rows(dataset, metric).values
    cells = CoarseCells.of(layout, values)
    places = Relocation(layout, cells.ranks[cells.nearest(cells.scaled(values))])
    uneven = places.layout.counts().max() * layout.comm.size > MAX_IMBALANCE * layout.rows
    return (None, None) if uneven else (places, cells)


def _within(perplexity: float, neighbors: int) -> float:
    """A perplexity that so many neighbors can have."""
    return perplexity if perplexity < neighbors else 0.9 * neighbors


def given_affinities(dataset: Dataset, normalize: bool = True) -> Affinities:
    """Affinities that the data set itself holds, checked, and if wanted scaled to sum 1."""
    layout, matrix = dataset.layout, square_matrix(dataset, "affinities")
    check_weights(layout, matrix)
    weights = matrix.astype(float)
    if not normalize:
        return Affinities(weights)
    total = float(sum_over_ranks(layout.comm, float(weights.sum())))
    return Affinities(weights * (1.0 / total), total)


def tied_together(
    layout: Layout, weights: Weights, places: Relocation | None = None
) -> tuple[Weights, int]:
    """Affinities whose graph is connected, and the number of components before.  Collective.

    The rule is that of MATHEMATICS.md, "Disconnected graphs"; five pairs per point lie at the same
    offsets for all points, and a connected graph is left as it is.  ``weights`` are this rank's
    rows of affinities that sum to 1 over all ranks; ``places``: where they lie, if not where those
    of ``layout`` do.
    """
    n = layout.rows
    map_layout, layout = layout, layout if places is None else places.layout
    edges = scipy.sparse.csr_matrix(weights)
    counted = np.where(edges.data < 1.0 / (n * (n - 1.0)), 0.0, edges.data)
    strong = scipy.sparse.csr_matrix((counted, edges.indices, edges.indptr), shape=edges.shape)
    components, labels = component_labels(layout, strong)
    del strong, counted
    if components > 1:
        # How many sets of groups there are between which affinities are weak.
        pairs = (np.repeat(labels, np.diff(edges.indptr)), rows_at(layout, labels, edges.indices))
        between = scipy.sparse.csr_matrix((edges.data, pairs), shape=(components, components))
        between = sum(layout.comm.allgather(between)).tocoo()
        members = np.bincount(labels, minlength=components).astype(float)
        sizes = np.asarray(sum_over_ranks(layout.comm, members))
        uniform = UNIFORM_SHARE * sizes[between.row] * sizes[between.col] / (n * (n - 1.0))
        strong = between.data >= uniform
        pairs = (between.row[strong], between.col[strong])
        graph = scipy.sparse.csr_matrix((between.data[strong], pairs), shape=between.shape)
        components = int(connected_components(graph, directed=False)[0])
    del edges
    if components == 1:
        return weights, 1
    count = min(LINKS, n - 1)
    offsets = 1 + np.random.default_rng(0).choice(n - 1, count, replace=False)
    columns = (np.arange(map_layout.start, map_layout.stop)[:, None] + offsets) % n
    if places is not None:
        columns = places.forward(places.new_numbers(columns))
    shares = np.full(columns.shape, 0.5 * UNIFORM_SHARE / (n * count))
    there, back = both_ways(layout, columns, shares)
    tied = weights * (1.0 - UNIFORM_SHARE) + (there + back)
    return np.asarray(tied) if not scipy.sparse.issparse(tied) else tied.tocsr(), components
