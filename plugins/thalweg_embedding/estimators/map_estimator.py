"""What the estimators of maps that attract neighbors and repel others have in common."""

import copy
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

import thalweg
from thalweg.data import Dataset, comm_of, label_array, plain_label
from thalweg.driver import STOP_OPTIONS
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import (
    MPI,
    collective_call,
    job_threads,
    raise_on_all_ranks,
    refuse_differing,
    shared_seed,
)
from thalweg.plugins import Option, check_parameters, declared_options, estimator
from thalweg_embedding.affinities.distances import own_rows
from thalweg_embedding.estimators.transformer import MapTransformer, places_new_points
from thalweg_embedding.new_points import PlacedMap, dataset_of
from thalweg_embedding.pairs.cells import bounding_box
from thalweg_embedding.pairwise_embedding import INFLATED, PairwiseEmbedding
from thalweg_embedding.point_quality import NEIGHBORS, faithfulness
from thalweg_embedding.quality import are_kept


@estimator
class MapEstimator(MapTransformer):
    """Base of the estimators of maps that attract neighbors and repel others.

    ``fit`` and ``fit_transform`` take an array or a sparse matrix, shape (n_samples, n_features),
    or a :class:`thalweg.Dataset` whose rows are distributed over ranks; the map then has this
    rank's rows.

    Parameters
    ----------
    neighbor_search
        ``"exact"``, ``"approximate"``, or a transformer whose ``fit_transform`` gives the sparse
        graph of distances to neighbors, as scikit-learn's ``KNeighborsTransformer``: rank 0 gives
        it all rows, and where it has a parameter ``n_neighbors``, as many as are needed.
    init
        ``"random"``, ``"pca"``, ``"spectral"``, an array (n_samples, n_components), or ``"auto"``:
        principal components, but random for the elastic embedding.  An array ten times as wide
        as if its points were a unit apart is scaled to that, and ``notes_`` says so.
    max_iter, tol, n_iter_without_progress
        Iterations, and relative decrease of the objective in the last
        ``n_iter_without_progress`` of them, at which to stop.  By default a run ends where little
        but the size of the map still changes; 1e-7 goes on to lower values, in maps ever wider.
        Where ``max_iter`` ends it before, scikit-learn's ``ConvergenceWarning`` says so.
    callback
        Called with a :class:`thalweg.driver.Iterate` after each step, whose ``rows`` are the map;
        a true answer ends the run.
    verbose
        1 shows a progress bar on a terminal.
    solver, preconditioner, solver_options
        Any of ``thalweg list``, and their options; by default L-BFGS, and the spectral
        direction where the solver has a place for it.
    keep_data
        Whether the fitted estimator holds X, by reference where it can, which :meth:`transform` and
        :meth:`partial_fit` need, and its affinities; without, it pickles small.
    random_state
        Seed, an integer, a ``RandomState`` or a ``Generator``, of a random start, or of the random
        numbers, a thousandth of its size, that are added to principal components and eigenvectors:
        maps from these differ little, and ``init="random"`` shows other local minima.  A seed
        repeats a map to the bit on as many ranks.  None draws random starts anew, and repeats
        the others.

    Attributes
    ----------
    embedding_ : ndarray of float32 or float64, as X, shape (n_samples, n_components)
    objective_ : float
        Final value, as the run saw it.
    n_iter_ : int
    trace_ : thalweg.Trace
        Objective, gradient norm, evaluations and seconds of each iterate.
    notes_ : tuple of str
        Sentences on what the run decided or fell back to.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> MapEstimator(random_state=0).fit_transform(load_iris().data).shape
    (150, 2)
    """

    _build: ClassVar[Callable[..., PairwiseEmbedding]]  # builder of the objective

    #: Options of it with which a run goes on from a map as it is.
    _going_on: ClassVar[Mapping[str, Any]] = {"early_exaggeration": 1.0}

    #: Kinds of rows that it takes, as ``validate_data`` names them.
    _sparse_rows: ClassVar[Any] = "csr"

    #: Parameters that people set, most used first.
    _first: ClassVar[tuple[str, ...]] = (
        "n_components", "perplexity", "n_neighbors", "min_dist", "metric", "init", "lambda_",
        "degrees_of_freedom", "max_iter", "random_state", "n_jobs", "verbose",
    )  # fmt: skip

    #: What serves here in place of parameters of other programs.
    _other_names: ClassVar[Mapping[str, str]] = {
        "learning_rate": "a line search finds the length of each step",
        "n_iter": "use max_iter",
        "n_epochs": "use max_iter",
        **dict.fromkeys(("theta", "angle"), "all pairs repel, to an error that follows the run"),
        "method": "use graph for the affinities, solver for the minimization",
        "negative_sample_rate": "all pairs repel; use lambda_, half of that rate",
        "n_iter_early_exag": "stages end by themselves; use early_exaggeration for their beginning",
        "initialization": "use init",
        "exaggeration": "use lambda_=1/exaggeration, or early_exaggeration for the beginning",
        **dict.fromkeys(("anchors", "anchor_weight"), "maps whose points all repel take them"),
        "dof": "use degrees_of_freedom=2 * dof - 1",
    }

    metric: str = "euclidean"
    neighbor_search: Any = "exact"
    init: Any = "auto"
    max_iter: int = 500
    tol: float = 1e-2
    n_iter_without_progress: int = 20
    callback: Any = None
    verbose: int = 0
    solver: str = "lbfgs"
    preconditioner: str | None = None
    solver_options: Mapping[str, Any] | None = None

    def _checked(self) -> dict[str, Any]:
        """Options of the objective, checked as those of a configuration file are."""
        options = declared_options(type(self)._build)
        names = "init", "neighbor_search", "anchors"
        objects = [name for name in names if not isinstance(getattr(self, name, ""), str)]
        options = tuple(option for option in options if option.name not in objects)
        checked = check_parameters(self, options, {"n_components": "dimensions"})
        stop = {"max_iter": "iterations", "tol": "decrease", "n_iter_without_progress": "window"}
        check_parameters(self, STOP_OPTIONS, stop)
        return {"lambda_" if name == "lambda" else name: value for name, value in checked.items()}

    @collective_call(lambda self, X, *_, **__: comm_of(X))
    def fit(self, X: Any, y: Any = None) -> "MapEstimator":
        """Embed the rows of X.

        Parameters
        ----------
        X
            Points, shape (n_samples, n_features), dense or sparse; or their affinities or
            distances (``affinity="precomputed"``, ``metric="precomputed"``).
        y
            Labels of the points, -1, "", None or NaN for those without one, where
            ``target_weight`` is above 0; else ignored.  A :class:`thalweg.Dataset` has its own.

        Raises
        ------
        InputError
            Data or parameters that cannot be used; it is a ``ValueError``.
        """
        with job_threads(self.n_jobs, comm_of(X)):
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any = None, **options: Any) -> None:
        dataset, objective = self._objective(X, y, options)
        result = self._minimized(objective)
        self._keep(result, dataset, objective)
        result.warn_unless_converged()

    def _minimized(self, objective: PairwiseEmbedding) -> thalweg.Result:
        seed = shared_seed(objective.comm, self.random_state)
        if objective.comm.bcast(self.random_state is None and objective.start.fixed is not None):
            seed = 0
        parameters = {
            "solver": self.solver, "preconditioner": self.preconditioner, "seed": seed,
            "callback": self.callback, "iterations": self.max_iter, "decrease": self.tol,
            "window": self.n_iter_without_progress, "progress": bool(self.verbose),
        }  # fmt: skip
        options = dict(self.solver_options or {})
        if doubled := sorted(parameters.keys() & options):
            raise InputError(f"solver_options has {doubled[0]!r}, which is a parameter by itself")
        last = getattr(options.get("homotopy"), "values", (objective.homotopy_parameter,))[-1]
        if last != objective.homotopy_parameter:  # by which points are placed and measured
            raise InputError(f"a homotopy of {type(self).__name__} must end at its lambda_")
        return thalweg.minimize(objective, **parameters, **options)

    @available_if(lambda model: places_new_points(model) and model.metric != "precomputed")
    def partial_fit(self, X: Any, y: Any = None) -> "MapEstimator":
        """Embed the rows of X together with those fitted before, from where these are.

        The map then has the rows of all calls, in their order.  New rows begin where
        :meth:`transform` places them, and nothing is exaggerated, so that the map of the others
        changes little.  The first call is :meth:`fit`.

        Parameters
        ----------
        X
            Points, shape (n_new, n_features), dense or sparse as before.
        y
            As in :meth:`fit` of the first call; points that join have no label.

        Raises
        ------
        InputError
            A map that was fitted on several ranks.
        """
        placed = self._fitted_map() if self.__sklearn_is_fitted__() else None
        if isinstance(X, Dataset) or (placed is not None and placed.layout is not None):
            raise InputError("partial_fit extends maps of one process, from arrays or matrices")
        if placed is None:
            # A copy: callers read the next points into the same buffer.
            return self.fit(copy.deepcopy(X), y)  # type: ignore[no-any-return]
        with job_threads(self.n_jobs):
            new = self._checked_new_points(X, False)
            start = np.vstack([placed.places, placed.place(new)])
            if scipy.sparse.issparse(placed.points):
                together = scipy.sparse.vstack([placed.points, scipy.sparse.csr_matrix(new)], "csr")
            else:
                dense = new.toarray() if scipy.sparse.issparse(new) else new
                together = np.vstack([placed.points, dense])
            labels = None
            if self._labels is not None:
                labels = np.append(self._labels, np.full(len(start) - len(self._labels), -1))
            self._fit(together, labels, start=start, **self._going_on)
        return self

    @available_if(places_new_points)
    def inverse_transform(self, X: Any) -> np.ndarray:
        """Points that belong at places of the map, shape (n_places, n_features).

        Each is a mean of fitted points, with entropic weights of its nearest places in the
        map.  Collective in a map fitted on several ranks, as :meth:`transform`.

        Raises
        ------
        InputError
            Places of another dimension than the map, or data that are sparse or distances.
        """
        placed = self._fitted_map()
        with raise_on_all_ranks(placed.layout.comm if placed.layout else MPI.COMM_SELF):
            refuse_masked(X, "the places")
            places = np.atleast_2d(np.asarray(X, dtype=float))
            if places.ndim != 2 or places.shape[1] != self._n_features_out:
                raise InputError(
                    f"places must have shape (n, {self._n_features_out}), as the map has, not "
                    f"{np.shape(X)}"
                )
            metric = self._fitted_parameters["metric"]
            if scipy.sparse.issparse(placed.points) or metric == "precomputed":
                raise InputError(
                    "inverse_transform averages points, and needs them as a dense array"
                )
            if not np.abs(places).max(initial=0.0) < 1e100:  # nor NaN
                raise InputError("places must be finite, and below 1e100")
        return placed.points_at(places)

    @available_if(places_new_points)
    def faithfulness(self, neighbors: int = NEIGHBORS) -> dict[str, np.ndarray]:
        """How far each point's place can be trusted: :func:`thalweg_embedding.faithfulness`.

        Of this rank's points; collective in a map fitted on several ranks.
        """
        data, model = self._fitted_data(), self._as_fitted()
        with job_threads(self.n_jobs, data.comm):
            fixed = {"start": self.embedding_, **model._fitted_options()}
            _, objective = model._objective(data, None, fixed)
            objective.restore(self._state)
            return faithfulness(data, self.embedding_, objective, neighbors=neighbors)

    @available_if(places_new_points)
    def stability(self, n: int = 5, neighbors: int = NEIGHBORS) -> np.ndarray:
        """What share of each point's neighborhood n fits from other seeds have in common.

        Of this rank's points, shape (local_rows,): the mean, over pairs of these fits, of the
        Jaccard index of the nearest ``neighbors`` in the map.  Seeds change the start by a
        thousandth; with ``init="random"`` wholly; places that are given count as ``"auto"``.
        Collective in a map fitted on several ranks.
        """
        data, lists, model = self._fitted_data(), [], clone(self._as_fitted())
        if not isinstance(model.init, str):
            model.init = "auto"
        refuse_differing(data.comm, "the arguments of stability", n, neighbors)
        for name, number, least in ("n", n, 2), ("neighbors", neighbors, 1):
            Option(name, int, 5, "", minimum=least).check(number, "stability")
        for seed in range(n):
            places = model.set_params(random_state=seed).fit(data).embedding_
            count = min(neighbors, data.layout.rows - 1)
            lists.append(nearest_neighbors(data.layout, places.astype(float), count)[0])
        pairs = itertools.combinations(lists, 2)
        shares = np.array([are_kept(*two, data.layout.rows).mean(axis=1) for two in pairs])
        return np.asarray((shares / (2.0 - shares)).mean(axis=0))

    def _fitted_data(self) -> Dataset:
        placed = self._fitted_map()
        return replace(dataset_of(placed.points, placed.layout), labels=self._labels)

    def _as_fitted(self) -> "MapEstimator":
        """The model with the parameters of its fit, whatever was set since."""
        return copy.copy(self).set_params(**self._fitted_parameters)  # type: ignore[no-any-return]

    def _fitted_options(self) -> dict[str, Any]:
        """Options that make the objective again more quickly."""
        return {}

    def _objective(
        self, X: Any, y: Any, fixed: Mapping[str, Any]
    ) -> tuple[Dataset, PairwiseEmbedding]:
        with raise_on_all_ranks(comm_of(X)):
            dataset = self._dataset(X)
            if y is not None and self.target_weight and dataset is not X:
                refuse_masked(y, "the labels")
                names = np.array([plain_label(label) for label in label_array(y).flat])
                labels = Dataset.from_array(np.zeros((dataset.layout.rows, 1)), names)
                dataset = replace(dataset, labels=labels.labels, label_names=labels.label_names)
            start = None
            if not isinstance(self.init, str) and "start" not in fixed:
                refuse_masked(self.init, "the places of init")
                with suppress(TypeError, ValueError):
                    start = np.asarray(self.init, dtype=float)
                shape = (dataset.layout.local_rows, self.n_components)
                if start is None or start.shape != shape or not np.isfinite(start).all():
                    raise InputError(f"init must be a string, or a finite array of shape {shape}")
            parameters = self._checked()
        refuse_differing(comm_of(X), "the parameters", parameters, self.keep_data, start is None)
        side, dense = 0.0, dataset.layout.rows ** (1.0 / self.n_components)
        if start is not None and (side := bounding_box(dataset.layout, start)[1]) == 0.0:
            raise InputError("init puts all points at one place, where no force acts")
        if wide := side > INFLATED * dense and getattr(self, "anchors", None) is None:
            start = (dense / side) * start
        options = {"start": start, **parameters, **fixed}
        for name in ("neighbor_search", "anchors"):  # objects are no options
            if hasattr(self, name):
                options.setdefault(name, getattr(self, name))
        objective = type(self)._build(dataset, dataset.comm, **options)
        if wide:  # as in the data's units: steps of map units would hardly change it
            objective.note(f"init is {side:,.6g} units wide: it was scaled to {dense:,.6g}")
        return dataset, objective

    def _keep(self, result: thalweg.Result, dataset: Dataset, objective: PairwiseEmbedding) -> None:
        """Keep a result, and with the data what places new points."""
        rows = own_rows(dataset)
        self.embedding_ = result.x.astype(np.float32) if rows.dtype == np.float32 else result.x
        self._labels = dataset.partial_labels() if self.target_weight and self.keep_data else None
        self.n_iter_ = max(1, result.iterations)
        self.objective_ = result.objective
        self.trace_ = result.trace
        self.notes_ = result.notes
        self._fitted_parameters = self.get_params(deep=False)
        self._placed = self._state = None
        if objective.options is not None and self.keep_data:
            self._state = objective.state()
            places = objective.layout.gather_rows(result.x)
            # A communicator does not survive pickling, which estimators must.
            layout = objective.layout if objective.comm.size > 1 else None
            functions = objective.attraction.function, objective.repulsion.function
            weight = objective.normalized, self._repulsion_of_point(objective)
            self._placed = PlacedMap(rows, places, layout, *functions, *weight, objective.options)

    def _repulsion_of_point(self, objective: Any) -> float:
        """Weight of a new point's repulsion, lambda of :class:`PlacedMap`."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        # A parameter may end in an underscore too: lambda_.
        return hasattr(self, "embedding_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._of_affinities or self.metric == "precomputed"
        tags.input_tags.sparse = bool(self._sparse_rows)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
