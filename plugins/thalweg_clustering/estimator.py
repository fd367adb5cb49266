"""KDAC as a scikit-learn estimator."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from thalweg.data import Dataset, comm_of, label_array, validate_data
from thalweg.driver import STOP_OPTIONS
from thalweg.errors import InputError
from thalweg.interfaces import Solver
from thalweg.parallel import (
    collective_call,
    job_threads,
    raise_on_all_ranks,
    refuse_differing,
    shared_seed,
)
from thalweg.plugins import Option, check_parameters, declared_options, estimator
from thalweg_clustering.alternatives import Alternative, find_alternatives
from thalweg_clustering.build import build_kdac
from thalweg_clustering.kernels import KernelFunction
from thalweg_clustering.prediction import KEPT_ROWS, LabelPredictor
from thalweg_clustering.prepared_data import centered_points, given_labels
from thalweg_clustering.view_search import VIEW_ROWS, find_view

#: Checks of scikit-learn that do not apply to a method that needs a clustering given.
EXPECTED_FAILURES = {
    "check_clustering": "fits without y, but an alternative needs a clustering to differ from"
}

#: Parameters that are called differently from the options they set.
NAMES = {f"n_{name}": name for name in ("alternatives", "clusters", "components")}
NAMES["random_state"] = "seed"


@estimator
class KDAC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Alternative clustering: clusters of high quality unlike the clusterings given.

    Kernel Dimension Alternative Clustering (Niu, Dy and Jordan, 2014) by the
    Iterative Spectral Method (Wu et al., 2018, 2019): a subspace W and an embedding U
    that maximize HSIC(XW, U) - lambda sum_v HSIC(XW, Y_v), then k-means on the rows of U.

    Where sigma is given, features should have comparable scales (``StandardScaler``).

    Parameters
    ----------
    n_clusters
        k; by default that of the view that a search finds, or as many as in the clustering
        given; ``"auto"``: that of the view even where sigma is given.
    n_components
        q, dimension of the subspace, less than the number of features that are not constant; by
        default that of the view, or ``min(k, d - 1)``; ``"auto"``: by the eigengap of Phi (eq. 11).
    n_alternatives
        Maximum number of alternatives, one after another, each unlike all before; the
        search ends before at one that repeats a labeling, or whose clusters have no valley
        between them.  Of another task the first one fulfills it, and the next are alternatives.
    task
        ``"alternative"``; ``"unsupervised"`` (without y), ``"supervised"``,
        ``"semi-supervised"`` (rows whose label is -1, "", None, NaN or NA are unknown).
    kernel
        Name of a kernel (see the guide), or a :class:`~thalweg_clustering.kernels.KernelFunction`.
    sigma
        Width of the kernel, in the unit of the features; by default that of the view, whose
        features have unit variance, or half the median distance of the samples.
    lambda_
        Weight of the novelty; in a view divided by the number of samples.
    tuning
        ``"auto"``: where sigma is not given, a search for a view, a subspace that shows
        clusters. ``"score"`` or ``"cq"`` (the paper's rule) choose sigma, lambda and, unless
        given, the number of components; ``"none"``.
    solver
        ``"ism"``, ``"stiefel"``, ``"dimension-growth"``, or a solver object.
    max_overlap
        Largest normalized mutual information of a further alternative with an earlier labeling.
    n_init
        Runs for each alternative, of which that of least cost counts: all but the first start
        from random subspaces.
    max_iter
        Maximum number of steps on W for an alternative, after those of a start from fewer rows;
        scikit-learn's ``ConvergenceWarning`` says where it ended a run.
    verbose
        1 shows a progress bar on a terminal.
    n_jobs
        Threads of this process: None for those of ``OMP_NUM_THREADS`` or all cores, -1 for all
        cores.  Sums round differently on another number, and may lead to another local optimum.
    random_state
        Seed of a random start, of features and of k-means: an integer, a ``Generator``, a
        ``RandomState``, or None for another one each time.

    Attributes
    ----------
    labels_
        Cluster of each sample in the first alternative, shape ``(n_samples,)``; of this
        rank's samples where a distributed ``Dataset`` was given.
    alternatives_
        All alternatives, each an :class:`~thalweg_clustering.alternatives.Alternative`; where the
        first one ended the search, that one alone.
    stop_reason_
        Why there are no more.
    components_
        Transposed W, shape ``(n_components, n_features)``; zero for constant features.
    embedding_
        U, shape ``(n_samples, n_clusters)``.
    feature_weights_
        Norm of each row of W for features as scaled, ``(n_features,)``: how much one counts.
    objective_
        Cost: minus the maximized objective.
    novelty_
        Normalized mutual information of ``labels_`` and the clustering given, of samples whose
        label is known: 0 is best for an alternative; the largest of several.
    quality_
        HSIC(XW, U), the spectral clustering objective: at most k where the kernel is normalized.
    degenerate_
        Whether all samples, or all but one, ended in one cluster, or sigma is so small or
        large that the kernel does not tell samples apart.
    condition_
        Both sides of condition (10), under which the fixed point is a local minimum.
    sigma_, lambda__
        The values used.
    notes_
        Sentences on what the run decided or fell back to.
    n_iter_
        Steps on W.
    trace_
        The :class:`thalweg.Trace` of the run: one row per step on W.
    status_
        How the run ended, a :class:`thalweg.Status`.

    Notes
    -----
    ``fit`` needs ``y``, the clustering given, unless the task is unsupervised.
    scikit-learn's check that fits a clusterer without labels therefore does not apply:
    :data:`EXPECTED_FAILURES` is what to hand to ``check_estimator``; all others pass.

    Examples
    --------
    >>> import numpy as np
    >>> stream = np.random.default_rng(0)
    >>> shape, color = stream.integers(0, 2, (2, 200))
    >>> X = np.stack([4.0 * shape, 4.0 * color], axis=1) + stream.normal(size=(200, 2))
    >>> other = KDAC(n_components=1, random_state=0).fit(X, shape).labels_
    >>> bool(max(np.mean(other == color), np.mean(other != color)) > 0.9)
    True
    """

    _build = staticmethod(build_kdac)
    _first = ("n_clusters", "n_components", "n_alternatives", "sigma", "lambda_", "tuning",
              "random_state", "n_jobs", "max_iter", "verbose")  # fmt: skip

    n_clusters: int | str | None = None
    n_components: int | str | None = None
    _: KW_ONLY
    n_alternatives: int = 1
    task: str = "alternative"
    kernel: str | KernelFunction = "gaussian"
    degree: int = 2
    offset: float = 1.0
    sigma: float | None = None
    bandwidths: Sequence[float] | None = None
    lambda_: float = 1.0
    label_weight: float = 1.0
    tuning: str = "auto"
    solver: str | Solver[Any] = "ism"
    init: str = "auto"
    approximation: str = "auto"
    features: int | None = None
    precision: str = "auto"
    curvature: bool = False
    max_overlap: float = 0.2
    n_init: int = 1
    max_iter: int = 1000
    verbose: int = 0
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | np.random.Generator | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.task != "unsupervised"
        tags.target_tags.two_d_labels = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # The parameter lambda_ ends like a fitted attribute, so scikit-learn cannot tell.
        return hasattr(self, "labels_")

    @collective_call(lambda self, X, *_, **__: comm_of(X))
    def fit(self, X: Any, y: Any = None) -> "KDAC":
        """Find the alternative clusterings.  Collective where X is distributed.

        Parameters
        ----------
        X
            Samples, shape ``(n_samples, n_features)``: an array, a DataFrame, or a
            :class:`thalweg.Dataset`, whose rows may be distributed over the ranks.
        y
            The clustering given, shape ``(n_samples,)``, labels of any type, at least two
            clusters; or several labelings as columns, shape ``(n_samples, v)``.  A Dataset's
            own labels by default.

        Raises
        ------
        InputError
            A ``ValueError``: labels that do not fit the samples, a single cluster
            given, or a parameter out of its range.
        """
        comm = comm_of(X)
        with raise_on_all_ranks(comm):
            options = self._checked_options()
            dataset, columns = self._data(X, y)
        options["seed"] = shared_seed(comm, self.random_state)
        with job_threads(self.n_jobs, comm):
            return self._fit(dataset, columns, options)

    def _fit(self, dataset: Dataset, columns: list[np.ndarray], options: dict[str, Any]) -> "KDAC":
        chosen = len(columns), self.task, self.n_clusters
        refuse_differing(dataset.comm, "the labelings or options of KDAC", *chosen)
        partly = self.task == "semi-supervised"
        labelings = [
            given_labels(dataset.layout, column, "the clustering given (y)", partly)
            for column in columns
        ]
        if isinstance(self.kernel, KernelFunction):
            options["function"] = self.kernel
        if isinstance(self.n_clusters, str):
            points = centered_points(dataset.layout, dataset.values)[0]
            layout, spread = dataset.layout, dataset.layout.spread(VIEW_ROWS)
            sample = layout.gather_some(points, spread)
            avoided = labelings if self.task == "alternative" else []
            known = [layout.gather_some(part, spread) for part in avoided]
            view = find_view(sample, known, None, options["seed"], dataset.comm)
            options["clusters"] = None if view is None else view.clusters
        stop = {"iterations": self.max_iter, "progress": bool(self.verbose)}
        search = find_alternatives(
            dataset, labelings, options.pop("alternatives"), self.solver, self.max_overlap, stop,
            self.n_init, **options,
        )  # fmt: skip
        self.stop_reason_ = search.reason
        self.alternatives_ = list(search.found)
        if search.refused is not None and not search.found:
            because = f"labels_ is the labeling that ended the search: {search.reason}"
            warnings.warn(because, stacklevel=2)
            self.alternatives_ = [search.refused]
        for alternative in self.alternatives_:
            # A solver may also end by a limit of its own, as ism does by its rounds.
            result, limit = alternative.result, "the solver's own limit (see notes_)"
            if self.max_iter is not None and result.iterations >= self.max_iter:
                limit = "max_iter"
            result.warn_unless_converged(limit)
        self._describe(self.alternatives_[0])
        if self.degenerate_:
            because = self.alternatives_[0].measures["degenerate_because"]
            warnings.warn(f"the alternative clustering is degenerate: {because}", stacklevel=2)
        return self

    def _describe(self, first: Alternative) -> None:
        measures, result = first.measures, first.result
        self.mean_ = first.preparation.mean
        self.labels_ = first.labels
        self.embedding_ = first.outcome["embedding"]
        self.components_ = self.components_of(first)
        self.feature_weights_ = np.linalg.norm(self.components_ * first.preparation.scale, axis=0)
        self.objective_ = measures["cost"]
        self.novelty_ = measures["novelty"]
        self.quality_ = measures["cq"]
        self.degenerate_ = measures["degenerate"]
        self.condition_ = measures["condition_10"]
        self.sigma_, self.lambda__ = measures["sigma"], measures["lambda"]
        self.notes_ = list(dict.fromkeys([*result.notes, *getattr(first.objective, "notes", ())]))
        self.n_iter_ = result.iterations
        self.trace_, self.status_ = result.trace, result.status
        self._predictors = [_predictor(alternative) for alternative in self.alternatives_]

    def components_of(self, alternative: Alternative) -> np.ndarray:
        """Transposed W of an alternative for all features, shape ``(q, n_features)``."""
        prepared = alternative.preparation
        components = np.zeros((len(alternative.components), len(prepared.mean)))
        components[:, prepared.active] = alternative.components / prepared.scale[prepared.active]
        return components

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> np.ndarray:
        """Labels of :meth:`fit`."""
        return self.fit(X, y).labels_

    def transform(self, X: Any, alternative: int = 0) -> np.ndarray:
        """Samples in the subspace of an alternative, shape ``(n_samples, n_components)``."""
        check_is_fitted(self)
        if not isinstance(X, Dataset):
            X = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        elif X.layout.columns == self.n_features_in_:
            X = np.asarray(X.values, dtype=float)
        else:
            raise InputError(
                f"X has {X.layout.columns} features, but KDAC is expecting {self.n_features_in_} "
                "features as input"
            )
        chosen = self.alternatives_[self._number(alternative)]
        return np.asarray((X - self.mean_) @ self.components_of(chosen).T)

    def predict(self, X: Any, alternative: int = 0) -> np.ndarray:
        """Clusters of samples, old or new, in an alternative, shape ``(n_samples,)``.

        The embedding is extended to a new sample, whose cluster is that of the nearest center of
        k-means.  Where that would not give the clustered samples theirs, which is tried on 1,024 of
        them, it is the cluster of the nearest sample.  Of more than 20,000 samples an even part
        stands for all: between clusters, some of the others may not get their ``labels_``.
        """
        check_is_fitted(self)
        sigma = self.alternatives_[self._number(alternative)].measures["sigma"]
        return self._predictors[alternative].predict(self.transform(X, alternative) / sigma)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _number(self, alternative: Any) -> int:
        """The number of an alternative, where there is one."""
        count = len(self.alternatives_)
        if not isinstance(alternative, int | np.integer) or not -count <= alternative < count:
            raise InputError(
                f"alternative must be an integer from 0 to {count - 1}, not {alternative!r}"
            )
        return int(alternative)

    def _checked_options(self) -> dict[str, Any]:
        """Options of the objective from the parameters, checked by their declaration."""
        clean = copy.copy(self)
        if clean.n_clusters == "auto":
            clean.n_clusters = None
        chosen = clean.n_components == "auto"
        if chosen:
            clean.n_components = None
        if isinstance(self.kernel, KernelFunction):
            clean.kernel = "gaussian"
        clean.random_state = 0
        # Only these: fitted attributes are called like other options, as embedding_ is.
        names = {NAMES.get(name, name).rstrip("_") for name in self.get_params(deep=False)}
        declared = [option for option in declared_options(build_kdac) if option.name in names]
        options = check_parameters(clean, declared, NAMES)
        own = (
            Option("max_overlap", float, 0.2, "largest overlap", minimum=0, maximum=1),
            Option("n_init", int, 1, "runs for each alternative", minimum=1),
        )
        check_parameters(clean, own)
        check_parameters(clean, STOP_OPTIONS, {"max_iter": "iterations"})
        options["lambda_"] = options.pop("lambda")
        if chosen:
            options["choose_components"] = True
        return options

    def _data(self, X: Any, y: Any) -> tuple[Dataset, list[np.ndarray]]:
        """The rows, and the labelings given.  Not collective: it may fail on one rank alone."""
        if isinstance(X, Dataset):
            dataset = X
            self.n_features_in_ = X.layout.columns
            if y is None:
                y = X.partial_labels() if self.task == "semi-supervised" else X.labels
        else:
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=3)
            dataset = Dataset.from_array(X)
        if self.task == "unsupervised":
            return dataset, []
        if y is None:
            raise InputError(
                "KDAC requires y to be passed, but the target y is None: it is the clustering given"
            )
        try:
            y = label_array(y)  # a mask is refused with the labels
        except ValueError as error:
            raise InputError(f"y must have one label per row: {error}") from error
        columns = [y] if y.ndim <= 1 else [y[:, c] for c in range(y.shape[1])]
        layout = dataset.layout
        if y.ndim == 0 or len(y) not in (layout.rows, layout.local_rows):
            raise InputError(
                f"X and y have inconsistent numbers of samples: {layout.rows} and "
                f"{len(y) if y.ndim else 0}"
            )
        return dataset, columns


def _predictor(alternative: Alternative) -> LabelPredictor:
    """Data of predictions, whole on every rank.  Collective."""
    objective = alternative.objective
    assert objective is not None
    layout, kernel = objective.rows, objective.kernel
    z = kernel.points @ (alternative.components.T / kernel.sigma)
    outcome = alternative.outcome
    rows = (z, outcome["labels"], outcome["embedding"], outcome["degrees"])
    chosen = layout.spread(KEPT_ROWS)
    z, labels, embedding, degrees = (layout.gather_some(a, chosen) for a in rows)
    values = outcome["embedding_values"][: embedding.shape[1]]
    # Sums over the rows kept stand for those over all, in the degrees of new rows too.
    share = len(z) / layout.rows
    if not objective.has_embedding:  # U is then of H K H, without D
        return LabelPredictor.of(z, labels, embedding, values * share, None, kernel.function)
    return LabelPredictor.of(
        z, labels, embedding, values * np.sqrt(share), degrees, kernel.function
    )
