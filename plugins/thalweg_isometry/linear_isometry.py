"""Base of the scikit-learn estimators of near-isometric linear embeddings."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

import thalweg
from thalweg.data import Dataset, comm_of, is_missing, label_array, validate_data
from thalweg.driver import STOP_OPTIONS
from thalweg.engines.secants import SecantSet
from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import (
    MPI,
    Layout,
    collective_call,
    job_threads,
    raise_on_all_ranks,
    refuse_differing,
    shared_seed,
    sum_over_ranks,
)
from thalweg.plugins import check_parameters, declared_options, estimator
from thalweg_isometry.certificate import Certificate, certify
from thalweg_isometry.kept_neighbors import KeptNeighbors
from thalweg_isometry.near_isometry import NearIsometry, build, nearest, secant_set, with_opposites

#: Distance of the mean from the origin, over that of the entries from it, which is far.
FAR = 10.0


@estimator
class LinearIsometry(  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of the estimators, which have its parameters, attributes and methods.

    ``fit`` takes an array, shape (n_samples, n_features), or a
    :class:`thalweg.Dataset` whose rows are distributed over ranks.

    Parameters
    ----------
    delta
        Largest relative change of a squared distance, in (0, 1).  None with ``n_components``
        given: the least that the method finds.  0.4 if neither is given.
    n_components
        Rows of the map, its rank.  None: as few as the method finds.
    solver_options
        Further options of the solver, as ``thalweg list`` shows them.
    max_iter
        Steps of the search.  Where they end it, scikit-learn's ``ConvergenceWarning`` says so.
    verbose
        1 shows a progress bar on a terminal.
    n_jobs
        Threads of this process: None for those of ``OMP_NUM_THREADS`` or all cores, -1 for all
        cores.  Sums round differently on another number, and lead to another map, as certified.
    random_state
        Seed of random maps, of sampled scans and of what leaves stationary points: an integer, a
        ``RandomState`` or a ``Generator``.  None for one seed, so that two fits are equal.

    Attributes
    ----------
    components_ : ndarray of shape (rank, n_features)
        The map Psi.
    n_components_ : int
        Its rows.
    offset_ : ndarray of shape (n_features,)
        What :meth:`transform` takes from rows: zeros, but the mean where rows lie far from the
        origin, where rounding of their images would change short distances.
    delta_ : float
        Its isometry constant over all secants, certified over every one.
    rank_lower_bound_ : int
        No embedding of the points with this delta has a lower rank.
    n_secants_, n_coincident_ : int
        Pairs of distinct points, and of points at the same place.
    attaining_pair_ : tuple of int, or None
        The two points whose secant attains ``delta_``; None where every distance is kept.
    status_ : thalweg.Status
        ``TARGET_NOT_REACHED`` if delta cannot be had at the rank, with a
        ``ConvergenceWarning``; the map is the best found.
    notes_ : tuple of str
        Sentences on what the run decided, and which rank failed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> points = load_iris().data[::3]
    >>> LinearIsometry(n_components=3).fit(points).transform(points).shape
    (50, 3)
    """

    _build = staticmethod(build)
    _solver: ClassVar[str]

    delta: float | None = None
    n_components: int | None = None
    secants: str = "all"
    n_neighbors: int = 10
    solver_options: dict[str, Any] | None = None
    max_iter: int = 1000
    verbose: int = 0
    n_jobs: int | None = None
    random_state: Any = None

    @collective_call(lambda self, X, *_, **__: comm_of(X))
    def fit(self, X: Any, y: Any = None, pairs: Any = None, weights: Any = None) -> Self:
        """Find a map for the rows of X.

        Parameters
        ----------
        X
            Points, shape (n_samples, n_features); a sparse matrix stays sparse.
        y
            Classes, shape (n_samples,), with ``secants="within-class"``; else ignored.
        pairs
            Numbers of points, shape (m, 2): only these pairs are secants, whatever the
            parameter ``secants`` says.
        weights
            Of these pairs, shape (m,), above 0 and at most 1: a pair of weight w may change its
            squared distance by a share of ``delta / w``.  ``SecantAvoidanceProjection`` and
            ``LearnedJohnsonLindenstrauss`` take none.

        Raises
        ------
        InputError
            Data or parameters that cannot be used; it is a ``ValueError``.
        """
        self._seen: tuple[Any, np.ndarray | None, np.ndarray | None, str] | None = None
        comm = comm_of(X)
        with raise_on_all_ranks(comm), job_threads(self.n_jobs):
            parameters = self._checked_parameters()
            if isinstance(X, Dataset):
                self.n_features_in_ = X.layout.columns
            else:
                X = self._validated(X, reset=True, ensure_min_samples=2)
            if weights is not None and pairs is None:
                raise InputError("weights are those of pairs; give pairs, too")
        refuse_differing(comm, "the parameters", parameters, pairs is None, weights is None)
        return self._solve(X, y, pairs, weights)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on with further points: a map for these and those of earlier calls.

        The search begins with the present map and, where all pairs count or those within classes,
        with the secants that mattered for it.
        ``delta_`` holds over all pairs of the points of all calls, which are kept for that;
        points given to ``fit``, which forgets them, are not among them.

        Parameters
        ----------
        X
            Further points, shape (n_samples, n_features); a sparse matrix stays sparse.
        y
            Their classes, with ``secants="within-class"``; else ignored.

        Raises
        ------
        InputError
            Data or parameters that cannot be used; fewer than two distinct points so far; points
            of earlier calls without classes where these count now.
        """
        self._checked_parameters()
        if isinstance(X, Dataset):
            raise InputError("partial_fit takes arrays; give the whole Dataset to fit")
        known = hasattr(self, "components_")
        X = self._validated(X, reset=not known)
        seen = getattr(self, "_seen", None)
        if self.secants == "within-class" and y is None:
            raise InputError("secants within a class need classes; give y")
        # As objects those of all calls keep their types.
        y = label_array(y).astype(object) if self.secants == "within-class" else None
        refuse_masked(y, "the classes in y")
        cuts = None
        if seen is not None:
            points, classes, cuts, secants = seen
            if self.secants != secants or secants in ("neighbors", "sums"):
                cuts = None  # they may be no secants now
            if y is not None and classes is None:
                raise InputError(
                    "the points of earlier calls were given without classes; begin anew with fit"
                )
            if scipy.sparse.issparse(X) or scipy.sparse.issparse(points):
                X = scipy.sparse.vstack([points, X], format="csr")
            else:
                X = np.concatenate([points, X])
            y = None if y is None else np.concatenate([classes, y])
        self._solve(X, y, start=self.components_ if known else None, cuts=cuts)
        # Callers read the next points into the same buffer.
        self._seen = (X.copy() if seen is None else X, y, self._cuts, self.secants)
        return self

    def _secant_set(
        self, X: Any, y: Any = None, pairs: Any = None, weights: Any = None
    ) -> SecantSet:
        """The secants of rows, as the parameters say."""
        which, classes = self.secants if pairs is None else "pairs", None
        if which == "within-class" and not isinstance(X, Dataset):
            if y is None:
                raise InputError("secants within a class need classes; give y")
            refuse_masked(y, "the classes in y")
            classes = label_array(y)
            if any(is_missing(label) or label in (np.inf, -np.inf) for label in classes.flat):
                raise InputError("a class in y is none, or not finite; leave out rows without one")
            try:
                classes = np.unique(classes, return_inverse=True)[1]
            except TypeError:
                raise InputError("the classes in y must be all numbers or all strings") from None
        if not scipy.sparse.issparse(X):
            dataset = X if isinstance(X, Dataset) else Dataset.from_array(X, classes)
            if pairs is None:
                return secant_set(dataset, self.secants, self.n_neighbors)
            return SecantSet(dataset.values, dataset.layout, pairs=pairs, weights=weights)
        X = with_opposites(X) if which == "sums" else X
        layout = Layout(MPI.COMM_SELF, *X.shape)
        neighbors = nearest(X, self.n_neighbors) if which == "neighbors" else None
        options = {"labels": classes, "neighbors": neighbors, "pairs": pairs, "weights": weights}
        secants = SecantSet(X, layout, **options)
        if which == "sums":
            secants.kind = "sums"
        return secants

    def _solve(
        self, X: Any, *given: Any, start: np.ndarray | None = None, cuts: np.ndarray | None = None
    ) -> Self:
        rank = self.n_components
        among, share = getattr(self, "n_candidates", None), getattr(self, "share", 1.0)
        options: dict[str, Any] = {"iterations": self.max_iter, "progress": bool(self.verbose)}
        if self.random_state is not None:
            options["seed"] = shared_seed(comm_of(X), self.random_state)
        options |= self.solver_options or {}
        with job_threads(self.n_jobs):
            secants = self._secant_set(X, *given)
            goal = among and KeptNeighbors(secants, self.n_neighbors, among, share)
            objective = NearIsometry(secants, self.delta, rank, goal)
            objective.cuts = cuts
            x0 = None
            if start is not None and len(start) <= objective.layout.rows:
                x0 = np.zeros(objective.layout.shape)
                x0[: len(start)] = start
                if rank is None:
                    options.setdefault("start_rank", len(start))
            solver = self._solver if among is None else "candidate-rounds"
            result = thalweg.minimize(objective, x0, solver=solver, **options)
            self.offset_ = self._offset(X)  # with the map to which it belongs
        facts = result.metrics
        assert result.solution is not None
        self._cuts, self.components_ = objective.last_cuts, result.solution
        self.n_components_ = len(result.solution)
        self.delta_ = float(facts["delta"])
        self.rank_lower_bound_ = int(facts["rank_lower_bound"])
        self.n_secants_ = int(facts["n_secants"])
        self.n_coincident_ = int(facts["n_coincident"])
        self.attaining_pair_ = None if facts["pair"] is None else tuple(facts["pair"])
        self.n_candidates_ = None if among is None else int(facts["candidates"])
        self.status_ = result.status
        self.notes_ = result.notes
        self.n_iter_ = max(1, result.iterations)
        result.warn_unless_converged()
        return self

    def _checked_parameters(self) -> dict[str, Any]:
        """Values of the options that the parameters set."""
        names = {"n_components": "rank", "max_iter": "iterations"}
        checked = check_parameters(self, (*declared_options(build), *STOP_OPTIONS), names)
        return {**checked, "solver_options": self.solver_options}

    def transform(self, X: Any) -> np.ndarray:
        """Map rows: ``(X - offset_) @ components_.T``, shape (n_samples, n_components_), float64.

        ``delta_`` holds for these images up to their rounding, in double precision whatever the
        type of X: single precision may change a short distance by more than the map does.

        Parameters
        ----------
        X
            Points, shape (n_samples, n_features): an array, a data frame, a sparse matrix,
            or a :class:`thalweg.Dataset`, of which this rank's rows are mapped.
        """
        check_is_fitted(self)
        empty = isinstance(X, Dataset)  # this rank may have no rows
        X = self._validated(X.values if empty else X, ensure_min_samples=0 if empty else 1)
        if self.offset_.any():
            X = (X.toarray() if scipy.sparse.issparse(X) else X) - self.offset_
        return np.asarray(X @ self.components_.T)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Points nearest to ``offset_`` that :meth:`transform` maps to X.

        Float64, shape (n_samples, n_features).

        Parameters
        ----------
        X
            Images, shape (n_samples, n_components_).

        Raises
        ------
        InputError
            Another number of columns than ``n_components_``.
        """
        check_is_fitted(self)
        refuse_masked(X, "the images")
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != self.n_components_:
            raise InputError(f"the images must have {self.n_components_} columns, not {X.shape[1]}")
        return np.asarray(X @ np.linalg.pinv(self.components_).T + self.offset_)

    def _offset(self, X: Any) -> np.ndarray:
        """The mean of rows that lie far from the origin, else zeros.  Collective."""
        zeros = np.zeros(self.n_features_in_)
        # Most entries of sparse rows are zero, and inner products have an origin.
        if scipy.sparse.issparse(X) or self.secants == "sums":
            return zeros
        comm, values = (X.comm, X.values) if isinstance(X, Dataset) else (MPI.COMM_SELF, X)
        rows = sum_over_ranks(comm, len(values))
        mean = np.asarray(sum_over_ranks(comm, values.sum(axis=0, dtype=float))) / rows
        parts = np.array_split(values, len(values) // 4096 + 1)
        total = sum_over_ranks(comm, sum(float(np.abs(part - mean).sum()) for part in parts))
        return mean if np.abs(mean).max() > FAR * total / (rows * len(mean)) else zeros

    @collective_call(lambda self, X, *_, **__: comm_of(X))
    def score(self, X: Any, y: Any = None) -> float:
        """The isometry constant over all secants of X, certified, times -1.

        It is negative so that larger is better, as model selection expects.

        Parameters
        ----------
        X
            Points, shape (n_samples, n_features), sparse or not, two of which differ; or a
            :class:`thalweg.Dataset`.
        y
            Ignored: all pairs of X count.
        """
        return -self._certificate(X).delta

    @collective_call(lambda self, X, *_, **__: comm_of(X))
    def bound_for_new_points(self, X: Any, confidence: float = 0.95) -> tuple[float, float]:
        """Bound on the share of larger distortions among points that the map has not seen.

        Let the rows of X be drawn independently from some distribution, apart from the
        data of ``fit``.  With probability ``confidence`` over the draw of X, a pair of new
        points from that distribution changes its squared distance by a share larger than
        ``delta`` with a probability of at most ``share``.

        Parameters
        ----------
        X
            Points, shape (n_samples, n_features), that ``fit`` has not seen.
        confidence
            Between 0 and 1.

        Returns
        -------
        delta, share
            The isometry constant over all secants of X, and the bound
            ``1 - (1 - confidence)^(1 / k)`` with ``k = n_samples // 2``.

        Raises
        ------
        InputError
            A confidence outside (0, 1), or fewer than two distinct points.
        """
        with raise_on_all_ranks(comm_of(X)):
            if not (isinstance(confidence, Real) and 0.0 < confidence < 1.0):
                raise InputError(f"the confidence must lie between 0 and 1, not {confidence!r}")
        refuse_differing(comm_of(X), "the confidences", float(confidence))
        facts = self._certificate(X)
        return facts.delta, float(-np.expm1(np.log1p(-confidence) / (facts.n_points // 2)))

    def _certificate(self, X: Any) -> Certificate:
        with raise_on_all_ranks(comm_of(X)), job_threads(self.n_jobs):
            check_is_fitted(self)
            dataset = isinstance(X, Dataset)
            layout = X.layout if dataset else None
            X = X.values if dataset else self._validated(X)
        with job_threads(self.n_jobs):
            layout = layout or Layout(MPI.COMM_SELF, *X.shape)
            return certify(SecantSet(X, layout), self.components_)

    def _validated(self, X: Any, reset: bool = False, **options: Any) -> Any:
        kinds = {"dtype": (np.float64, np.float32), "accept_sparse": ("csr", "csc")}
        return validate_data(self, X, reset=reset, **kinds, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
