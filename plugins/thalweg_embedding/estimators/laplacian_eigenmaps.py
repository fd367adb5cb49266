"""Laplacian eigenmaps as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

from thalweg.data import Dataset
from thalweg_embedding.estimators.spectral import SpectralEstimator
from thalweg_embedding.spectral.build import laplacian_eigenmaps
from thalweg_embedding.spectral.objective import SpectralEmbedding


class LaplacianEigenmaps(SpectralEstimator):
    """Laplacian eigenmaps (Belkin and Niyogi 2003).

    Parameters
    ----------
    n_components
        Dimensions of the map.
    n_neighbors
        Neighbours of a point, of weight 1, with ``affinity="neighbours"``; all others
        where there are fewer.
    affinity
        ``"neighbours"``, ``"entropic"`` (with ``perplexity``) or ``"precomputed"``.
    normalised
        Constraint X'DX = I with the degrees D, or X'X = I.
    eigen_solver
        Method of the solver ``eigen``.
    random_state
        Seed of the start, which has no bearing on the result.

    Attributes
    ----------
    embedding_ : ndarray of float64, shape (n_samples, n_components)
    eigenvalues_ : ndarray of float64, shape (n_components,)
    objective_, n_iter_, n_features_in_
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int = 10,
        affinity: str = "neighbours",
        perplexity: float | None = None,
        normalised: bool = True,
        eigen_solver: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.affinity = affinity
        self.perplexity = perplexity
        self.normalised = normalised
        self.eigen_solver = eigen_solver
        self.random_state = random_state

    def _build(self, dataset: Dataset) -> SpectralEmbedding:
        return laplacian_eigenmaps(
            dataset,
            dataset.comm,
            dimensions=self.n_components,
            affinity=self.affinity,
            count=self._count(dataset),
            perplexity=self.perplexity,
            normalised=self.normalised,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags
