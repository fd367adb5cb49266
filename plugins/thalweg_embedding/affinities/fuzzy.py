"""UMAP's affinities: the fuzzy union of what each point finds near."""

import math

import numpy as np
from numba import prange

from thalweg.parallel import kernel

#: A row's width is at least this share of its mean distance.
NARROWEST = 1e-3

#: Halvings of the bracket of a width.
HALVINGS = 64


def fuzzy_rows(squared: np.ndarray) -> np.ndarray:
    """Membership of each row's neighbors: exp(-(r - r_1)/sigma), 1 for the nearest.

    ``squared``, shape (n, k - 1), are squared distances in ascending order.  Each row sums to log2
    k, up to what the least width allows (McInnes, Healy and Melville 2018, section 3.1).
    """
    memberships = np.empty(squared.shape)
    if squared.size:
        distances = np.sqrt(np.asarray(squared, dtype=float))
        _solve(distances, math.log2(squared.shape[1] + 1), memberships)
    return memberships


@kernel(parallel=True)
def _solve(distances, target, memberships):
    n, k = distances.shape
    for row in prange(n):
        nearest = 0.0
        mean = 0.0
        for m in range(k - 1, -1, -1):
            mean += distances[row, m] / k
            if distances[row, m] > 0.0:
                nearest = distances[row, m]
        # In units of the mean distance, whatever those of the data are.
        low, high, sigma = 0.0, np.inf, max(mean, 1e-300)
        for _ in range(HALVINGS):
            total = 0.0
            for m in range(k):
                total += math.exp(-max(distances[row, m] - nearest, 0.0) / sigma)
            if total > target:
                high = sigma
                sigma = 0.5 * (low + high)
            else:
                low = sigma
                sigma = 2.0 * sigma if high == np.inf else 0.5 * (low + high)
        sigma = max(sigma, NARROWEST * mean, 1e-300)
        for m in range(k):
            memberships[row, m] = math.exp(-max(distances[row, m] - nearest, 0.0) / sigma)
