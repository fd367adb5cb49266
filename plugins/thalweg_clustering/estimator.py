"""KDAC as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

import thalweg
from thalweg.errors import InputError
from thalweg.interfaces import Solver
from thalweg.parallel import MPI, Layout
from thalweg_clustering.kdac import make_kdac
from thalweg_clustering.prepared_data import active_features, centred_points, given_labels
from thalweg_clustering.search import search_parameters

#: Checks of scikit-learn that do not apply to a method that needs a clustering given.
EXPECTED_FAILURES = {
    "check_clustering": "fits without y, but an alternative needs a clustering to differ from",
}


class KDAC(TransformerMixin, ClusterMixin, BaseEstimator):
    """Alternative clustering: clusters of high quality unlike the clustering given.

    Kernel Dimension Alternative Clustering (Niu, Dy and Jordan, 2014) by the
    Iterative Spectral Method (Wu et al., 2018): a subspace W and an embedding U
    that maximise HSIC(XW, U) - lambda HSIC(XW, Y), then k-means on the rows of U.

    Features should have comparable scales (``StandardScaler``), unless theirs mean
    something.

    Parameters
    ----------
    n_clusters
        k; by default as many as in the clustering given.
    n_components
        q, dimension of the subspace, less than the number of features that are not
        constant; by default ``min(k, d - 1)``.
    sigma
        Width of the Gaussian kernel, in the unit of the features; by default half
        the median distance of the samples; ``"search"`` chooses sigma, lambda and,
        unless given, the number of components.
    lambda_
        Weight of the novelty.
    solver
        ``"ism"``, ``"stiefel"``, ``"stiefel-trust-region"``, ``"dimension-growth"``,
        or a solver object.
    init
        ``"spectral"`` or ``"random"``.
    random_state
        Seed of a random start and of k-means.

    Attributes
    ----------
    labels_
        Cluster of each sample, shape ``(n_samples,)``.
    components_
        Transposed W, shape ``(n_components, n_features)``; zero for constant features.
    embedding_
        U, shape ``(n_samples, n_clusters)``.
    objective_
        Cost: minus the maximised objective.
    novelty_
        Normalised mutual information of ``labels_`` and the clustering given: 0 is best.
    quality_
        HSIC(XW, U), the spectral clustering objective: at most k.
    degenerate_
        Whether all samples, or all but one, ended in one cluster, or sigma is so small or
        large that the kernel tells samples not apart.
    condition_
        Both sides of condition (10), under which the fixed point is a local minimum.
    sigma_, lambda__
        The values used.
    n_iter_
        Steps on W.
    trace_
        The :class:`thalweg.Trace` of the run: one row a step on W.
    status_
        How the run ended, a :class:`thalweg.Status`.

    Notes
    -----
    ``fit`` needs ``y``, the clustering given.  scikit-learn's check that fits a
    clusterer without labels therefore does not apply: :data:`EXPECTED_FAILURES`
    is what to hand to ``check_estimator``; all others pass.
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        n_components: int | None = None,
        sigma: float | str | None = None,
        lambda_: float = 1.0,
        solver: str | Solver[Any] = "ism",
        init: str = "spectral",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.sigma = sigma
        self.lambda_ = lambda_
        self.solver = solver
        self.init = init
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # The parameter lambda_ ends like a fitted attribute, so scikit-learn cannot tell.
        return hasattr(self, "labels_")

    def fit(self, X: np.ndarray, y: np.ndarray | None = None) -> KDAC:
        """Find the alternative clustering.

        Parameters
        ----------
        X
            Samples, shape ``(n_samples, n_features)``.
        y
            The clustering given, shape ``(n_samples,)``, at least two clusters.

        Raises
        ------
        InputError
            A ``ValueError``: labels that do not fit the samples, a single cluster
            given, or a parameter out of its range.
        """
        if y is None:
            raise InputError(
                "KDAC requires y to be passed, but the target y is None: it is the clustering given"
            )
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=3)
        self._check_parameters()
        given = given_labels(y, len(X), "the clustering given (y)")
        layout = Layout(MPI.COMM_SELF, *X.shape)
        points = centred_points(layout, X)
        active = active_features(layout, points)
        inner = np.ascontiguousarray(points[:, active])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        clusters = self.n_clusters or int(given.max()) + 1
        columns, penalty = self.n_components, self.lambda_
        sigma: float | None
        if isinstance(self.sigma, str):
            found = search_parameters(layout, inner, given, clusters, columns, seed=seed)
            columns, sigma, penalty = found.components, found.sigma, found.penalty
        else:
            sigma = self.sigma
        objective = make_kdac(
            layout, inner, given, clusters, columns, sigma, penalty, self.init, seed=seed
        )
        result = thalweg.minimize(objective, solver=self.solver, seed=seed)
        x = objective.layout.vec_from(result.x)
        outcome = objective.outcome(x)
        x.destroy()
        measures = outcome["measures"]
        self.labels_ = outcome["labels"]
        self.embedding_ = outcome["embedding"]
        self.components_ = np.zeros((result.x.shape[1], X.shape[1]))
        self.components_[:, active] = result.x.T
        self.mean_ = X.mean(axis=0)
        self.objective_ = measures["cost"]
        self.novelty_ = measures["novelty"]
        self.quality_ = measures["cq"]
        self.degenerate_ = measures["degenerate"]
        self.condition_ = measures["condition_10"]
        self.sigma_, self.lambda__ = measures["sigma"], measures["lambda"]
        self.n_iter_ = result.iterations
        self.trace_, self.status_ = result.trace, result.status
        if self.degenerate_:
            warnings.warn(
                f"the alternative clustering is degenerate: {measures['degenerate_because']}",
                stacklevel=2,
            )
        return self

    def fit_predict(self, X: np.ndarray, y: np.ndarray | None = None, **kwargs: Any) -> np.ndarray:
        """Labels of :meth:`fit`."""
        return self.fit(X, y).labels_

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Samples in the subspace, shape ``(n_samples, n_components)``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray((X - self.mean_) @ self.components_.T)

    def _check_parameters(self) -> None:
        for name, least in (("n_clusters", 1), ("n_components", 1)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Integral) and int(value) >= least):
                raise InputError(
                    f"{name} must be a whole number of at least {least}, not {value!r}"
                )
        if isinstance(self.sigma, str) and self.sigma != "search":
            raise InputError(f"sigma must be a number, None or 'search', not {self.sigma!r}")
        if not isinstance(self.lambda_, Real):
            raise InputError(f"lambda_ must be a number, not {self.lambda_!r}")
        if self.init not in ("spectral", "random"):
            raise InputError(f"init must be 'spectral' or 'random', not {self.init!r}")
