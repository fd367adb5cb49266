"""What estimators of embeddings that are eigenproblems share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import MPI, collective_call
from thalweg_embedding.spectral.objective import SpectralEmbedding


class SpectralEstimator(  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """What :class:`LaplacianEigenmaps` and :class:`LocallyLinearEmbedding` share."""

    n_neighbors: int

    def _build(self, dataset: Dataset) -> SpectralEmbedding:
        raise NotImplementedError

    def _count(self, dataset: Dataset) -> int:
        """Neighbours of a point, fewer where there are no more points."""
        return min(self.n_neighbors, max(1, dataset.layout.rows - 1))

    @collective_call(lambda self, X, *_, **__: X.comm if isinstance(X, Dataset) else MPI.COMM_SELF)
    def fit(self, X: Any, y: Any = None) -> SpectralEstimator:
        """Embed the rows of X, an array (n_samples, n_features) or a :class:`thalweg.Dataset`.

        Raises
        ------
        InputError
            Data or parameters that cannot be used; it is a ``ValueError``.
        """
        if isinstance(X, Dataset):
            dataset = X
            self.n_features_in_ = dataset.layout.columns
        else:
            checked = validate_data(self, X, dtype=(np.float64, np.float32), ensure_min_samples=3)
            dataset = Dataset.from_array(checked)
        objective = self._build(dataset)
        seed = int(
            dataset.comm.bcast(int(check_random_state(self.random_state).randint(2**31 - 1)))
        )
        result = thalweg.minimize(objective, solver="eigen", seed=seed, method=self.eigen_solver)
        point = objective.layout.vec_from(result.x)
        self.embedding_ = objective.map_rows(point)
        self.eigenvalues_ = np.array(objective.metrics(point)["eigenvalues"])
        self.objective_ = result.objective
        self.n_iter_ = max(1, result.iterations)
        point.destroy()
        objective.destroy()
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Embed the rows of X; returns the map, shape (n_samples, n_components)."""
        return np.array(self.fit(X).embedding_)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])
