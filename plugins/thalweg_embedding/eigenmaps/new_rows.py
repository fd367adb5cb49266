"""New points in a map of eigenvectors: each is placed by its neighbors, as fitted points are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, max_over_ranks, raise_on_all_ranks, rows_at
from thalweg_embedding.affinities.distances import nearest_among
from thalweg_embedding.affinities.row_affinities import entropic_rows
from thalweg_embedding.eigenmaps.neighbor_graph import BLOCK, barycentric_weights
from thalweg_embedding.new_points import dataset_of, interpolation

#: 1 - lambda/D below which the mean of neighbors does not tell the place of a point.
LEAST_GAP = 0.01


@dataclass(frozen=True)
class ExtendedMap:
    """A map of eigenvectors, with what new points need to find their place."""

    #: This rank's known points, shape (local_rows, features); None where new rows hold weights
    #: between a new point and all known ones.
    points: Any
    places: np.ndarray  # the places of all of them in the map, shape (N, d)
    #: How the N known points are distributed over the ranks; None if this rank has them all.
    layout: Layout | None
    n_neighbors: int
    eigenvalues: np.ndarray  # those of the map, shape (d,); zeros for LLE
    #: D, the sum of a point's weights, where the constraint is X'X = I; None where it has D.
    degree: float | None = None
    perplexity: float | None = None  # that of entropic weights; None for equal ones
    regularization: float | None = None  # that of the local Gram matrices of LLE; None for others

    def place(self, new: np.ndarray) -> np.ndarray:
        """Places of this rank's new points, shape (M, d).  Collective.

        That of x is theta f(x) + (1 - theta) sum_m s_m y_m over its nearest known points, at the
        places y_m, with f of the Nystrom formula or of LLE (MATHEMATICS.md, "New points") and
        weights s as in :meth:`~thalweg_embedding.new_points.PlacedMap.place`.
        """
        comm = self.layout.comm if self.layout else MPI.COMM_SELF
        if self.points is None:
            degrees = new.sum(axis=1, keepdims=True)
            with raise_on_all_ranks(comm):
                if new.min(initial=0.0) < 0.0 or not (degrees > 0.0).all():
                    raise InputError("weights of a new point must be 0 or more, and some positive")
            return self._extended(new @ self.places / degrees, degrees)
        known = dataset_of(self.points, self.layout)
        neighbors = min(len(self.places), max(3, self.n_neighbors))
        indices, squared = nearest_among(known, dataset_of(new, None), neighbors, False)
        places = np.empty((len(new), self.places.shape[1]))
        k = min(self.n_neighbors, len(self.places))
        step = max(1, BLOCK // (k * (k + new.shape[1])))
        for first in range(0, int(max_over_ranks(comm, float(len(new)))), step):
            part = slice(first, first + step)
            near = self.places[indices[part]]
            if self.regularization is not None:
                rows = rows_at(known.layout, known.values, indices[part, :k].ravel())
            if len(near) == 0:
                continue
            if self.regularization is not None:
                differences = rows.reshape(-1, k, new.shape[1]) - new[part, None, :].astype(float)
                weights = barycentric_weights(differences, self.regularization)
            elif self.perplexity is not None:
                weights = entropic_rows(squared[part, :k], min(self.perplexity, 0.9 * k))
            else:
                weights = np.full((len(near), k), 1.0 / k)
            means = np.einsum("nk,nkd->nd", weights, near[:, :k])
            theta, interpolating = interpolation(squared[part])
            places[part] = theta[:, None] * self._extended(means, self.degree)
            places[part] += np.einsum("nk,nkd->nd", interpolating, near)
        return places

    def _extended(self, means: np.ndarray, degrees: Any) -> np.ndarray:
        gap = 1.0 - self.eigenvalues / (1.0 if self.degree is None else degrees)
        return np.asarray(means / np.where(np.abs(gap) < LEAST_GAP, 1.0, gap))
