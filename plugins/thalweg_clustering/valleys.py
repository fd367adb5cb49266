"""Valleys of the density between clusters: whether rows on the line between two are few.

A density with one mode has none; MATHEMATICS.md says how rows are counted.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import bdtr

from thalweg.numerics import squared_distances
from thalweg.parallel import MPI, Array, Layout, kernel
from thalweg_clustering.kmeans import kmeans

#: Number of rows in a valley, relative to that at its sides, that it must fall short of, and
#: probability of doing so by chance: on the rows that find a view, and on the others.
RATIO, JOINED, SEPARATED = 0.6, 0.01, 0.02

#: Rows of a cell of a curved cluster, and least rows at a place of a feature's lattice; by hand.
CELL_ROWS, PLACE_ROWS = 40, 10


class Valleys:
    """Tests for valleys between clusters, with windows laid on ``rows``.

    They are counted there or in ``others``, rows and their labels.  ``means`` are those of the
    clusters, shape ``(k, q)``; labels are integers from 0, none missing.
    """

    def __init__(self, rows: Array, labels: np.ndarray, *others: Array) -> None:
        self.means = cluster_means(rows, labels)
        lines = np.linalg.solve(covariance(rows, self.means[labels]), self.means.T)
        self._parts: list[np.ndarray] = []
        for part, own in [(rows, labels), others][: 1 + bool(others)]:
            order = np.argsort(own, kind="stable")
            bounds = np.searchsorted(own[order], np.arange(len(self.means) + 1))
            self._parts += [np.ascontiguousarray((part @ lines)[order].T), bounds]
        self._parts *= 1 if others else 2

    def chance(self, a: Sequence[int] | np.ndarray, b: Sequence[int] | np.ndarray) -> Array:
        """Probability that there is no valley between clusters a and b, of each pair."""
        counts = np.zeros((2, len(a)), dtype=np.int64)
        _count(*self._parts, np.asarray(a), np.asarray(b), counts)
        inside, least = counts
        # Of so few rows in the window, against those in the poorer beside it; 1 of none at all.
        return np.asarray(bdtr(inside, inside + least, RATIO / (1.0 + RATIO)))


def chance_without_valley(rows: np.ndarray, labels: np.ndarray) -> float:
    """The largest probability of two clusters of projected rows without a valley between them.

    Clusters may be curved: valleys are sought between cells of theirs that are near each other.
    """
    if not np.ptp(rows, axis=0).any():
        return 1.0
    labels = np.unique(labels, return_inverse=True)[1]
    pairs = np.triu_indices(labels.max() + 1, 1)
    chance = Valleys(rows, labels).chance(*pairs)
    if chance.max(initial=0.0) <= SEPARATED:
        return float(chance.max(initial=0.0))
    cells, owners = np.zeros(len(rows), dtype=int), list[int]()
    for cluster in range(labels.max() + 1):
        own = rows[labels == cluster]
        layout = Layout(MPI.COMM_SELF, *own.shape)
        parts = kmeans(layout, own, min(4, 1 + len(own) // CELL_ROWS), starts=1).labels
        cells[labels == cluster] = len(owners) + np.unique(parts, return_inverse=True)[1]
        owners += [cluster] * len(np.unique(parts))
    owner, curved = np.array(owners), Valleys(rows, cells)
    apart = squared_distances(curved.means, curved.means)
    for place, pair in enumerate(zip(*pairs, strict=True)):
        own, other = (np.flatnonzero(owner == cluster) for cluster in pair)
        between = apart[np.ix_(own, other)]
        a = np.concatenate([own, own[between.argmin(axis=0)]])
        b = np.concatenate([other[between.argmin(axis=1)], other])
        chance[place] = min(chance[place], curved.chance(a, b).max())
    return float(chance.max())


def dither(rows: Array) -> Array:
    """Rows with noise where a feature has few values, as counts and scales: none lies between.

    It is uniform, and as wide as the usual gap.  Of two values each is a mode: these are kept.
    """
    rows, draw = np.array(rows, dtype=float), np.random.default_rng(0)
    for feature in rows.T:
        gaps = np.diff(np.unique(feature))
        if 2 <= len(gaps) <= len(feature) / PLACE_ROWS:
            feature += np.median(gaps) * draw.uniform(-0.5, 0.5, len(feature))
    return rows


def cluster_means(rows: Array, labels: np.ndarray) -> Array:
    """Means of clusters, shape ``(k, q)``."""
    groups = np.eye(int(labels.max()) + 1)[labels]
    return np.asarray(groups.T @ rows / groups.sum(axis=0)[:, None])


def covariance(rows: Array, centers: Array) -> Array:
    """Covariance of rows about their means, regular where all lie at these."""
    apart = rows - centers
    spread = 1e-5 * rows.var(axis=0).mean() * np.eye(rows.shape[1])
    return np.asarray(apart.T @ apart / max(1, len(rows) - 1) + spread)


@kernel(writes=("counts",))
def _count(here, bounds, there, other_bounds, a, b, counts):  # type: ignore[no-untyped-def]
    """Rows in the emptiest window between two clusters, and in the poorer one beside it.

    ``here`` and ``there`` are places of rows, cluster after cluster, on the line of each cluster,
    a row of the array: their differences are places on the line between two.
    """
    for pair in range(len(a)):
        first, second = min(a[pair], b[pair]), max(a[pair], b[pair])
        parts = [
            line[second, bound[c] : bound[c + 1]] - line[first, bound[c] : bound[c + 1]]
            for line, bound in ((here, bounds), (there, other_bounds))
            for c in (first, second)
        ]
        low, high = np.median(parts[0]), np.median(parts[1])
        width = (high - low) / 5
        if not width > 0:
            continue
        edges = np.linspace(low - 1.5 * width, high + 0.5 * width, 41)
        values = np.sort(np.concatenate((parts[0], parts[1])))
        laid = np.searchsorted(values, edges + width) - np.searchsorted(values, edges)
        values = np.sort(np.concatenate((parts[2], parts[3])))
        own = np.searchsorted(values, edges + width) - np.searchsorted(values, edges)
        lowest = np.flatnonzero(laid[12:29] == laid[12:29].min())
        valley = 12 + lowest[len(lowest) // 2]
        right = valley + 6 + laid[valley + 6 :].argmax()
        counts[0, pair] = own[valley]
        counts[1, pair] = min(own[laid[: valley - 5].argmax()], own[right])
