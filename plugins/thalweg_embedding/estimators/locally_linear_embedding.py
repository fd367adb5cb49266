"""Locally linear embedding as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

from thalweg.data import Dataset
from thalweg_embedding.estimators.spectral import SpectralEstimator
from thalweg_embedding.spectral.build import locally_linear_embedding
from thalweg_embedding.spectral.objective import SpectralEmbedding


class LocallyLinearEmbedding(SpectralEstimator):
    """Locally linear embedding (Roweis and Saul 2000).

    Parameters
    ----------
    n_components
        Dimensions of the map.
    n_neighbors
        Neighbours that a point is rebuilt from; all others where there are fewer.
    reg
        Share of the trace added to the diagonal of each local Gram matrix.
    eigen_solver, random_state
        As in :class:`LaplacianEigenmaps`.

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
        n_neighbors: int = 12,
        reg: float = 1e-3,
        eigen_solver: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.reg = reg
        self.eigen_solver = eigen_solver
        self.random_state = random_state

    def _build(self, dataset: Dataset) -> SpectralEmbedding:
        return locally_linear_embedding(
            dataset,
            dataset.comm,
            dimensions=self.n_components,
            count=self._count(dataset),
            regularisation=self.reg,
        )
