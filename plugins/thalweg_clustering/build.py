"""The objective ``kdac`` from a data set and its options.

Configurations, the estimator and the benchmarks all come through :func:`build_kdac`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, max_over_ranks, on_root, refuse_differing
from thalweg.plugins import with_options
from thalweg_clustering.exact_sums import SAMPLE_ROWS, StreamedKernel
from thalweg_clustering.feature_sums import NystromKernel
from thalweg_clustering.kdac import TASKS, KDACObjective
from thalweg_clustering.kernels import KernelFunction, kernel_function
from thalweg_clustering.options import KDACOptions
from thalweg_clustering.prepared_data import (
    Preparation,
    active_features,
    centered_points,
    given_labels,
    median_distance,
)
from thalweg_clustering.projected_kernel import ProjectedKernel
from thalweg_clustering.settings import Settings, linked_rows
from thalweg_clustering.tuning import tune
from thalweg_clustering.view_search import VIEW_ROWS, find_view

#: Seconds that exact sums may take on one core before features stand for them, where the width is
#: given and where it is not, which takes several runs.
EXACT_SECONDS, SEARCH_SECONDS = 60.0, 3.0

#: Passes over all pairs of a run, and seconds of a pair on one machine, compiled and as a function
#: of arrays.
PASSES, COMPILED_PAIR, ARRAY_PAIR = 20, 1.5e-9, 1e-8

#: Number of rows from which on a run starts from the W of a sample; where a view was found, whose
#: W is near the solution.
SAMPLE_START_ROWS, VIEW_START_ROWS = 2500, 10_000

#: Rows of the first run by features between that on a small sample and that on all rows, and
#: how many times as many the next has.
LEVEL_ROWS, LEVEL_GROWTH = 20_000, 8

#: Largest lambda times the rows of a run on a sample, that of Table 1's larger sets.
MAX_NOVELTY = 3000.0

#: Relative error of the objective up to which features give exact sums a start.
LEVEL_ERROR = 0.01

#: Widths sigma that rows may lie from their mean for single precision, whose rounding then changes
#: squared distances by at most a hundredth of a squared width; and how small their largest entry
#: may be, since it also holds products of the points.
MAX_SINGLE_SIDE, LEAST_SINGLE = 300.0, 1e-9

#: The same for double precision, where they change by a ten-thousandth.
MAX_DOUBLE_SIDE = 1e6

#: Frequencies or landmarks, unless their number is given.
FEATURES = 256


class NoView(Exception):
    """A search for a view that found none, where a run needs one."""


@with_options(KDACOptions)
def build_kdac(
    dataset: Dataset,
    comm: MPI.Comm,
    *,
    labelings: Sequence[np.ndarray] | None = None,
    true_labels: np.ndarray | None = None,
    pairs: np.ndarray | None = None,
    function: KernelFunction | None = None,
    start: np.ndarray | None = None,
    view_only: bool = False,
    **options: Any,
) -> KDACObjective:
    """The objective of a data set, by default with its labels as the clustering given.

    Collective.  The options are :class:`~thalweg_clustering.options.KDACOptions`.

    Parameters
    ----------
    labelings
        Labelings in place of the data set's own, each of this rank's or of all rows.
    true_labels
        Labels to compare the result with.
    pairs
        Links, shape ``(m, 3)``: two row numbers and a weight, the same on all ranks.
    function
        A kernel of the user's own.
    start
        W to start from, in the coordinates of the active features, shape ``(d, q)``.
    view_only
        Whether a search that finds no view raises :class:`NoView`.

    Raises
    ------
    InputError
        An option out of its range, labels that do not fit, or rows that all coincide.
    """
    count = getattr(labelings, "__len__", int)()
    given = options, count, pairs, function is None, start is None, true_labels is None
    refuse_differing(comm, "the labelings or options of KDAC", *given)
    chosen, layout = KDACOptions(**options), dataset.layout
    settings, preparation = _settings(dataset, chosen, labelings, pairs, function)
    view = None if start is not None else _view(settings, preparation, chosen)
    if view_only and view is None:
        raise NoView
    if view is not None:
        chosen, start = view
        settings, preparation = _settings(dataset, chosen, labelings, pairs, function)
    if chosen.truth is not None:
        true_labels = _read_labels(dataset, chosen.truth, unknown=True)
    if true_labels is not None:
        what = "the true clustering (option 'truth')"
        true_labels = given_labels(layout, true_labels, what, unknown=True)
    sigma, q = _width_and_dimension(settings, chosen)
    kernel, single, notes = _kernel(settings, chosen, sigma, q, options.get("sigma") is not None)
    first: str | np.ndarray = chosen.init
    enough = layout.rows >= (SAMPLE_START_ROWS if view is None else VIEW_START_ROWS)
    if view is None and start is not None:
        first = start
    elif first in ("auto", "sample"):
        by_sample, first = first == "sample" or enough, "spectral" if start is None else start
        if by_sample:
            first, levels = _from_fewer_rows(settings, kernel, q, single, first)
            notes.append(f"started from the subspace of {', then '.join(levels)}")
    objective = settings.objective(kernel, q, start=first, truth=true_labels)
    objective.preparation, objective.view = preparation, None if view is None else view[1]
    for note in (*notes, *_without_effect(chosen)):
        objective.note(note)
    return objective


def _without_effect(chosen: KDACOptions) -> Iterator[str]:
    """Notes on weights that are given and that the task does not have."""
    own = {"alternative": "lambda_", "semi-supervised": "label_weight"}.get(chosen.task)
    for name in {"lambda_", "label_weight"} - {own}:
        if getattr(chosen, name) != getattr(KDACOptions, name):
            yield f"{name.rstrip('_')} has no effect in a task that is {chosen.task}"


def _settings(
    dataset: Dataset,
    chosen: KDACOptions,
    labelings: Sequence[np.ndarray] | None,
    pairs: np.ndarray | None,
    function: KernelFunction | None,
) -> tuple[Settings, Preparation]:
    """Rows, labels, links and kernel function, and how the rows were made of the data."""
    layout, comm, task = dataset.layout, dataset.comm, chosen.task
    if task not in TASKS:
        raise InputError(f"the task must be one of {', '.join(TASKS)}, not {task!r}")
    known = _labelings(dataset, labelings, chosen.other_labels, task)
    if chosen.links is not None:
        file = Path(chosen.links).expanduser()

        def read() -> np.ndarray:
            try:
                return np.loadtxt(file, delimiter=",", ndmin=2)
            except (OSError, ValueError) as error:
                raise InputError(f"the links cannot be read from '{file}': {error}") from error

        pairs = np.asarray(on_root(comm, read))
        numbers = dataset.numbers
        if numbers is not None and len(pairs):  # they name rows of the source
            ends = numbers[linked_rows(pairs, len(numbers))]
            pairs = np.column_stack([ends, pairs[:, 2]])[(ends >= 0).all(axis=1)]
            if not len(pairs):
                raise InputError("no link has both its rows among those that [data] chooses")
    if task == "semi-supervised" and not known and pairs is None:
        raise InputError("a semi-supervised task needs labels of some rows, or links")
    weights = {"alternative": -chosen.lambda_, "semi-supervised": chosen.label_weight}
    points, preparation = _prepare(layout, dataset.values, chosen.bandwidths)
    largest = max(comm.allgather(max((int(y.max(initial=0)) for y in known), default=1)))
    of = function or kernel_function(chosen.kernel, chosen.degree, chosen.offset)
    names = ("task", "seed", "embedding_rows", "curvature")
    common = {**{name: getattr(chosen, name) for name in names}, "bound": chosen.condition}
    k, weight = chosen.clusters or largest + 1, weights.get(task, 1.0)
    return Settings(layout, points, known, weight, k, of, pairs, common), preparation


def _view(
    settings: Settings, preparation: Preparation, chosen: KDACOptions
) -> tuple[KDACOptions, np.ndarray] | None:
    """Options and W of a view that shows clusters, where the width is to be chosen.  Collective."""
    is_fixed = chosen.sigma or chosen.bandwidths or chosen.choose_components
    searched = chosen.tuning == "auto" and chosen.init == "auto" and settings.function.gaussian
    of_clusters = chosen.task in ("alternative", "unsupervised") and settings.pairs is None
    if is_fixed or not (searched and of_clusters):
        return None
    sample = settings.on_sample(VIEW_ROWS)
    view = find_view(
        sample.points, sample.labels, chosen.components, chosen.seed, settings.layout.comm
    )
    if view is None:
        return None
    scale = np.ones(len(preparation.mean))
    scale[preparation.active] = view.scale
    # U'U is I and Y'Y as large as the rows are many: from a good start both count alike.
    rows = settings.layout.rows if chosen.task == "alternative" else 1
    clusters, penalty = chosen.clusters or view.clusters, chosen.lambda_ / rows
    options = replace(
        chosen, sigma=view.sigma, components=view.components.shape[1], clusters=clusters,
        bandwidths=scale.tolist(), lambda_=penalty,
    )  # fmt: skip
    return options, view.components


def _width_and_dimension(settings: Settings, chosen: KDACOptions) -> tuple[float, int]:
    """sigma and q, given, usual or tuned.  Collective."""
    d, q, sigma = settings.points.shape[1], chosen.components, chosen.sigma
    if q is None:
        q = min(settings.clusters, d - 1)
    if not 1 <= q < d:
        raise InputError(
            f"the number of components must be at least 1 and less than the {d} features that are "
            f"not constant, not {q}"
        )
    if sigma is None:
        sigma = 1.0
        if chosen.bandwidths is None:
            sigma = 0.5 * median_distance(settings.layout, settings.points)
    if not (sigma > 0 and np.isfinite(sigma)):
        raise InputError(f"sigma must be greater than 0, not {sigma!r}")
    if chosen.tuning in ("score", "cq"):
        weighted = chosen.task == "alternative" and chosen.lambda_ != KDACOptions.lambda_
        if chosen.sigma is not None or weighted:
            raise InputError(
                f"tuning = '{chosen.tuning}' chooses sigma and lambda itself: leave them out, or "
                "give tuning = 'none'"
            )
        best = tune(settings, chosen.components, chosen.tuning)
        sigma, q = best.sigma, best.components
        if chosen.task == "alternative":
            settings.weight = -best.penalty
    if chosen.choose_components:  # of eq. 11, at the solution with q, as the paper tunes it
        sample, first, width = settings.on_sample(SAMPLE_ROWS), q, sigma
        run = on_root(settings.layout.comm, lambda: sample.solved(width, first))
        q = q if run is None else int(run["measures"]["eigengap_components"])
    return sigma, q


def _kernel(
    settings: Settings, chosen: KDACOptions, sigma: float, q: int, given: bool
) -> tuple[ProjectedKernel, bool, list[str]]:
    """Sums over pairs, whether in single precision, and what is said of their choice."""
    layout, points, of = settings.layout, settings.points, settings.function
    kind: str = chosen.approximation
    features = chosen.features or FEATURES
    if kind == "auto":
        kind = approximation_for(layout.rows, of, given)
    # Squared distances are differences of squares: a precision must hold what is left.
    largest = max_over_ranks(layout.comm, float(np.abs(points).max(initial=0.0)))
    side, single = largest / sigma, chosen.precision == "single"
    if chosen.precision == "auto" and of.gaussian:
        single = side <= MAX_SINGLE_SIDE
    single &= LEAST_SINGLE < largest < 1.0 / LEAST_SINGLE  # products of points, in gradients
    # Of outliers; or sigma is far below all distances.
    if of.of == "distance" and of.positive and side > MAX_DOUBLE_SIDE:
        outside = largest / median_distance(layout, points)
        if outside > MAX_DOUBLE_SIDE:
            raise InputError(
                f"a row lies {outside:.1g} median distances from the mean of all, which leaves too "
                "few digits for the distances of the others: remove outliers, or scale the data"
            )
    kernel: ProjectedKernel
    if kind in ("fourier", "nystrom"):
        kernel = NystromKernel(layout, points, sigma, of, features, chosen.seed, single)
    else:
        kernel = StreamedKernel(layout, points, sigma, of, single)
    seconds = _exact_seconds(layout.rows, of)
    sums = f"exact sums over all pairs of {layout.rows} rows"
    notes = []
    if kind == "fourier":
        notes.append(f"{kernel.description} stand for random Fourier features: they err less")
    if kind != "exact" and chosen.approximation == "auto":
        notes.append(
            f"{sums} would take about {seconds:.0f} s on one core: {kernel.description} stand for "
            "them"
        )
    elif kind == "exact" and seconds > 10 * EXACT_SECONDS:
        notes.append(f"{sums} take about {seconds:.0f} s on one core")
    return kernel, single, notes


def _labelings(
    dataset: Dataset, labelings: Sequence[np.ndarray] | None, files: Sequence[str] | None, task: str
) -> list[np.ndarray]:
    layout = dataset.layout
    if task == "unsupervised":
        return []
    partly = task == "semi-supervised"
    if labelings is None:
        own = dataset.partial_labels() if partly else dataset.labels
        labelings = [own] if own is not None else []
    read = [_read_labels(dataset, file, partly) for file in files or ()]
    what = "the clustering " + ("to reproduce", "given ([data] labels)")[task == "alternative"]
    known = [given_labels(layout, labels, what, partly) for labels in [*labelings, *read]]
    if task == "alternative" and not known:
        raise InputError(f"{what} is needed: give the labels of an existing clustering")
    return known


def _read_labels(dataset: Dataset, file: str, unknown: bool = False) -> np.ndarray:
    """Labels of a file of the data set's rows, or of all those that it was chosen from."""
    from thalweg.workbench.readers import read_labels

    labels, chosen = read_labels(file, dataset.comm, unknown=unknown), dataset.chosen
    return labels if chosen is None or len(labels) != len(chosen) else labels[chosen]


def _prepare(
    layout: Layout, values: np.ndarray, bandwidths: Sequence[float] | None
) -> tuple[np.ndarray, Preparation]:
    points, mean = centered_points(layout, values)
    scale = np.ones(len(mean))
    if bandwidths is not None:
        if len(bandwidths) != len(mean):
            raise InputError(
                f"bandwidths must have one number per feature: {len(mean)}, not {len(bandwidths)}"
            )
        scale = np.asarray(bandwidths, dtype=float)
        points /= scale
    active = active_features(layout, points, mean / scale)
    if not active.all():
        points = np.ascontiguousarray(points[:, active])
    if points.shape[1] < 2:
        raise InputError(
            f"the data have {points.shape[1]} feature(s) that are not constant; a subspace needs "
            "at least 2"
        )
    return points, Preparation(mean, scale, active)


def _exact_seconds(rows: int, function: KernelFunction) -> float:
    """Seconds that exact sums of a run take on one core."""
    return PASSES * 0.5 * float(rows) ** 2 * (COMPILED_PAIR if function.gaussian else ARRAY_PAIR)


def approximation_for(rows: int, function: KernelFunction, width_given: bool) -> str:
    """The choice of ``approximation = "auto"``."""
    if _exact_seconds(rows, function) <= (EXACT_SECONDS if width_given else SEARCH_SECONDS):
        return "exact"
    # Of one number of features the Nystrom approximation errs less by an order of magnitude.
    return "nystrom" if function.positive else "exact"


def _from_fewer_rows(
    settings: Settings,
    kernel: ProjectedKernel,
    components: int,
    single: bool,
    first: str | np.ndarray,
) -> tuple[np.ndarray, list[str]]:
    """W of a run on a sample, then of runs by features on more rows, and what these were.

    A step on fewer rows costs a fraction of one on all; where features err too much, the sample has
    to do.  Samples have a smaller lambda, which on all rows is raised by steps: MATHEMATICS.md says
    why.  From the W of a view, the novelty counts alike on any number of rows.  Collective.
    """
    layout, sigma = settings.layout, kernel.sigma

    def weight(rows: int) -> float:
        if isinstance(first, np.ndarray):
            return settings.weight * layout.rows / rows
        return max(settings.weight, -MAX_NOVELTY / rows)

    sample = settings.on_sample(SAMPLE_ROWS, over_ranks=True)
    sample.weight = weight(sample.layout.rows)
    outcome = sample.solved(sigma, components, first)
    if outcome is None:
        raise InputError(
            "the run on a sample that was to find a first W failed; use init = 'spectral'"
        )
    w = outcome["components"]
    levels = [f"{min(SAMPLE_ROWS, layout.rows)} evenly spread rows"]
    if isinstance(kernel, NystromKernel) and kernel.size <= FEATURES:
        features, finer = kernel, False
    elif isinstance(kernel, NystromKernel | StreamedKernel) and kernel.function.positive:
        features, finer = NystromKernel(
            layout, kernel.points, sigma, kernel.function, FEATURES, settings.common["seed"], single
        ), True  # fmt: skip
    else:
        return w, levels
    for size, own in _runs(layout.rows, weight, settings.weight, finer):
        level = settings.on_sample(size, over_ranks=True) if size < layout.rows else settings
        level = replace(level, weight=own)
        part = features.on_rows(level.layout, level.points)
        objective = level.objective(
            part, components, start=w, bound=False, curvature=False, quiet=True
        )
        result = thalweg.minimize(objective, solver="ism", seed=settings.common["seed"])
        errs = result.metrics.get("approximation", {"relative_error": 0.0})  # a signal leaves none
        if finer and errs["relative_error"] > LEVEL_ERROR:
            break
        w = np.array(result.x).reshape(w.shape)
        what = f"{size} evenly spread rows" if size < layout.rows else "all rows"
        what += "" if own == settings.weight else f" with lambda = {-own:.2g}"
        levels.append(f"{what} by {features.description}" if finer else what)
    return w, levels


def _runs(
    rows: int, weight: Callable[[int], float], last: float, on_all: bool
) -> Iterator[tuple[int, float]]:
    """Numbers of rows and weights of the labels of the runs before the one on all rows."""
    size = LEVEL_ROWS
    while 4 * size <= rows:
        yield size, weight(size)
        size *= LEVEL_GROWTH
    own = weight(rows)
    while own > last:
        yield rows, own
        own *= LEVEL_GROWTH
    if on_all:
        yield rows, last
