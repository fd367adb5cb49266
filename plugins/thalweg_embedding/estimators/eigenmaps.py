"""scikit-learn estimators of the embeddings that are eigenproblems."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import thalweg
from thalweg.data import Dataset, comm_of
from thalweg.parallel import (
    collective_call,
    job_threads,
    raise_on_all_ranks,
    refuse_differing,
    shared_seed,
)
from thalweg.plugins import check_parameters, declared_options, estimator
from thalweg_embedding.affinities.affinities_from_data import perplexity_for
from thalweg_embedding.eigenmaps.eigenmaps_from_data import (
    laplacian_eigenmaps,
    locally_linear_embedding,
)
from thalweg_embedding.eigenmaps.eigenvector_embedding import EigenvectorEmbedding
from thalweg_embedding.eigenmaps.new_rows import ExtendedMap
from thalweg_embedding.estimators.transformer import MapTransformer


@estimator
class EigenvectorEstimator(MapTransformer):
    """Base of :class:`LaplacianEigenmaps` and :class:`LocallyLinearEmbedding`.

    Parameters
    ----------
    eigen_solver
        Method of the solver ``eigen``.
    random_state
        Seed of the start, which has no bearing on the result.

    Attributes
    ----------
    embedding_ : ndarray of float64, shape (n_samples, n_components)
    eigenvalues_ : ndarray of float64, shape (n_components,)
    objective_ : float
        Twice the sum of the eigenvalues.
    n_iter_, n_features_in_ : int
    notes_ : tuple of str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> EigenvectorEstimator(n_neighbors=15).fit_transform(load_iris().data).shape
    (150, 2)
    """

    #: Builder of the objective, and parameters that set an option of another name.
    _build: ClassVar[Callable[..., EigenvectorEmbedding]]
    _names: ClassVar[dict[str, str]] = {"n_components": "dimensions"}

    n_neighbors: int = 10
    eigen_solver: str = "auto"

    @collective_call(lambda self, X, *_, **__: comm_of(X))
    def fit(self, X: Any, y: Any = None) -> "EigenvectorEstimator":
        """Embed the rows of X, an array (n_samples, n_features) or a :class:`thalweg.Dataset`.

        Raises
        ------
        InputError
            Data or parameters that cannot be used; it is a ``ValueError``.
        """
        build = type(self)._build
        with raise_on_all_ranks(comm_of(X)):
            X = self._dataset(X)
            options = check_parameters(self, declared_options(build), self._names)
        refuse_differing(X.comm, "the parameters", self.keep_data)
        # Where there are no more points, a point has fewer neighbors.
        options["n_neighbors"] = min(options["n_neighbors"], max(1, X.layout.rows - 1))
        with job_threads(self.n_jobs, X.comm):
            objective = build(X, X.comm, **options)
            seed, method = shared_seed(X.comm, self.random_state), self.eigen_solver
            result = thalweg.minimize(objective, solver="eigen", seed=seed, method=method)
            layout = objective.layout
            self.embedding_ = objective.solution(result.x)
            self.eigenvalues_ = np.array(objective.metrics(result.x)["eigenvalues"])
        self.objective_, self.notes_ = result.objective, result.notes
        self.n_iter_ = max(1, result.iterations)
        self._placed = None
        if self.keep_data:
            shared = (layout.gather_rows(self.embedding_), layout if layout.comm.size > 1 else None)
            self._placed = self._new_rows(X, options["n_neighbors"], shared)
        result.warn_unless_converged()
        return self

    def _new_rows(self, data: Dataset, count: int, shared: tuple[Any, Any]) -> ExtendedMap:
        raise NotImplementedError


@estimator
class LaplacianEigenmaps(EigenvectorEstimator):
    """Laplacian eigenmaps (Belkin and Niyogi 2003).

    Parameters
    ----------
    affinity
        ``"neighbors"``: weight 1 for the ``n_neighbors`` nearest; ``"entropic"``, with
        ``perplexity``; or ``"precomputed"``.
    """

    _build = staticmethod(laplacian_eigenmaps)

    affinity: str = "neighbors"
    perplexity: float | None = None
    normalized: bool = True

    def _new_rows(self, data: Dataset, count: int, shared: tuple[Any, Any]) -> ExtendedMap:
        rows, perplexity = data.layout.rows, None
        degree = None if self.normalized else float(count)
        if self.affinity == "entropic":
            perplexity = perplexity_for(rows, self.perplexity)
            count, degree = round(3 * perplexity), None if self.normalized else 1.0 / rows
        points = None if self.affinity == "precomputed" else data.values
        return ExtendedMap(points, *shared, count, self.eigenvalues_, degree, perplexity)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


@estimator
class LocallyLinearEmbedding(EigenvectorEstimator):
    """Locally linear embedding (Roweis and Saul 2000).

    Parameters
    ----------
    reg
        Share of the trace added to the diagonal of each local Gram matrix.
    """

    _build = staticmethod(locally_linear_embedding)
    _names: ClassVar[dict[str, str]] = {"n_components": "dimensions", "reg": "regularization"}

    n_neighbors: int = 12
    reg: float = 1e-3

    def _new_rows(self, data: Dataset, count: int, shared: tuple[Any, Any]) -> ExtendedMap:
        none = np.zeros_like(self.eigenvalues_)
        return ExtendedMap(data.values, *shared, count, none, regularization=self.reg)
