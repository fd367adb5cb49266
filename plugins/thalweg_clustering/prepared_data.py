"""Rows and labels as the objective wants them: checked, centred, without constant features."""

from __future__ import annotations

import numpy as np

from thalweg.data import check_magnitude
from thalweg.errors import InputError
from thalweg.parallel import Layout, any_over_ranks, sum_over_ranks


def median_distance(layout: Layout, points: np.ndarray, most: int = 2000) -> float:
    """Median distance between rows, of evenly spread ones if there are many.  Collective."""
    whole_rows = np.unique(np.linspace(0, layout.rows - 1, min(most, layout.rows)).astype(int))
    mine = whole_rows[(whole_rows >= layout.start) & (whole_rows < layout.stop)] - layout.start
    sample = np.concatenate(layout.comm.allgather(points[mine]))
    squares = np.einsum("ij,ij->i", sample, sample)
    lengths = squares[:, None] + squares - 2.0 * sample @ sample.T
    pairs = lengths[np.triu_indices(len(sample), 1)]
    median = float(np.sqrt(np.median(np.maximum(pairs, 0.0)))) if pairs.size else 0.0
    if not median > 0:
        positive = pairs[pairs > 1e-12 * max(float(squares.max(initial=0.0)), 1e-300)]
        median = float(np.sqrt(np.median(positive))) if positive.size else 0.0
    return float(layout.comm.bcast(median, root=0))


def centred_points(layout: Layout, values: np.ndarray) -> np.ndarray:
    """Rows in float64 with their mean removed.  Collective.

    Raises
    ------
    InputError
        Values that are not finite, or whose squares overflow or vanish.
    """
    points = np.array(values, dtype=float)
    if any_over_ranks(layout.comm, not np.isfinite(points).all()):
        raise InputError("the data contain NaN or infinite values; remove or replace them")
    check_magnitude(points, layout.with_columns(points.shape[1]))
    means = np.asarray(sum_over_ranks(layout.comm, points.sum(axis=0))) / max(1, layout.rows)
    return points - means


def active_features(layout: Layout, points: np.ndarray) -> np.ndarray:
    """Which features are not constant, shape ``(d,)``, bool.  Collective."""
    squares = np.asarray(sum_over_ranks(layout.comm, np.einsum("ij,ij->j", points, points)))
    return np.asarray(squares > 1e-20 * max(float(squares.max(initial=0.0)), 1e-300))


def given_labels(labels: np.ndarray | None, rows: int, what: str) -> np.ndarray:
    """Labels as integers 0 to k' - 1.

    Raises
    ------
    InputError
        None given, another number than rows, or a single cluster.
    """
    if labels is None:
        raise InputError(f"{what} is needed: give the labels of an existing clustering")
    labels = np.asarray(labels)
    if labels.ndim != 1 or len(labels) != rows:
        raise InputError(
            f"{what} has {labels.shape[0] if labels.ndim else 0} labels for {rows} rows; "
            "give one label a row"
        )
    groups, found = np.unique(labels, return_inverse=True)
    if len(groups) < 2:
        raise InputError(
            f"{what} has a single cluster; an alternative needs at least two to differ from"
        )
    return found.astype(np.int64)
