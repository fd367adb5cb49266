"""k-means on distributed rows, with the same labels at any number of ranks.

Lloyd's iteration from greedy k-means++ starts (Arthur and Vassilvitskii, 2007).  Each rank has all
rows, or a sample of many, and makes some of the starts: none waits for another within a run.
"""

from dataclasses import dataclass, replace

import numpy as np

from thalweg.numerics import lloyd, squared_distances
from thalweg.parallel import MPI, Layout, kernel, raise_on_all_ranks, sum_over_ranks

#: With more rows the starts are compared on so many evenly spread ones.
START_ROWS = 20_000

#: Squared distance, relative to the largest square of an entry, below which rows are the same:
#: those of iterated eigenvectors differ by 1e-5.
ROUNDING = 1e-8


@dataclass(frozen=True)
class Clusters:
    """Result of k-means: labels of this rank's rows, centers, sum of squared distances."""

    labels: np.ndarray
    centers: np.ndarray
    inertia: float


def kmeans(
    layout: Layout,
    rows: np.ndarray,
    count: int,
    seed: int = 0,
    starts: int = 10,
    iterations: int = 300,
) -> Clusters:
    """The best of several runs; of many rows, Lloyd's iteration from the best of a sample.

    ``rows`` are this rank's, shape ``(n_local, m)``.  Of the ``count`` clusters some remain empty
    where fewer rows differ.  Collective.
    """
    comm, sample = layout.comm, layout.gather_some(rows, layout.spread(START_ROWS))
    alone, own = Layout(MPI.COMM_SELF, *sample.shape), dict[int, Clusters]()
    with raise_on_all_ranks(comm):
        for start in range(comm.rank, starts, comm.size):
            stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(start,)))
            own[start] = _lloyd(alone, sample, _spread_out(sample, count, stream), iterations)
    every = [own[start].inertia if start in own else 0.0 for start in range(starts)]
    best, inertias = 0, np.asarray(sum_over_ranks(comm, np.array(every)))
    for start in range(1, starts):
        # By more than rounding, so that equal optima do not compete at random.
        if inertias[start] < inertias[best] * (1 - 1e-9) - 1e-300:
            best = start
    clusters: Clusters = comm.bcast(own.get(best), root=best % comm.size)
    if layout.rows > START_ROWS:
        clusters = _lloyd(layout, rows, clusters.centers, iterations)
    else:
        clusters = replace(clusters, labels=layout.local(clusters.labels))
    return replace(clusters, labels=_in_order(layout, clusters.labels, count))


def _spread_out(rows: np.ndarray, count: int, stream: np.random.Generator) -> np.ndarray:
    """Centers by greedy k-means++, infinitely far away once all rows coincide with one."""
    rounding = ROUNDING * float((rows**2).max(initial=0.0))
    centers = rows[stream.integers(len(rows), size=1)]
    nearest = squared_distances(rows, centers)[:, 0]
    for missing in range(count - 1, 0, -1):
        nearest[nearest <= rounding] = 0.0
        total = float(nearest.sum())
        if total == 0.0:
            return np.concatenate([centers, np.full((missing, rows.shape[1]), np.inf)])
        targets = np.sort(stream.random(2 + int(np.log(count)))) * total
        places = np.searchsorted(np.cumsum(nearest), targets, side="right")
        tried = rows[np.minimum(places, len(rows) - 1)]
        left = np.minimum(nearest[:, None], squared_distances(rows, tried))
        best = int(np.argmin(left.sum(axis=0)))
        centers = np.concatenate([centers, tried[best : best + 1]])
        nearest = left[:, best]
    return centers


def _lloyd(layout: Layout, rows: np.ndarray, centers: np.ndarray, iterations: int) -> Clusters:
    rows = np.ascontiguousarray(rows, dtype=float)
    labels, centers, _ = lloyd(layout.comm, rows, centers, iterations, _nearest)
    inertia = sum_over_ranks(layout.comm, float(((rows - centers[labels]) ** 2).sum()))
    return Clusters(labels, centers, float(inertia))


def _nearest(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    labels = np.zeros(len(rows), dtype=np.int64)
    _assign(rows, centers, labels)
    return labels


# Few centers in few columns: quicker than by products, and exact where centers coincide.
@kernel(writes=("labels",))
def _assign(rows, centers, labels):  # type: ignore[no-untyped-def]
    """Number rows by their nearest centers, the first of those that are equally near."""
    for i in range(len(rows)):
        least = np.inf
        for c in range(len(centers)):
            distance = 0.0
            for j in range(rows.shape[1]):
                distance += (rows[i, j] - centers[c, j]) ** 2
            if distance < least:
                labels[i], least = c, distance


def _in_order(layout: Layout, labels: np.ndarray, count: int) -> np.ndarray:
    """Clusters renumbered by their first row, so that equal partitions have equal labels."""
    first = np.full(count, layout.rows, dtype=np.int64)
    np.minimum.at(first, labels, np.arange(layout.start, layout.stop))
    first = np.min(layout.comm.allgather(first), axis=0)
    place = np.empty(count, dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(count)
    return place[labels]
