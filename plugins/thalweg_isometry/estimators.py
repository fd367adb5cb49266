"""scikit-learn estimators of near-isometric linear embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, collective_call
from thalweg.plugins import check_parameters, declared_options, refuse_former_names
from thalweg_isometry.objective import build


@refuse_former_names(declared_options(build))
class LinearIsometry(  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """What the estimators share.

    ``fit`` takes an array, shape (n_samples, n_features), or a
    :class:`thalweg.Dataset` whose rows lie on several ranks.


    Parameters
    ----------
    delta
        Largest relative change of a squared distance, in (0, 1).  None with a rank
        given: the least that the method finds.  0.4 if neither is given.
    rank
        Rows of the map.  None: as few as the method finds.
    secants
        Which pairs of points count: ``"all"``, ``"within-class"`` or ``"neighbors"``.
    n_neighbors
        With ``secants="neighbors"``: of how many.
    solver_options
        Further options of the solver, as ``thalweg list`` shows them.

    Attributes
    ----------
    components_ : ndarray of shape (rank_, n_features)
        The map Psi.
    rank_ : int
        Its rows.
    delta_ : float
        Its isometry constant over all secants, certified by looking at every one.
    rank_lower_bound_ : int
        No embedding of the points with this delta has a lower rank.
    n_secants_, n_coincident_ : int
        Pairs of distinct points, and of points at the same place.
    attaining_pair_ : tuple of int, or None
        The two points whose secant attains ``delta_``; None where every distance is kept.
    status_ : thalweg.Status
        ``TARGET_NOT_REACHED`` if delta cannot be had at the rank; the map is the best found.
    """

    _solver: str

    def __init__(
        self,
        delta: float | None = None,
        rank: int | None = None,
        secants: str = "all",
        n_neighbors: int = 10,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self.delta = delta
        self.rank = rank
        self.secants = secants
        self.n_neighbors = n_neighbors
        self.solver_options = solver_options

    @collective_call(lambda self, X, *_, **__: X.comm if isinstance(X, Dataset) else MPI.COMM_SELF)
    def fit(self, X: Any, y: Any = None) -> LinearIsometry:
        """Find a map for the rows of X.

        Parameters
        ----------
        X
            Points, shape (n_samples, n_features).
        y
            Classes, shape (n_samples,), with ``secants="within-class"``; else ignored.

        Raises
        ------
        InputError
            Data or parameters that cannot be used; it is a ``ValueError``.
        """
        check_parameters(self, declared_options(build))
        if isinstance(X, Dataset):
            dataset = X
            self.n_features_in_ = X.layout.columns
        else:
            X = validate_data(self, X, dtype=(np.float64, np.float32), ensure_min_samples=2)
            labels = None
            if self.secants == "within-class":
                if y is None:
                    raise InputError("secants within a class need classes; give y")
                labels = np.unique(np.asarray(y), return_inverse=True)[1]
            dataset = Dataset.from_array(X, labels)
        objective = build(
            dataset, dataset.comm, self.delta, self.rank, self.secants, self.n_neighbors
        )
        try:
            result = thalweg.minimize(objective, solver=self._solver, **(self.solver_options or {}))
            facts = result.metrics
        finally:
            objective.destroy()
        assert result.solution is not None
        self.components_ = result.solution
        self.rank_ = len(result.solution)
        self.delta_ = float(facts["delta"])
        self.rank_lower_bound_ = int(facts["rank_lower_bound"])
        self.n_secants_ = int(facts["n_secants"])
        self.n_coincident_ = int(facts["n_coincident"])
        self.attaining_pair_ = None if facts["pair"] is None else tuple(facts["pair"])
        self.status_ = result.status
        self.n_iter_ = max(1, result.iterations)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Map rows: ``X @ components_.T``, shape (n_samples, rank_)."""
        check_is_fitted(self)
        if isinstance(X, Dataset):
            return np.asarray(X.values @ self.components_.T)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return np.asarray(X @ self.components_.T.astype(X.dtype))

    @property
    def _n_features_out(self) -> int:
        return self.rank_


class NearIsometricEmbedding(LinearIsometry):
    """The framework's own method: squared hinge on the factor.

    Parameters, attributes and methods are those of :class:`LinearIsometry`.
    """

    _solver = "hinge-lbfgs"


class NuMax(LinearIsometry):
    """Least nuclear norm (Hegde et al. 2015).

    Parameters, attributes and methods are those of :class:`LinearIsometry`.
    """

    _solver = "numax"


class FroMax(LinearIsometry):
    """A factor near a matrix within the bounds (Luo et al., Algorithm 1).

    Parameters, attributes and methods are those of :class:`LinearIsometry`.
    """

    _solver = "fromax"


class NILEPro(LinearIsometry):
    """The largest distortion itself, by ADMM (Luo et al., Algorithm 2).

    Parameters, attributes and methods are those of :class:`LinearIsometry`.
    """

    _solver = "nile-pro"


class SecantPCA(LinearIsometry):
    """Baseline: principal directions of the normalized secants.

    Parameters, attributes and methods are those of :class:`LinearIsometry`.
    """

    _solver = "secant-pca"
