"""scikit-learn estimators of the embeddings that attract neighbors and repel all points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

import thalweg
from thalweg.data import Dataset
from thalweg.driver import STOP_OPTIONS
from thalweg.errors import InputError
from thalweg.parallel import MPI, collective_call, raise_on_all_ranks
from thalweg.plugins import check_parameters
from thalweg_embedding.affinities.build import perplexity_for
from thalweg_embedding.affinities.symmetric import check_weights
from thalweg_embedding.new_points import PlacedMap
from thalweg_embedding.objective import PairwiseEmbedding
from thalweg_embedding.objectives import (
    ELASTIC_EMBEDDING,
    SYMMETRIC_SNE,
    T_SNE,
    Family,
    embedding,
    options_of,
)


class PairwiseEstimator(  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """What :class:`TSNE`, :class:`SymmetricSNE` and :class:`ElasticEmbedding` share.

    ``fit`` and ``fit_transform`` take an array, shape (n_samples, n_features), or a
    :class:`thalweg.Dataset` whose rows are distributed over ranks; the map then has this
    rank's rows.
    """

    family: ClassVar[Family]

    def _checked(self) -> dict[str, Any]:
        """Options of the objective, checked as those of a configuration file are.

        Raises
        ------
        InputError
            A wrong type, out of bounds, or not among the choices.
        """
        options = [
            o for o in options_of(self.family) if o.name != "init" or isinstance(self.init, str)
        ]
        checked = check_parameters(self, options, {"n_components": "dimensions"})
        check_parameters(self, STOP_OPTIONS, {"max_iter": "iterations", "tol": "decrease"})
        return {"lambda_" if name == "lambda" else name: given for name, given in checked.items()}

    @collective_call(lambda self, X, *_, **__: X.comm if isinstance(X, Dataset) else MPI.COMM_SELF)
    def fit(self, X: Any, y: Any = None) -> PairwiseEstimator:
        """Embed the rows of X.

        Parameters
        ----------
        X
            Points, shape (n_samples, n_features), or with ``affinity="precomputed"``
            their symmetric affinities, shape (n_samples, n_samples), dense or sparse.
        y
            Ignored.

        Raises
        ------
        InputError
            Data or parameters that cannot be used; it is a ``ValueError``.
        """
        objective = self._objective(X)
        try:
            result = thalweg.minimize(
                objective,
                solver=self.solver,
                preconditioner=self.preconditioner,
                seed=self._seed(objective.comm),
                iterations=self.max_iter,
                decrease=self.tol,
                **(self.solver_options or {}),
            )
            self._keep(result)
            self._placed = self._new_points(X, objective)
        finally:
            objective.destroy()
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Embed the rows of X; returns the map, shape (n_samples, n_components)."""
        return np.array(self.fit(X).embedding_)

    @available_if(lambda self: self.affinity != "precomputed")
    def transform(self, X: Any) -> np.ndarray:
        """Places of new points in the map, which stays as it is; shape (n_new, n_components).

        A point that was fitted gets its own place (see
        :class:`~thalweg_embedding.new_points.PlacedMap`).  In a map fitted on several ranks
        this is a collective call: every rank gives its own new points, an array or its part
        of a :class:`thalweg.Dataset`, perhaps without rows, and gets their places.
        """
        check_is_fitted(self, "embedding_")
        placed = self._placed
        assert placed is not None
        with raise_on_all_ranks(placed.layout.comm if placed.layout else MPI.COMM_SELF):
            new = self._checked_new_points(X, placed.layout is not None)
        return placed.place(new)

    def _checked_new_points(self, X: Any, several_ranks: bool) -> np.ndarray:
        empty = several_ranks or isinstance(X, Dataset)
        try:
            found: np.ndarray = validate_data(
                self,
                X.values if isinstance(X, Dataset) else X,
                dtype=(np.float64, np.float32),
                reset=False,
                ensure_min_samples=0 if empty else 1,
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        return found

    def _objective(self, X: Any) -> PairwiseEmbedding:
        precomputed = self.affinity == "precomputed"
        weights = None
        if isinstance(X, Dataset):
            dataset = X
            self.n_features_in_ = dataset.layout.columns
        else:
            X = validate_data(
                self,
                X,
                accept_sparse="csr" if precomputed else False,
                dtype=(np.float64, np.float32),
                ensure_min_samples=3,
            )
            if scipy.sparse.issparse(X):
                dataset = Dataset.from_array(np.empty((*X.shape[:1], 0)))
                weights = scipy.sparse.csr_matrix(X, dtype=float)
                check_weights(dataset.layout, weights)
                weights = weights / weights.sum()
            else:
                dataset = Dataset.from_array(X)
        start: np.ndarray | None = None
        if not isinstance(self.init, str):
            start = np.asarray(self.init, dtype=float)
            wanted = (dataset.layout.local_rows, self.n_components)
            if start.shape != wanted:
                raise InputError(f"init must have shape {wanted}, not {start.shape}")
        return embedding(self.family, dataset, start=start, weights=weights, **self._checked())

    def _seed(self, comm: MPI.Comm) -> int:
        drawn = int(check_random_state(self.random_state).randint(2**31 - 1))
        return int(comm.bcast(drawn))

    def _keep(self, result: thalweg.Result) -> None:
        self.embedding_ = result.x
        self.n_iter_ = max(1, result.iterations)
        self.objective_ = result.objective
        self.trace_ = result.trace
        if "kl_divergence" in result.metrics:
            self.kl_divergence_ = float(result.metrics["kl_divergence"])

    def _new_points(self, X: Any, objective: PairwiseEmbedding) -> PlacedMap | None:
        if self.affinity == "precomputed":
            return None
        layout = objective.layout
        points = X.values if isinstance(X, Dataset) else np.array(X, dtype=float)
        family = self.family
        lambda_ = objective.homotopy_parameter
        if not family.normalized:
            uniform = getattr(self, "repulsive_weights", "uniform") != "one"
            lambda_ *= 1.0 / layout.rows if uniform else layout.rows
        return PlacedMap(
            points,
            layout.gather_rows(self.embedding_),
            # A communicator does not survive pickling, which estimators must.
            layout if objective.comm.size > 1 else None,
            family.attraction,
            family.repulsion,
            family.normalized,
            lambda_,
            perplexity_for(layout.rows, self.perplexity),
        )

    def __sklearn_is_fitted__(self) -> bool:
        # A parameter may end in an underscore too: lambda_.
        return hasattr(self, "embedding_")

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        tags.input_tags.sparse = self.affinity == "precomputed"
        return tags


@dataclass(eq=False, repr=False)
class TSNE(PairwiseEstimator):
    """t-SNE, minimized by L-BFGS with the spectral direction as H0.

    Parameters
    ----------
    n_components
        Dimensions of the map.
    perplexity
        Effective number of neighbors, less than n_samples - 1; by default 30, or a third of
        the points if that is less.
    affinity
        ``"entropic"``, or ``"precomputed"``: X holds symmetric non-negative affinities.
    graph
        Affinities of all pairs (``"dense"``), of the nearest neighbors (``"sparse"``), or
        ``"auto"``: dense up to 1,000 points.
    exaggeration
        Early exaggeration: the repulsion starts at 1/exaggeration and is raised in stages.  By
        default 12 for 1,000 points or more, else 1.
    init
        ``"random"``, ``"pca"``, an array (n_samples, n_components), or ``"auto"``: principal
        components for SNE variants, else random.
    max_iter, tol
        Iterations, and relative decrease of the objective in the last five of them, at which to
        stop.  By default a run ends where little but the size of the map still changes; 1e-7 goes
        on to lower values, in maps ever wider.
    solver, preconditioner, solver_options
        Any of ``thalweg list``, and their options; by default L-BFGS, and the spectral
        direction where the solver has a place for it.
    random_state
        Seed of the start.

    Attributes
    ----------
    embedding_ : ndarray of float64, shape (n_samples, n_components)
    objective_ : float
        Final value, as the run saw it.
    kl_divergence_ : float
        The same, evaluated once more with a hundredth of its error.
    n_iter_ : int
    trace_ : thalweg.Trace
        Objective, gradient norm, evaluations and seconds of each iterate.
    """

    family = T_SNE

    n_components: int = 2
    _: KW_ONLY
    perplexity: float | None = None
    affinity: str = "entropic"
    graph: str = "auto"
    exaggeration: float | None = None
    init: Any = "auto"
    max_iter: int = 300
    tol: float = 5e-3
    solver: str = "lbfgs"
    preconditioner: str | None = None
    solver_options: Mapping[str, Any] | None = None
    random_state: Any = None


class SymmetricSNE(TSNE):
    """Symmetric SNE: t-SNE's problem with a Gaussian kernel in the map.

    Parameters and attributes are those of :class:`TSNE`.
    """

    family = SYMMETRIC_SNE


@dataclass(eq=False, repr=False)
class ElasticEmbedding(PairwiseEstimator):
    """The elastic embedding of Carreira-Perpinan (2010).

    Parameters
    ----------
    lambda_
        lambda, the weight of the repulsion.
    repulsive_weights
        w-: ``"uniform"``, ``"squared-distances"`` of the data (both sum to 1), or ``"one"``.
    n_components, perplexity, affinity, graph, init, max_iter, tol, solver, preconditioner, \
solver_options, random_state
        As in :class:`TSNE`.

    Attributes
    ----------
    embedding_ : ndarray of float64, shape (n_samples, n_components)
    objective_ : float
    n_iter_ : int
    trace_ : thalweg.Trace
    """

    family = ELASTIC_EMBEDDING

    n_components: int = 2
    _: KW_ONLY
    lambda_: float = 100.0
    repulsive_weights: str = "uniform"
    perplexity: float | None = None
    affinity: str = "entropic"
    graph: str = "auto"
    init: Any = "auto"
    max_iter: int = 300
    tol: float = 1e-7
    solver: str = "lbfgs"
    preconditioner: str | None = None
    solver_options: Mapping[str, Any] | None = None
    random_state: Any = None
