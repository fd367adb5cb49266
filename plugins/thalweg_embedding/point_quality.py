"""How far each point of a map can be trusted: its neighbors, and how firmly it has its place."""

import itertools
import math
from typing import Any

import numpy as np
import scipy.sparse

from thalweg.data import Dataset, comm_of
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.errors import InputError
from thalweg.numerics import principal_components
from thalweg.parallel import RowExchange, RowPlan, collective_call, refuse_differing, sum_over_ranks
from thalweg.plugins import Option
from thalweg_embedding.affinities.affinities_from_data import neighbor_count, one_way
from thalweg_embedding.affinities.distances import SparseDataset, nearest_by
from thalweg_embedding.affinities.symmetric import both_ways, column_numbers
from thalweg_embedding.new_points import PlacedMap, minima
from thalweg_embedding.pairs.all_pairs import AllPairs
from thalweg_embedding.pairs.grid_pairs import GridPairs
from thalweg_embedding.quality import are_kept, checked_map

#: Neighbors that are compared, and how many times as many are "near".
NEIGHBORS, REACH = 15, 5

#: Principal directions along which data are moved, as in the paper.
DIRECTIONS = 3

#: Steps of a point that is moved, and below which it rests, as a share of the map's extent.
STEPS, REST = 30, 1e-3

#: Least curvature of a point's loss that counts, as a share of the largest.
FLATTEST = 0.1

#: Most similar points whose places are starts too, where these are further away than this share.
STARTS, APART = 2, 0.02

#: Error of a pair's repulsion, relative to the strongest: what matters is where points jump.
TOLERANCE = 1e-2

#: Least affinity and difference of squared distances that are divided by.
TINY = 1e-300

#: What the measures are called where they are shown.
LEGENDS = {
    "kept": "neighbors kept (share)",
    "false": "false neighbors: near here but far in the data (share)",
    "torn": "torn neighbors: near in the data but far here (share)",
    "singularity": "how loosely the point is held in place",
    "perturbation": "how far the point jumps if its data change a little",
}


@collective_call(lambda data, *_, **__: comm_of(data))
def faithfulness(
    data: Dataset | np.ndarray,
    places: np.ndarray,
    objective: Any = None,
    *,
    neighbors: int = NEIGHBORS,
    metric: str = "euclidean",
) -> dict[str, np.ndarray]:
    """Measures of each point of a map.  Collective on the communicator of a data set.

    Parameters
    ----------
    data, places
        Points as rows, shape (n_samples, n_features), or a :class:`thalweg.Dataset`; and this
        rank's rows of the map, shape (local_rows, d).
    objective
        What the map minimizes, from :func:`~thalweg_embedding.embedding`, for the scores that
        MATHEMATICS.md defines under "How far a point can be trusted".
    neighbors
        Neighbors that are compared, k.
    metric
        Distance of the data; that of the objective, if there is one.

    Returns
    -------
    dict of ndarray, shape (local_rows,)
        ``kept``: share of the k nearest points in the data that are so in the map;
        ``false``: share of the k nearest in the map that are not among the 5 k nearest in the data,
        left out where a sparse matrix of distances does not tell which these are;
        ``torn``: share of the k nearest in the data that are not among the 5 k nearest in the map;
        with an objective ``singularity``, and where its affinities are entropic ones of dense
        points in Euclidean distance, without labels, whose pairs all repel alike,
        ``perturbation``: of points that anchors hold both are 0.

    Raises
    ------
    InputError
        Not one row of finite numbers for each point, fewer than 3 points, or distances to fewer
        than k neighbors.
    """
    data, places = checked_map(data, places)
    layout = data.layout
    refuse_differing(layout.comm, "the arguments of faithfulness", neighbors, metric)
    possible = Option("neighbors", int, None, "", minimum=1, maximum=layout.rows - 1)
    possible.check(neighbors, "faithfulness")
    options = None if objective is None else objective.options
    metric = metric if options is None else options.metric
    wide = min(REACH * neighbors, layout.rows - 1)
    count = wide if options is None else neighbor_count(layout.rows, options)
    before, squared = nearest_by(data, max(wide, count), metric)
    if (most := before.shape[1]) < neighbors:
        raise InputError(f"only {most} neighbors have a distance; use neighbors = {most} or fewer")
    after, _ = nearest_neighbors(layout, places, wide)
    near, here = before[:, :neighbors], after[:, :neighbors]
    lists = {"kept": (near, here), "false": (here, before[:, :wide]), "torn": (near, after)}
    if most < wide:
        del lists["false"]  # a point without a distance may be near or far
    measures = {name: are_kept(*two, layout.rows).mean(axis=1) for name, two in lists.items()}
    measures |= {name: 1.0 - measures[name] for name in lists.keys() - {"kept"}}
    if objective is None:
        return measures
    values, vectors = np.linalg.eigh(hessian_blocks(objective, places))
    least, infinite = values[:, 0], np.full(len(places), np.inf)
    measures["singularity"] = np.divide(1.0, least, out=infinite, where=least > 0.0)
    dense = metric == "euclidean" and not isinstance(data, SparseDataset)
    entropic = options is not None and options.affinity == "entropic" and not options.target_weight
    if entropic and dense and isinstance(objective.repulsion, AllPairs | GridPairs):
        apart = layout.gather_rows(np.where(squared > 0.0, squared, np.inf).min(axis=1))
        length = math.sqrt(np.median(apart[apart < np.inf])) if apart.min() < np.inf else 0.0
        nearest = before[:, :count], squared[:, :count]
        values = np.maximum(np.abs(values), FLATTEST * np.abs(values).max(axis=1, keepdims=True))
        inverse = np.einsum("nik,nk,njk->nij", vectors, 1.0 / np.maximum(values, TINY), vectors)
        measures["perturbation"] = _perturbation(data, places, objective, nearest, length, inverse)
    if (anchors := objective.anchors) is not None:
        for name in measures.keys() & {"singularity", "perturbation"}:
            measures[name][~anchors.free[:, 0]] = 0.0
    return measures


def hessian_blocks(objective: Any, x: np.ndarray) -> np.ndarray:
    """Diagonal blocks of the Hessian, shape (local_rows, d, d).  Collective.

    They come from the diagonal, with the map turned by 45 degrees for each entry beside it, since
    the terms of pairs do not change when a map is turned, nor the pull of anchors its block.
    Densities are left out.
    """
    d = x.shape[1]
    blocks = np.zeros((len(x), d, d))
    blocks[:, range(d), range(d)] = objective.rowwise_diagonal(x)
    for i, j in itertools.combinations(range(d), 2):
        turn = np.eye(d)
        turn[[i, i, j, j], [i, j, i, j]] = np.array([1.0, 1.0, -1.0, 1.0]) / math.sqrt(2.0)
        entry = objective.rowwise_diagonal(x @ turn.T)[:, i]
        blocks[:, i, j] = blocks[:, j, i] = entry - 0.5 * (blocks[:, i, i] + blocks[:, j, j])
    return blocks


def _perturbation(
    data: Dataset,
    places: np.ndarray,
    objective: Any,
    neighbors: tuple[np.ndarray, np.ndarray],
    length: float,
    inverse: np.ndarray,
) -> np.ndarray:
    """Greatest distances that points move.  Collective.

    ``inverse`` are inverses of the blocks of the Hessian.
    """
    options, layout, (indices, squared) = objective.options, data.layout, neighbors
    n, k = squared.shape
    there = one_way(squared, options, layout.rows)
    scale = 0.5 * layout.rows / sum_over_ranks(layout.comm, float(there.sum()))
    _, back = both_ways(layout, column_numbers(layout, indices), there)
    middle = k // 2
    rates = np.log(np.maximum(there[:, 0], TINY) / np.maximum(there[:, middle], TINY))
    rates /= np.maximum(squared[:, middle] - squared[:, 0], TINY)
    count = min(DIRECTIONS, layout.rows, layout.columns)
    scores = principal_components(np.asarray(data.values, dtype=float), layout, count)
    plan = RowPlan.of(layout, back.indices)
    theirs = RowExchange(plan).with_ghosts(np.column_stack([rates, scores]))
    theirs, whole = theirs[plan.positions(back.indices)], layout.gather_rows(scores)
    lambda_ = objective.homotopy_parameter
    if not objective.normalized:
        lambda_ *= objective.repulsion_scale * layout.rows
    others = PlacedMap(
        None, layout.gather_rows(places), None, objective.attraction.function,
        objective.repulsion.function, objective.normalized, lambda_, options, TOLERANCE,
    )  # fmt: skip
    # Edges of a point: those to its neighbors, and those from the points whose neighbor it is.
    starts, rows = k * np.arange(n + 1) + back.indptr, np.repeat(np.arange(n), np.diff(back.indptr))
    first, second = starts[:n, None] + np.arange(k), k * (rows + 1) + np.arange(back.nnz)
    ends, weights = np.empty(starts[n], dtype=np.int64), np.empty(starts[n])
    ends[first], ends[second] = indices, back.indices
    own, moved = np.arange(layout.start, layout.stop), np.zeros(n)
    for column, step in itertools.product(range(count), (2.0 * length, -2.0 * length)):
        further = step * (scores[:, column, None] - whole[indices, column])
        further = np.maximum(squared + further + length**2, 0.0)
        order = np.argsort(further, axis=1, kind="stable")
        ascending = np.take_along_axis(further, order, 1)
        weights[np.take_along_axis(first, order, 1)] = one_way(ascending, options, layout.rows)
        changes = step * (scores[rows, column] - theirs[:, 1 + column]) + length**2
        weights[second] = back.data * np.exp(np.minimum(-theirs[:, 0] * changes, 0.0))
        graph = scipy.sparse.csr_matrix((scale * weights, ends, starts), (n, layout.rows))
        similar = others.places[np.take_along_axis(indices, order[:, :STARTS], 1)]
        settled = _settled(objective, others, places, graph, similar, own, inverse)
        moved = np.maximum(moved, np.linalg.norm(settled - places, axis=1))
    return moved


def _settled(objective, others, places, weights, similar, own, inverse):  # type: ignore[no-untyped-def]
    """Where points come to rest with these affinities to the others, which stay.

    That is the lowest of the minima found from their places and those of similar points.  Losses
    are those of the objective, which anchors pull, times half the number of rows.
    """
    factor, anchors = 0.5 * objective.layout.rows, objective.anchors

    def value_and_slope(trial: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        part = weights if len(rows) == len(own) else weights[rows]
        graph = part.indptr.astype(np.int64), part.indices.astype(np.uint32), part.data
        value, slope = others.value_and_slope(trial, graph, np.ones(len(rows)), own[rows])
        if anchors is not None:
            pull, apart = 2.0 * factor * anchors.pull[rows], trial - anchors.places[rows]
            value, slope = value + (pull * apart**2).sum(axis=1), slope + 2.0 * pull * apart
        return value, slope

    extent = others.extent
    how = value_and_slope, extent, inverse / factor, STEPS, REST
    settled, lowest = minima(places, np.arange(len(own)), *how)
    for start in similar.swapaxes(0, 1):
        rows = np.flatnonzero(np.linalg.norm(start - settled, axis=1) > APART * extent)
        minimum, value = minima(start[rows], rows, *how)
        better = value < lowest[rows]
        settled[rows[better]], lowest[rows[better]] = minimum[better], value[better]
    return settled
