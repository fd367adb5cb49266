"""Affinities of each row to its neighbors: entropic, of a given perplexity, and fuzzy ones.

Hinton and Roweis (2002); root finding as in Vladymyrov and Carreira-Perpinan (2013),
"Entropic affinities: properties and efficient numerical computation": Newton steps in
log beta inside a bracket, each row starting from the root of the row before it.
"""

import math

import numpy as np
from numba import njit, prange

from thalweg.parallel import kernel

#: Rows that one thread treats in turn; the first of them starts cold.
BATCH = 64

#: Error of log perplexity at which a root is taken, and what a last Newton step then squares.
TOLERANCE = 1e-10

#: A row's width in fuzzy affinities is at least this share of its mean distance.
NARROWEST = 1e-3

#: Halvings of the bracket of a width.
HALVINGS = 64


def entropic_rows(squared: np.ndarray, perplexity: float) -> np.ndarray:
    """Conditional probabilities p_{m|n} over each row's neighbors, rows that sum to 1.

    ``squared``, shape (n, k), are squared distances in ascending order; ``perplexity``, between 1
    and k, is the wanted exponential of the entropy of every row.  Where at least that many
    neighbors are all equally near, for instance duplicates of the point at distance zero, no
    Gaussian is narrow enough; the row is then the limit of ever narrower ones, uniform over those
    nearest neighbors.
    """
    probabilities = np.empty(squared.shape)
    if squared.size:
        _solve(np.ascontiguousarray(squared, dtype=float), math.log(perplexity), probabilities)
    return probabilities


@njit
def _entropy(distances, beta, row):
    """Entropy at ``beta``, its derivative in log beta; ``row`` receives the probabilities."""
    total = 0.0
    mean = 0.0
    for m in range(distances.size):
        row[m] = math.exp(-beta * (distances[m] - distances[0]))
        total += row[m]
    for m in range(distances.size):
        row[m] /= total
        mean += row[m] * (distances[m] - distances[0])
    spread = 0.0
    for m in range(distances.size):
        spread += row[m] * (distances[m] - distances[0] - mean) ** 2
    return math.log(total) + beta * mean, -beta * beta * spread


@kernel(parallel=True)
def _solve(squared, target, probabilities):
    n, k = squared.shape
    for batch in prange((n + BATCH - 1) // BATCH):
        guess = np.nan
        for row in range(batch * BATCH, min((batch + 1) * BATCH, n)):
            distances = squared[row]
            out = probabilities[row]
            nearest = 0
            while nearest < k and distances[nearest] <= distances[0] * (1 + 1e-14):
                nearest += 1
            if math.log(nearest) >= target:
                for m in range(k):
                    out[m] = 1.0 / nearest if m < nearest else 0.0
                continue
            scale = 0.0
            for m in range(k):
                scale += (distances[m] - distances[0]) / k
            low = -math.log(scale) - 50.0
            high = -math.log(scale) + 50.0
            if not (guess > low and guess < high):
                guess = -math.log(scale)
            # The bracket: entropy falls as beta grows.
            while _entropy(distances, math.exp(high), out)[0] > target and high < 600.0:
                high += 50.0
            for _ in range(200):
                entropy, slope = _entropy(distances, math.exp(guess), out)
                error = entropy - target
                if error > 0.0:
                    low = guess
                else:
                    high = guess
                step = guess - error / slope if slope < 0.0 else np.nan
                if abs(error) <= TOLERANCE:
                    # One more Newton step squares the error.
                    if step == step:
                        _entropy(distances, math.exp(step), out)
                    break
                middle = 0.5 * (low + high)
                if high - low <= 4e-16 * abs(middle):
                    break
                guess = step if step > low and step < high else middle


def fuzzy_rows(squared: np.ndarray) -> np.ndarray:
    """Membership of each row's neighbors: exp(-(r - r_1)/sigma), 1 for the nearest.

    ``squared``, shape (n, k - 1), are squared distances in ascending order.  Each row sums to log2
    k, up to what the least width allows (McInnes, Healy and Melville 2018, section 3.1).
    """
    memberships = np.empty(squared.shape)
    if squared.size:
        distances = np.sqrt(np.asarray(squared, dtype=float))
        _solve_widths(distances, math.log2(squared.shape[1] + 1), memberships)
    return memberships


@kernel(parallel=True)
def _solve_widths(distances, target, memberships):
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
