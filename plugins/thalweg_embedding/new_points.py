"""New points in an existing map: each finds its place while the map stays as it is."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, Ring, raise_on_all_ranks
from thalweg_embedding.affinities.affinities_from_data import one_way, perplexities_for
from thalweg_embedding.affinities.distances import (
    ALIASES,
    ANGULAR,
    OTHERS,
    SparseDataset,
    measured_together,
    nearest_among,
    squared_distances_of,
)
from thalweg_embedding.affinities.row_affinities import entropic_rows
from thalweg_embedding.options import AffinityOptions
from thalweg_embedding.pairs import neighbor_loops
from thalweg_embedding.pairs.fixed_field import FixedField
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.specialize import radial, specialize

#: Steps of a new point at most; the longest, and below which it rests, as shares of the extent.
STEPS, LONGEST, REST = 100, 0.05, 1e-7

#: Nearest known points whose places are tried as starts.
STARTS = 5

#: Known points that a place of the map is a mean of.
AVERAGED = 10

#: New points that are placed at once.
BATCH = 512


@dataclass(frozen=True)
class PlacedMap:
    """A finished map, with what new points need to find their place."""

    points: Any  # this rank's known points, shape (local_rows, features), dense or CSR
    places: np.ndarray  # the places of all of them in the map, shape (N, d)
    #: How the N known points are distributed over the ranks; None if this rank has them all.
    layout: Layout | None
    attraction: PairFunction
    repulsion: PairFunction
    normalized: bool
    #: lambda; where the repulsion is no logarithm, times its weight of a pair times N.
    lambda_: float
    options: AffinityOptions  # of a new point's affinities to the known ones
    tolerance: float = 1e-4  # of the repulsion's slopes

    @functools.cached_property
    def _field(self) -> FixedField:
        return FixedField(self.repulsion, self.places, self.tolerance)

    @functools.cached_property
    def _normalization(self) -> float:
        """Z, the sum of g over all pairs of known points."""
        return max(float(self._at_known.sum()) - len(self.places) * self.repulsion(0.0)[0], 1e-300)

    @functools.cached_property
    def _at_known(self) -> np.ndarray:
        """S at the known points, of all of them."""
        return self._field.at(self.places)[0]

    @functools.cached_property
    def extent(self) -> float:
        """Widest side of the map."""
        return float(np.ptp(self.places, axis=0).max(initial=0.0))

    def place(self, new: Any) -> np.ndarray:
        """Places of this rank's new points, shape (M, d).  Collective.

        Each is a minimum of its own part of the objective (MATHEMATICS.md, "New points"), found by
        descent from the mean of its neighbors' places or the place of one of the nearest, whichever
        is lowest.  No new point feels another, so that the result does not depend on what else is
        asked for.
        """
        options, rows = self.options, len(self.places)
        # Fuzzy affinities count the point itself.
        neighbors = float(options.n_neighbors - (options.affinity == "fuzzy"))
        if options.affinity == "entropic":
            neighbors = 3.0 * max(perplexities_for(rows, options))
        k = min(rows, max(3, round(neighbors)))
        indices, squared = nearest_known(self.points, self.layout, new, k, options.metric)
        places = np.empty((len(indices), self.places.shape[1]))
        for first in range(0, len(indices), BATCH):
            part = slice(first, first + BATCH)
            places[part] = self._place(indices[part], squared[part])
        return places

    def _place(self, indices: np.ndarray, squared: np.ndarray) -> np.ndarray:
        k = indices.shape[1]
        share, interpolating = interpolation(squared)
        weights = one_way(squared, self.options, len(self.places))
        if self.options.affinity == "fuzzy":  # rows sum to 1
            weights /= weights.sum(axis=1, keepdims=True)
        weights = share[:, None] * weights + interpolating
        places = np.einsum("nk,nkd->nd", weights, self.places[indices])
        # Of the type that the known points' edges have, so that they share a kernel.
        columns, every = indices.astype(np.uint32), np.arange(len(indices))

        def value_and_slope(trial: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            graph = np.arange(0, rows.size * k + 1, k), columns[rows].ravel(), weights[rows].ravel()
            return self.value_and_slope(trial, graph, share[rows])  # type: ignore[no-any-return]

        lowest, _ = value_and_slope(places, every)
        for nearest in indices[:, :STARTS].T:
            trial = self.places[nearest]
            value, _ = value_and_slope(trial, every)
            better = value < lowest
            places[better], lowest[better] = trial[better], value[better]
        half = np.broadcast_to(0.5 * np.eye(places.shape[1]), (*places.shape, places.shape[1]))
        return minima(places, every, value_and_slope, self.extent, half, STEPS, REST)[0]  # type: ignore[no-any-return]

    def points_at(self, places: np.ndarray) -> np.ndarray:
        """Points that belong at this rank's places of the map, shape (M, features).  Collective.

        Means of known points, with entropic weights of the :data:`AVERAGED` places that are
        nearest in the map, and a perplexity of a third of these.
        """
        k = min(AVERAGED, len(self.places))
        known = dataset_of(self.points, self.layout)
        with raise_on_all_ranks(known.comm):
            fitted, asked = (dataset_of(rows, None) for rows in (self.places, places))
            near, squared = nearest_among(fitted, asked, k, False)
            weights = np.ones(near.shape)
            if k > 1 and len(places):
                weights = entropic_rows(squared, max(1.01, k / 3.0))
            weights[(squared[:, :1] == 0.0).any(axis=1)] = np.eye(1, near.shape[1])[0]
        points = np.zeros((len(places), known.layout.columns))
        for block in Ring(known.layout).blocks(known.values):
            here = (near >= block.start) & (near < block.stop)
            for column in range(near.shape[1]):
                rows = np.flatnonzero(here[:, column])
                theirs = block.arrays[0][near[rows, column] - block.start]
                points[rows] += weights[rows, column][:, None] * theirs
        return points

    def value_and_slope(self, places, graph, share, own=None):  # type: ignore[no-untyped-def]
        """Values of what points at ``places`` add to the objective, and their gradients.

        ``graph`` has the rows of their affinities, as CSR arrays, and ``share`` the factors of the
        repulsion.  ``own``: the known points that they are, which do not repel them.
        """
        columns = self.places.T.copy()
        pulled, pull = np.empty(len(places)), np.empty_like(places)
        attract = specialize(neighbor_loops.first_order, self.attraction)
        attract(places, columns, *graph, 0.0, pulled, pull)
        pushed, push = self._field.at(places)
        rows, z = len(self.places), self._normalization if self.normalized else 1.0
        if own is not None:
            apart = places - self.places[own]
            squared = (apart**2).sum(axis=1)
            pushed -= radial(self.repulsion, 0)(squared)
            push -= radial(self.repulsion, 1)(squared)[:, None] * apart
            z -= 2.0 * (self._at_known[own] - self.repulsion(0.0)[0])
        rate = slope_rate = self.lambda_ * share
        if self.normalized:
            slope_rate = rate * rows / (z + 2.0 * pushed)
            pushed = 0.5 * rows * np.log1p(2.0 * pushed / z)
        return pulled + rate * pushed, 2.0 * (pull + slope_rate[:, None] * push)


def minima(start, rows, value_and_slope, extent, inverse, steps, rest):  # type: ignore[no-untyped-def]
    """Minima near starts, and values there; ``rows`` are the points that start.

    Descent along the negative gradient times ``inverse``, where the value falls, by steps whose
    length fits the change of the slope along the step before.
    """
    places, active = start.copy(), np.arange(len(start))
    value, slope = value_and_slope(places, rows)
    lowest, length = value.copy(), np.ones(len(start))
    for _ in range(steps):
        if not active.size:
            break
        step = -length[:, None] * np.einsum("nij,nj->ni", inverse[rows[active]], slope)
        size = np.linalg.norm(step, axis=1)
        share = np.minimum(1.0, LONGEST * extent / np.maximum(size, 1e-300))
        step *= share[:, None]
        trial = places[active] + step
        trial_value, trial_slope = value_and_slope(trial, rows[active])
        better = trial_value < value
        rise, fall = (step * (trial_slope - slope)).sum(axis=1), -(step * slope).sum(axis=1)
        factor = np.divide(fall, rise, out=np.full(len(active), 3.0), where=rise > 0.0)
        length *= share * np.where(better, np.minimum(factor, 3.0), np.minimum(factor, 0.3))
        places[active[better]] = trial[better]
        lowest[active[better]] = value[better] = trial_value[better]
        slope[better] = trial_slope[better]
        moving = size > rest * extent
        active, value, slope, length = (e[moving] for e in (active, value, slope, length))
    return places, lowest


def interpolation(squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """theta, shape (n,), and (1 - theta) s, shape (n, k), of :meth:`PlacedMap.place`.

    ``squared`` are squared distances to known points, in ascending order.
    """
    r = np.sqrt(squared)
    reach = np.broadcast_to(r[:, -1:], r.shape)
    r = np.divide(r, reach, out=np.ones_like(r), where=reach > 0.0)
    # Times r_1, since 1/r_1 is infinite at a known point.
    ratios = np.divide(r[:, :1], r, out=np.ones_like(r), where=r > 0.0)
    weights = (ratios * (1.0 - r)) ** 2
    total = r[:, 0] ** 2 + weights.mean(axis=1)
    return r[:, 0] ** 2 / total, weights / (weights.shape[1] * total[:, None])


def nearest_known(
    points: Any, layout: Layout | None, new: Any, k: int, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest known points of this rank's new ones in ascending order, and squared distances.

    Collective; ``points`` and ``layout`` are those of :class:`PlacedMap`.
    """
    metric = ALIASES.get(metric, metric)
    if metric == "precomputed":
        if scipy.sparse.issparse(new):
            raise InputError("distances of new points to all fitted ones must be a dense array")
        if new.min(initial=0.0) < 0.0:
            raise InputError("precomputed distances must not be negative")
        squared = np.asarray(new, dtype=float) ** 2
        near = np.argsort(squared, axis=1, kind="stable")[:, :k]
        return near, np.take_along_axis(squared, near, 1)
    if metric not in ("euclidean", *ANGULAR, *OTHERS):
        raise InputError(
            f"new points cannot be placed by metric '{metric}'; use 'euclidean', 'cosine', "
            f"'correlation', {', '.join(repr(other) for other in OTHERS)}, or distances"
        )
    known = dataset_of(points, layout)
    if isinstance(known, SparseDataset):  # new points in the form of the known ones
        new = scipy.sparse.csr_matrix(new)
    elif scipy.sparse.issparse(new):
        new = new.toarray()
    known, asking = measured_together(metric, [known, dataset_of(new, None)], known.layout.comm)
    measure = "euclidean" if metric in ANGULAR else metric
    indices, squared = nearest_among(known, asking, k, False, measure)
    return indices, squared_distances_of(squared, metric)


def dataset_of(rows: Any, layout: Layout | None) -> Dataset:
    """Rows as a data set; of this rank alone without a layout."""
    layout = (layout or Layout(MPI.COMM_SELF, rows.shape[0])).with_columns(rows.shape[1])
    if scipy.sparse.issparse(rows):
        empty = np.empty((rows.shape[0], 0))
        return SparseDataset(empty, layout, sparse=scipy.sparse.csr_matrix(rows))
    return Dataset(np.asarray(rows), layout)
