"""Quality of a map beside its objective: neighbors, classes, global structure, size.

A KL divergence can fall while a map gets worse to look at.  All measures take a seeded sample of
rows, whose neighbors are sought among *all* rows, so that they stay cheap for a million.
"""

import math
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

from thalweg.data import Dataset, check_magnitude, comm_of
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import (
    MPI,
    Layout,
    collective_call,
    on_root,
    raise_on_all_ranks,
    refuse_differing,
    sum_over_ranks,
)
from thalweg.plugins import Option
from thalweg_embedding.affinities import distances
from thalweg_embedding.options import AffinityOptions
from thalweg_embedding.pairs.cells import bounding_box

#: Neighbors that are compared, and that vote on a class; those that the metric compares.
NEIGHBORS, METRIC_NEIGHBORS = 15, 10

#: Rows that the metric measures, at most, and products of its search for neighbors, which decide
#: the sample of wide data.
SAMPLE, BUDGET = 2000, 5e10

#: Points that are compared in place of centers where there are no classes.
CENTERS = 1000

#: Share of ratios of distances that count in full: the source leaves out the largest tenth.
RATIOS = 0.9


@collective_call(lambda data, *_, **__: comm_of(data))
def map_quality(
    data: Dataset | np.ndarray,
    places: np.ndarray,
    labels: np.ndarray | None = None,
    *,
    neighbors: int = NEIGHBORS,
    sample: int = 3000,
    seed: int = 0,
) -> dict[str, float]:
    """Measures of a map.  Collective on the communicator of a data set.

    Parameters
    ----------
    data, places
        Points as rows, shape (n_samples, n_features), or a :class:`thalweg.Dataset`; and this
        rank's rows of the map, shape (local_rows, d).
    labels
        Classes of all points, shape (n_samples,); by default those of the data set.  -1 and ""
        stand for points without one, unless a single class is left, as of 1 and -1.
    neighbors, sample, seed
        Neighbors that are compared, and that vote; most rows that are measured; their seed.

    Returns
    -------
    dict of float
        ``recall``: share of the nearest neighbors in the data that are so in the map;
        ``accuracy``: of a class by the votes of neighbors in the map (with labels);
        ``trustworthiness``: of Venna and Kaski (2001), within the sample;
        ``center_correlation``: Spearman's, of distances between the centers of classes, or else of
        1,000 points, in the data and in the map;
        ``intrinsic_dimension``: of the data, by the two nearest neighbors (Facco, d'Errico,
        Rodriguez and Laio 2017; MATHEMATICS.md, "Intrinsic dimension");
        ``nearest_distance``: median distance to the nearest neighbor in the map;
        ``widest_side``: of the box that holds the map.

    Raises
    ------
    InputError
        Not one row of finite numbers or one label for each point, fewer than 3 points, or
        ``neighbors``, ``sample`` or ``seed`` no integer, or too small.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(200, 2))
    >>> map_quality(points, 3.0 * points)["recall"]
    1.0
    """
    data, places = checked_map(data, places)
    layout = data.layout
    arguments = labels is None, neighbors, sample, seed
    refuse_differing(layout.comm, "the arguments of map_quality", *arguments)
    with raise_on_all_ranks(layout.comm):
        named = data if labels is None else Dataset.from_array(np.zeros((layout.rows, 1)), labels)
    labels = _known_labels(named)
    refuse_differing(layout.comm, "the labels", labels)
    for name, number in ("neighbors", neighbors), ("sample", sample), ("seed", seed):
        Option(name, int, 1, "", minimum=float(name != "seed")).check(number, "map_quality")
    asked = sampled_rows(layout, sample, seed)
    count = min(neighbors, layout.rows - 1)
    before, squared = nearest_rows(data.values, asked, layout, max(count, 2))
    before, after = before[:, :count], nearest_rows(places, asked, layout, count)[0]
    whole = layout.gather_rows(places)
    apart = whole[asked] - whole[after[:, 0]]
    accuracy = {}
    if labels is not None:  # ties go to the smaller class
        votes = np.zeros((len(asked), labels.max() + 2))  # the last for unknown ones
        np.add.at(votes, (np.arange(len(asked))[:, None], labels[after]), 1.0)
        voted = (labels[asked] >= 0) & votes[:, :-1].any(axis=1)
        right = votes[voted, :-1].argmax(axis=1) == labels[asked][voted]
        accuracy = {"accuracy": float(right.mean()) if voted.any() else math.nan}
    return {
        "recall": float(are_kept(before, after, layout.rows).mean()),
        **accuracy,
        "trustworthiness": trustworthiness(data.values, places, layout, neighbors, seed),
        "center_correlation": _center_correlation(data, places, labels, seed),
        "intrinsic_dimension": intrinsic_dimension(squared),
        "nearest_distance": float(np.median(np.linalg.norm(apart, axis=1))),
        "widest_side": bounding_box(layout, places)[1],
    }


def embedding_quality(
    solution: np.ndarray, dataset: Dataset | None, comm: MPI.Comm, objective: Any = None
) -> dict:
    """Measures of an embedding, for ``result.json``.  Collective.

    Parameters
    ----------
    solution
        This rank's rows, shape ``(local_rows, d)``.
    objective
        What was minimized, whose distance of the data counts; by default the Euclidean one.

    Returns
    -------
    dict
        ``neighbor_preservation``, and with labels ``nearest_neighbor_error``, both between 0
        and 1, and the ``intrinsic_dimension`` of data that are not all equal; of given affinities,
        or metrics beyond Euclidean, cosine, correlation and precomputed, the error alone; empty if
        the solution holds labels, or its rows are not those of the data, or fewer than three.
    """
    if dataset is None:
        return {}
    layout = dataset.layout
    # Integers are labels, not places in a map.
    fits = solution.ndim == 2 and np.issubdtype(solution.dtype, np.floating)
    fits = fits and len(solution) == layout.local_rows and bool(np.isfinite(solution).all())
    if not all(comm.allgather(fits)) or layout.rows < 3:
        return {}
    affordable = int(BUDGET / max(1.0, float(layout.rows) * layout.columns))
    sample = sampled_rows(layout, min(SAMPLE, max(200, affordable)), 0)
    count = min(METRIC_NEIGHBORS, layout.rows - 1)
    after, _ = nearest_rows(solution, sample, layout, count)
    measures: dict[str, Any] = {}
    options = getattr(objective, "options", AffinityOptions())
    metric = "" if options is None else getattr(options, "metric", "euclidean")
    if metric == "precomputed" or distances.measured_by_coordinates(metric):
        if metric == "precomputed":
            found = distances.nearest_given(dataset, count, layout.own(sample))
            before, squared = _on_all_ranks(layout, *found)
        else:
            rows = distances.measured_rows(dataset, metric).values
            before, squared = nearest_rows(rows, sample, layout, count)
        kept = are_kept(before, after[:, : before.shape[1]], layout.rows)
        measures["neighbor_preservation"] = float(kept.mean())
        if math.isfinite(dimension := intrinsic_dimension(squared)):
            measures["intrinsic_dimension"] = dimension
    if (labels := _known_labels(dataset)) is not None:
        own, nearest = labels[sample], labels[after[:, 0]]
        if (known := (own >= 0) & (nearest >= 0)).any():
            measures["nearest_neighbor_error"] = float(np.mean((own != nearest)[known]))
    return measures


def _known_labels(data: Dataset) -> np.ndarray | None:
    """Labels of all rows, -1 for unknown ones; None if there are none.  Collective."""
    own = data.partial_labels()
    labels = None if own is None else data.layout.gather_rows(own)
    if labels is None or labels.max() < 0:
        return None
    # Of a single class and -1, as of 1 and -1, both are classes.
    return data.gather_labels() if len(np.unique(labels[labels >= 0])) == 1 else labels


def trustworthiness(
    values: np.ndarray, embedding: np.ndarray, layout: Layout, neighbors: int, seed: int = 0
) -> float:
    """Trustworthiness: neighbors in the embedding are neighbors in the data (Venna and Kaski 2001).

    Measured within a sample alone, since it needs the rank of every distance.
    """
    sample = sampled_rows(layout, SAMPLE, seed)
    tables = (layout.gather_some(rows, sample).astype(float) for rows in (values, embedding))
    data, shown = (rows - rows.mean(axis=0) for rows in tables)
    count = min(neighbors, (len(sample) - 1) // 2)

    def measured() -> float:
        # By differences: products lose the digits of rows that are near each other far from 0.
        apart, near = (squareform(pdist(rows)) for rows in (data, shown))
        for table in (apart, near):
            np.fill_diagonal(table, np.inf)
        places = apart.argsort(axis=1, kind="stable").argsort(axis=1)
        nearest = near.argsort(axis=1, kind="stable")[:, :count]
        late = np.maximum(np.take_along_axis(places, nearest, axis=1) + 1 - count, 0)
        n = len(sample)
        return float(1.0 - 2.0 * late.sum() / (n * count * (2.0 * n - 3.0 * count - 1.0)))

    return on_root(layout.comm, measured)


def intrinsic_dimension(squared: np.ndarray) -> float:
    """Dimension of the data near points with these squared distances to two neighbors or more.

    NaN where no point has two neighbors at different distances above zero.
    """
    apart = squared[squared[:, 0] > 0.0]
    logarithms = np.sort(0.5 * np.log(apart[:, 1] / apart[:, 0]))
    full = math.ceil(RATIOS * len(logarithms))
    total = np.minimum(logarithms, logarithms[full - 1 : full]).sum()
    return float(full / total) if total > 0.0 else math.nan


def nearest_rows(
    values: np.ndarray, sample: np.ndarray, layout: Layout, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest other rows of the sampled rows, and squared distances, ascending.  Collective.

    Global row numbers, equal on all ranks, as those in ``sample`` are; ties go to the smaller.
    """
    some = layout.own(sample) if len(sample) < layout.rows else None
    return _on_all_ranks(layout, *nearest_neighbors(layout, values, count, some))


def _on_all_ranks(
    layout: Layout, indices: np.ndarray, squared: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    rows = Layout(layout.comm, layout.comm.allreduce(len(indices)), local_rows=len(indices))
    return rows.gather_rows(indices), rows.gather_rows(squared)


def sampled_rows(layout: Layout, count: int, seed: int) -> np.ndarray:
    """Numbers of at most ``count`` rows, ascending, the same on all ranks."""
    if layout.rows <= count:
        return np.arange(layout.rows)
    return np.sort(np.random.default_rng(seed).choice(layout.rows, count, replace=False))


def are_kept(before: np.ndarray, after: np.ndarray, rows: int) -> np.ndarray:
    """Which of the nearest of each, numbers below ``rows``, are among those afterwards."""
    own = rows * np.arange(len(before))[:, None]
    return np.isin(own + before, own + after)


def checked_map(data: Dataset | np.ndarray, places: np.ndarray) -> tuple[Dataset, np.ndarray]:
    """Points, and this rank's rows of their map, refused where they do not fit.  Collective."""
    data = data if isinstance(data, Dataset) else Dataset.from_array(data)
    layout = data.layout
    with raise_on_all_ranks(layout.comm):
        refuse_masked(places, "the places")
        places = np.asarray(places, dtype=float)
        fits = places.ndim == 2 and len(places) == layout.local_rows and np.isfinite(places).all()
        if not fits or layout.rows < 3:
            raise InputError(
                f"a map must have one row of finite numbers for each of the {layout.rows} points, "
                f"of which there are at least 3; this one has shape {places.shape}"
            )
    refuse_differing(layout.comm, "the dimensions of the map", places.shape[1])
    check_magnitude(places, layout, "the map")
    return data, places


def _center_correlation(
    data: Dataset, places: np.ndarray, labels: np.ndarray | None, seed: int
) -> float:
    from scipy.stats import spearmanr

    layout, tables = data.layout, (np.asarray(data.values, dtype=float), places)
    if labels is None:
        rows = sampled_rows(layout, CENTERS, seed)
        centers = [layout.gather_some(table, rows) for table in tables]
    else:
        classes, groups, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        centers = [np.zeros((len(sizes), table.shape[1])) for table in tables]
        for sums, table in zip(centers, tables, strict=True):
            np.add.at(sums, layout.local(groups), table)
        means = [sum_over_ranks(data.comm, sums) / sizes[:, None] for sums in centers]
        centers = [rows[classes >= 0] for rows in means]
    return float(spearmanr(*map(pdist, centers)).statistic) if len(centers[0]) > 2 else math.nan
