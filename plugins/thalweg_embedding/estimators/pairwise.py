"""What estimators of embeddings that attract neighbours and repel all share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, collective_call, raise_on_all_ranks
from thalweg_embedding.affinities.build import perplexity_for
from thalweg_embedding.affinities.symmetric import check_weights
from thalweg_embedding.new_points import PlacedMap
from thalweg_embedding.objective import PairwiseEmbedding
from thalweg_embedding.objectives import (
    MANY_ROWS,
    Family,
    embedding,
)

#: Most that a point of a large map moves in one step, in map units.
STEP_CAP = 50.0


class PairwiseEstimator(  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """What :class:`TSNE`, :class:`SymmetricSNE` and :class:`ElasticEmbedding` share.

    ``fit`` and ``fit_transform`` take an array, shape (n_samples, n_features), or a
    :class:`thalweg.Dataset` whose rows lie on several ranks; the map then has this
    rank's rows.
    """

    family: ClassVar[Family]

    def _own_options(self) -> dict[str, Any]:
        """Options of this family beyond the shared ones."""
        return {}

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
                **self._solver_options(objective),
            )
            self._keep(result, objective)
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
        init = self.init
        if not isinstance(init, str):
            init, start = "random", np.asarray(init, dtype=float)
            wanted = (dataset.layout.local_rows, self.n_components)
            if start.shape != wanted:
                raise InputError(f"init must have shape {wanted}, not {start.shape}")
        return embedding(
            self.family,
            dataset,
            dimensions=self.n_components,
            perplexity=self.perplexity,
            affinity=self.affinity,
            graph=self.graph,
            init=init,
            start=start,
            weights=weights,
            **self._own_options(),
        )

    def _solver_options(self, objective: PairwiseEmbedding) -> dict[str, Any]:
        """The user's, or for many points a cap on steps, which a collapsed map takes too long."""
        if self.solver_options is not None:
            return dict(self.solver_options)
        if self.solver == "lbfgs" and objective.layout.rows >= MANY_ROWS:
            return {"step_cap": STEP_CAP, "step_cap_unit": "absolute"}
        return {}

    def _seed(self, comm: MPI.Comm) -> int:
        drawn = int(check_random_state(self.random_state).randint(2**31 - 1))
        return int(comm.bcast(drawn))

    def _keep(self, result: thalweg.Result, objective: PairwiseEmbedding) -> None:
        self.embedding_ = result.x
        self.n_iter_ = max(1, result.iterations)
        self.objective_ = result.objective
        self.trace_ = result.trace
        point = objective.layout.vec_from(result.x)
        metrics: Mapping[str, Any] = objective.metrics(point)
        point.destroy()
        if "kl_divergence" in metrics:
            self.kl_divergence_ = float(metrics["kl_divergence"])

    def _new_points(self, X: Any, objective: PairwiseEmbedding) -> PlacedMap | None:
        if self.affinity == "precomputed":
            return None
        layout = objective.layout
        points = X.values if isinstance(X, Dataset) else np.array(X, dtype=float)
        family = self.family
        strength = objective.homotopy_parameter
        if not family.normalised:
            uniform = self._own_options().get("repulsive_weights") != "one"
            strength *= 1.0 / layout.rows if uniform else layout.rows
        return PlacedMap(
            points,
            layout.gather_rows(self.embedding_),
            # A communicator does not survive pickling, which estimators must.
            layout if objective.comm.size > 1 else None,
            family.attraction,
            family.repulsion,
            family.normalised,
            strength,
            perplexity_for(layout.rows, self.perplexity),
        )

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        tags.input_tags.sparse = self.affinity == "precomputed"
        return tags
