"""scikit-learn estimators of the embeddings that are eigenproblems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

import thalweg
from thalweg.data import Dataset, comm_of
from thalweg.parallel import collective_call, raise_on_all_ranks, shared_seed
from thalweg.plugins import check_parameters, declared_options
from thalweg_embedding.eigenmaps.build import laplacian_eigenmaps, locally_linear_embedding
from thalweg_embedding.eigenmaps.objective import EigenvectorEmbedding


class EigenvectorEstimator(  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of :class:`LaplacianEigenmaps` and :class:`LocallyLinearEmbedding`."""

    #: Builder of the objective, and parameters that set an option of another name.
    _build: ClassVar[Callable[..., EigenvectorEmbedding]]
    _names: ClassVar[dict[str, str]] = {"n_components": "dimensions"}

    @collective_call(lambda self, X, *_, **__: comm_of(X))
    def fit(self, X: Any, y: Any = None) -> EigenvectorEstimator:
        """Embed the rows of X, an array (n_samples, n_features) or a :class:`thalweg.Dataset`.

        Raises
        ------
        InputError
            Data or parameters that cannot be used; it is a ``ValueError``.
        """
        build = type(self)._build
        with raise_on_all_ranks(comm_of(X)):
            if not isinstance(X, Dataset):
                types = (np.float64, np.float32)
                X = Dataset.from_array(validate_data(self, X, dtype=types, ensure_min_samples=3))
            self.n_features_in_ = X.layout.columns
            options = check_parameters(self, declared_options(build), self._names)
        # Where there are no more points, a point has fewer neighbors.
        options["n_neighbors"] = min(options["n_neighbors"], max(1, X.layout.rows - 1))
        objective = build(X, X.comm, **options)
        seed = shared_seed(X.comm, self.random_state)
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


@dataclass(eq=False, repr=False)
class LaplacianEigenmaps(EigenvectorEstimator):
    """Laplacian eigenmaps (Belkin and Niyogi 2003).

    Parameters
    ----------
    n_components
        Dimensions of the map.
    n_neighbors
        Neighbors of a point, of weight 1, with ``affinity="neighbors"``; all others
        where there are fewer.
    affinity
        ``"neighbors"``, ``"entropic"`` (with ``perplexity``) or ``"precomputed"``.
    normalized
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

    _build = staticmethod(laplacian_eigenmaps)

    n_components: int = 2
    _: KW_ONLY
    n_neighbors: int = 10
    affinity: str = "neighbors"
    perplexity: float | None = None
    normalized: bool = True
    eigen_solver: str = "auto"
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


@dataclass(eq=False, repr=False)
class LocallyLinearEmbedding(EigenvectorEstimator):
    """Locally linear embedding (Roweis and Saul 2000).

    Parameters
    ----------
    n_components
        Dimensions of the map.
    n_neighbors
        Neighbors that a point is rebuilt from; all others where there are fewer.
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

    _build = staticmethod(locally_linear_embedding)
    _names: ClassVar[dict[str, str]] = {"n_components": "dimensions", "reg": "regularization"}

    n_components: int = 2
    _: KW_ONLY
    n_neighbors: int = 12
    reg: float = 1e-3
    eigen_solver: str = "auto"
    random_state: Any = None
