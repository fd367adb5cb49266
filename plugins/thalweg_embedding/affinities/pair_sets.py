"""The three sets of pairs of PaCMAP (Wang, Huang, Rudin and Shaposhnik 2021, section 4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
import scipy.sparse
from numba import prange

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import Layout, kernel, rows_at
from thalweg.plugins import Help
from thalweg_embedding.affinities.distances import SparseDataset, measured_rows, nearest_by
from thalweg_embedding.affinities.symmetric import both_ways, column_numbers
from thalweg_embedding.options import Search

#: Nearest neighbors beyond those wanted, among which the scaled distance chooses.
SPARE = 50

#: Places, in order of distance, of the neighbors whose mean distance is a point's scale.
SCALE = slice(3, 6)

#: Points drawn for a mid-near pair, of which the second nearest is taken.
DRAWN = 6


class PairSets(NamedTuple):
    """Numbers of the points that this rank's are paired with, of shape (local_rows, count)."""

    neighbors: np.ndarray
    mid_near: np.ndarray
    further: np.ndarray
    seed: int  # with which they were drawn


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """How many pairs PaCMAP draws, and of which neighbors; the seed is that of the search, too."""

    n_neighbors: Annotated[
        int | None, Help("neighbors of a point; 10, more from 10,000 points on", minimum=1)
    ] = None
    mid_near_ratio: Annotated[float, Help("mid-near pairs for a neighbor", minimum=0)] = 0.5
    further_ratio: Annotated[float, Help("further pairs for a neighbor", above=0)] = 2.0
    metric: Annotated[Literal["euclidean", "cosine", "correlation"], Help("distance")] = "euclidean"
    neighbor_search: Search = "exact"
    seed: Annotated[int, Help("seed of the random pairs", minimum=0)] = 0


def pair_counts(rows: int, options: PairOptions) -> tuple[int, int, int]:
    """Neighbors, mid-near and further pairs of a point, of so many."""
    mid_near, further = options.mid_near_ratio, options.further_ratio
    if (n_neighbors := options.n_neighbors) is None:
        n_neighbors = round(10.0 + 15.0 * max(0.0, np.log10(rows / 1e4)))
    k = max(1, min(n_neighbors, int(rows / (1.0 + mid_near + further))))
    return k, round(k * mid_near), min(rows - 1 - k, max(1, round(k * further)))


def pair_sets(
    dataset: Dataset, options: PairOptions, note: Callable[[str], None] = lambda sentence: None
) -> PairSets:
    """Draw the sets, the same ones at any number of ranks.  Collective.

    A neighbor is one of the nearest by the squared distance divided by the scales of both points,
    among 50 more than wanted.  A point's scale is the mean distance to its fourth to sixth
    neighbors.  Of six points drawn, the second nearest makes a mid-near pair.  Further pairs are
    drawn from the points that are no neighbors.
    """
    if isinstance(dataset, SparseDataset):
        raise InputError(
            "PaCMAP chooses pairs by distances between points of any ranks, for which it needs "
            "dense rows; make them dense, or reduce their columns first"
        )
    layout, rows = dataset.layout, dataset.layout.rows
    if rows < 3:
        raise InputError(f"an embedding needs at least 3 points, and the data have {rows}")
    k, n_mid_near, n_further = pair_counts(rows, options)
    drawn = min(DRAWN, rows - 1)

    dataset = measured_rows(dataset, options.metric, note)
    near = _neighbors(dataset, k, options, note)
    uniform = layout.with_columns(drawn * n_mid_near + n_further).random_uniform(options.seed)
    own = np.arange(layout.start, layout.stop)[:, None]
    candidates = np.empty((len(own) * n_mid_near, drawn), dtype=np.int64)
    first = np.ascontiguousarray(uniform[:, : drawn * n_mid_near]).reshape(candidates.shape)
    _draw(first, np.repeat(own, n_mid_near, axis=0), rows, candidates)
    candidates = candidates.reshape(len(own), n_mid_near, drawn)
    values, squared = np.asarray(dataset.values, dtype=float), np.empty(candidates.shape)
    for pair, draw in np.ndindex(n_mid_near, drawn):  # each needs as much memory as the data
        others = rows_at(layout, values, candidates[:, pair, draw])
        others -= values
        squared[:, pair, draw] = (others * others).sum(axis=1)
    second = np.argsort(squared, axis=2, kind="stable")[:, :, min(1, drawn - 1), None]
    mid_near = np.take_along_axis(candidates, second, 2)[:, :, 0]
    further = np.empty((len(own), n_further), dtype=np.int64)
    taken = np.sort(np.hstack([own, near]), axis=1)
    _draw(np.ascontiguousarray(uniform[:, drawn * n_mid_near :]), taken, rows, further)
    near, mid_near, further = (column_numbers(layout, e) for e in (near, mid_near, further))
    return PairSets(near, mid_near, further, options.seed)


def pair_matrix(layout: Layout, numbers: np.ndarray) -> scipy.sparse.csr_matrix:
    """This rank's rows of a symmetric matrix that counts each pair once.  Collective.

    A pair has half its count in both directions, so that the matrix sums to the number of pairs.
    """
    there, back = both_ways(layout, numbers, np.full(numbers.shape, 0.5))
    return (there + back).tocsr()


def _neighbors(dataset: Dataset, k: int, options: PairOptions, note) -> np.ndarray:
    layout = dataset.layout
    most = min(k + SPARE, layout.rows - 1)
    search, seed = options.neighbor_search, options.seed
    numbers, squared = nearest_by(dataset, most, "euclidean", search, note, seed)
    scales = np.sqrt(squared)[:, min(SCALE.start, most - 1) : SCALE.stop].mean(axis=1)
    scales = np.maximum(scales, np.finfo(float).tiny ** 0.5)  # of points that coincide
    theirs = rows_at(layout, scales, numbers.ravel()).reshape(numbers.shape)
    order = np.argsort(squared / theirs, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(numbers, order, 1)


@kernel(writes=("numbers",), parallel=True)
def _draw(uniform, taken, rows, numbers):
    """Numbers below ``rows``, different from each other and from those taken, which ascend."""
    count, before = uniform.shape[1], taken.shape[1]
    for n in prange(uniform.shape[0]):
        taken_so_far = np.empty(before + count, np.int64)
        taken_so_far[:before] = taken[n]
        for j in range(count):
            size = before + j
            number = np.int64(uniform[n, j] * (rows - size))
            place = 0
            while place < size and number >= taken_so_far[place]:
                number += 1
                place += 1
            for later in range(size, place, -1):
                taken_so_far[later] = taken_so_far[later - 1]
            taken_so_far[place] = number
            numbers[n, j] = number
