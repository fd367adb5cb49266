"""Estimators of the embeddings that are eigenproblems."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

import thalweg
from thalweg.data import Dataset
from thalweg_embedding.spectral.build import laplacian_eigenmaps, locally_linear_embedding
from thalweg_embedding.spectral.objective import SpectralEmbedding


class SpectralEstimator(  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """What :class:`LaplacianEigenmaps` and :class:`LocallyLinearEmbedding` share."""

    def _build(self, dataset: Dataset) -> SpectralEmbedding:
        raise NotImplementedError

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
        self.embedding_ = objective.solution(point)
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


class LaplacianEigenmaps(SpectralEstimator):
    """Laplacian eigenmaps (Belkin and Niyogi 2003).

    Parameters
    ----------
    n_components
        Dimensions of the map.
    n_neighbors
        Neighbours of a point, of weight 1, with ``affinity="neighbours"``.
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
            count=self.n_neighbors,
            perplexity=self.perplexity,
            normalised=self.normalised,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


class LocallyLinearEmbedding(SpectralEstimator):
    """Locally linear embedding (Roweis and Saul 2000).

    Parameters
    ----------
    n_components
        Dimensions of the map.
    n_neighbors
        Neighbours that a point is rebuilt from.
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
            count=self.n_neighbors,
            regularisation=self.reg,
        )
