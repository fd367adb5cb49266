"""Quality of a map beside its objective: neighbors, classes, global structure, size.

A KL divergence can fall while a map gets worse to look at.  These are the measures that
benchmarks report beside it.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import Layout, max_over_ranks, on_root, sum_over_ranks
from thalweg_embedding.neighbor_measures import (
    nearest_rows,
    sampled_rows,
    share_kept,
    trustworthiness,
)
from thalweg_embedding.pairs.cells import bounding_box

#: Neighbors that are compared, and that vote on a class.
NEIGHBORS = 15

#: Clusters whose centers are compared where there are no classes, and rows they are found in.
CLUSTERS, CLUSTERED_ROWS = 20, 5000


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
        Classes of all points, shape (n_samples,); by default those of the data set.
    neighbors, sample, seed
        Number of neighbors that are compared, and that vote; rows that are measured, at most; and
        the seed by which they are drawn.

    Returns
    -------
    dict of float
        ``recall``: share of the nearest neighbors in the data that are so in the map;
        ``accuracy``: of a class by the votes of neighbors in the map (with labels);
        ``trustworthiness``: of Venna and Kaski (2001), within the sample;
        ``center_correlation``: Spearman's, of distances between the centers of classes, or of 20
        k-means clusters, in the data and in the map;
        ``nearest_distance``: median distance to the nearest neighbor in the map;
        ``widest_side``: of the box that holds the map.

    Raises
    ------
    InputError
        Not one row of finite numbers for each point, or fewer than 3 points.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.random.default_rng(0).normal(size=(200, 2))
    >>> map_quality(points, 3.0 * points)["recall"]
    1.0
    """
    if not isinstance(data, Dataset):
        data = Dataset.from_array(np.asarray(data, dtype=float))
    layout, places = data.layout, _checked_map(data.layout, places)
    labels = data.gather_labels() if labels is None else np.asarray(labels)
    asked = sampled_rows(layout, sample, seed)
    count = min(neighbors, layout.rows - 1)
    before, after = (nearest_rows(r, asked, layout, count) for r in (data.values, places))
    return {
        "recall": share_kept(before, after),
        **({} if labels is None else {"accuracy": _accuracy(labels, asked, after)}),
        "trustworthiness": trustworthiness(data.values, places, layout, neighbors, seed),
        "center_correlation": _center_correlation(data, places, labels, seed),
        "nearest_distance": _nearest_distance(places, asked, after[:, 0], layout),
        "widest_side": bounding_box(layout, places)[1],
    }


def _checked_map(layout: Layout, places: np.ndarray) -> np.ndarray:
    places = np.asarray(places, dtype=float)
    fits = places.ndim == 2 and len(places) == layout.local_rows and np.isfinite(places).all()
    if max_over_ranks(layout.comm, float(not fits)) or layout.rows < 3:
        raise InputError(
            f"a map must have one row of finite numbers for each of the {layout.rows} points, of "
            f"which there are at least 3; this one has shape {places.shape}"
        )
    return places


def _accuracy(labels: np.ndarray, asked: np.ndarray, nearest: np.ndarray) -> float:
    """Share of the asked rows whose class has most votes; ties go to the smaller class."""
    _, numbers = np.unique(labels, return_inverse=True)
    votes = np.zeros((len(asked), numbers.max() + 1))
    np.add.at(votes, (np.arange(len(asked))[:, None], numbers[nearest]), 1.0)
    return float((votes.argmax(axis=1) == numbers[asked]).mean())


def _center_correlation(
    data: Dataset, places: np.ndarray, labels: np.ndarray | None, seed: int
) -> float:
    layout = data.layout
    if labels is None:
        groups, count = _clusters(data, seed)
    else:
        _, numbers = np.unique(labels, return_inverse=True)
        groups, count = numbers[layout.start : layout.stop], int(numbers.max()) + 1
    if count < 3:
        return math.nan
    sizes = np.asarray(
        sum_over_ranks(data.comm, np.bincount(groups, minlength=count).astype(float))
    )
    distances = []
    for rows in (np.asarray(data.values, dtype=float), places):
        sums = np.zeros((count, rows.shape[1]))
        np.add.at(sums, groups, rows)
        centers = np.asarray(sum_over_ranks(data.comm, sums)) / np.maximum(sizes, 1.0)[:, None]
        apart = np.linalg.norm(centers[:, None] - centers[None], axis=2)
        distances.append(apart[np.triu_indices(count, 1)])
    return float(spearmanr(*distances).statistic)


def _clusters(data: Dataset, seed: int) -> tuple[np.ndarray, int]:
    """Cluster of each of this rank's rows by k-means on a sample, and the number of clusters."""
    layout = data.layout
    rows = sampled_rows(layout, CLUSTERED_ROWS, seed)
    whole = layout.gather_some(np.asarray(data.values), rows).astype(float)
    count = min(CLUSTERS, max(3, len(rows) // 10))

    def centers() -> np.ndarray:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():  # of fewer distinct points than clusters
            warnings.simplefilter("ignore", ConvergenceWarning)
            clusters: Any = KMeans(count, n_init=3, random_state=seed).fit(whole)
        return np.asarray(clusters.cluster_centers_)

    middle = on_root(data.comm, centers)
    values = np.asarray(data.values, dtype=float)
    relative = (middle**2).sum(axis=1) - 2.0 * values @ middle.T
    return relative.argmin(axis=1), count


def _nearest_distance(
    places: np.ndarray, asked: np.ndarray, nearest: np.ndarray, layout: Layout
) -> float:
    whole = layout.gather_rows(places)
    return float(np.median(np.linalg.norm(whole[asked] - whole[nearest], axis=1)))
