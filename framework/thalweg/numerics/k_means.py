"""Lloyd's iteration of k-means on distributed rows."""

from collections.abc import Callable

import numpy as np
import scipy.sparse

from thalweg.parallel import MPI, sum_large, sum_over_ranks


def lloyd(
    comm: MPI.Comm,
    rows: np.ndarray,
    centers: np.ndarray,
    iterations: int,
    nearest: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray, int]:
    """Labels of this rank's rows, centers, and how often these moved.  Collective.

    ``nearest`` gives the number of the nearest center of each row, from rows and centers; centers
    that lose all rows stay where they are.
    """
    labels = np.full(len(rows), -1)
    number, ones, ends = 0, np.ones(len(rows)), np.arange(len(rows) + 1)
    while True:
        before, labels = labels, nearest(rows, centers)
        moved = float(sum_over_ranks(comm, float((labels != before).sum())))
        if moved == 0 or number == iterations:
            return labels, centers, number
        number += 1
        member = scipy.sparse.csc_matrix((ones, labels, ends), shape=(len(centers), len(rows)))
        counts = np.bincount(labels, minlength=len(centers))
        sums = sum_large(comm, np.column_stack([member @ rows, counts]))
        filled = sums[:, -1] > 0
        centers = centers.copy()
        centers[filled] = sums[filled, :-1] / sums[filled, -1:]
