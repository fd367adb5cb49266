"""Compiled selection of nearest neighbors from lower bounds of their scores.

Each row keeps its best pairs as a heap whose first entry is the worst, ordered by exact
squared distance, then by row number; and *candidates* of the present block: a lower
bound of the score and a column.  A row's limit is a score that no pair among the k best
exceeds.
"""

# Numba's functions take arrays whose types are given by the callers alone.
# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numba
import numpy as np

from thalweg.parallel.kernels import kernel

#: Columns that are compared at once before any of them is taken up.
CHUNK = 64

#: What the search writes to.
FOUND = ("distances", "indices", "lower", "columns", "counts", "limits")


@numba.njit(nogil=True)
def _squared_distance(x, y):
    # Four sums side by side; the order is fixed, and that of x and y does not matter.
    a = b = c = d = 0.0
    whole = len(x) // 4 * 4
    for t in range(0, whole, 4):
        a += (x[t] - y[t]) ** 2
        b += (x[t + 1] - y[t + 1]) ** 2
        c += (x[t + 2] - y[t + 2]) ** 2
        d += (x[t + 3] - y[t + 3]) ** 2
    for t in range(whole, len(x)):
        a += (x[t] - y[t]) ** 2
    return (a + b) + (c + d)


@numba.njit(nogil=True)
def _worse(distance, index, other_distance, other_index):
    return distance > other_distance or (distance == other_distance and index > other_index)


@numba.njit(nogil=True)
def _sink(distances, indices, size, distance, index):
    """Put a pair in the place of the worst of a heap."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _worse(
            distances[child + 1], indices[child + 1], distances[child], indices[child]
        ):
            child += 1
        if not _worse(distances[child], indices[child], distance, index):
            break
        distances[place], indices[place] = distances[child], indices[child]
        place = child
    distances[place], indices[place] = distance, index


@numba.njit(nogil=True)
def _raised(score):
    # To single precision, upwards, with an allowance for the rounding of double precision.
    return np.float32(score + 2.0**-22 * abs(score))


@numba.njit(nogil=True)
def _limit(worst_distance, norm, scale):
    if worst_distance == np.inf:
        return np.float32(np.inf)
    scaled = worst_distance * scale * scale
    return _raised(0.5 * (scaled - norm * norm) + 2.0**-40 * (scaled + norm * norm))


@numba.njit(nogil=True)
def _evaluate(
    row, start, distances, indices, lower, columns, counts, limits,
    points, theirs, norms, their_norms, scale, bound,
):  # fmt: skip
    """Move a row's candidates, evaluated, into its heap."""
    k = distances.shape[1]
    for c in range(counts[row]):
        if lower[row, c] <= limits[row]:
            column = columns[row, c]
            distance = _squared_distance(points[row], theirs[column])
            index = start + column
            if _worse(distances[row, 0], indices[row, 0], distance, index):
                _sink(distances[row], indices[row], k, distance, index)
                limits[row] = min(limits[row], _limit(distances[row, 0], norms[row], scale))
    counts[row] = 0


@numba.njit(nogil=True)
def _prune(
    row, distances, lower, columns, counts, limits, norms, their_norms, bound
):  # fmt: skip
    """Drop candidates that k others are certainly nearer than."""
    k, count = distances.shape[1], counts[row]
    upper = np.empty(count)
    for c in range(count):
        norm = their_norms[columns[row, c]]
        upper[c] = lower[row, c] + 2.0 * bound * (norms[row] * norm + 0.5 * norm * norm)
    limit = min(limits[row], _raised(np.partition(upper, k - 1)[k - 1]))
    kept = 0
    for c in range(count):
        if lower[row, c] <= limit:
            lower[row, kept], columns[row, kept] = lower[row, c], columns[row, c]
            kept += 1
    counts[row], limits[row] = kept, limit


@kernel(writes=FOUND)
def renew_limits(
    distances, indices, lower, columns, counts, limits,
    points, theirs, norms, their_norms, scale, bound,
):  # fmt: skip
    """Limits of a band of rows from the worst pairs of their heaps."""
    for row in range(len(limits)):
        limits[row] = _limit(distances[row, 0], norms[row], scale)


@kernel(writes=FOUND)
def filter_rows(
    tile, halves, own, start, distances, indices, lower, columns, counts, limits,
    points, theirs, norms, their_norms, scale, bound,
):  # fmt: skip
    """Take candidates for the rows of a tile of products, whose lower bounds are below the limits.

    The lower bounds are ``halves``, one of each column, less the products.  Row ``i`` has the
    global number ``own[i]``, is no neighbor of itself, and the first column has ``start``.
    """
    k, capacity = distances.shape[1], lower.shape[1]
    width = tile.shape[1]
    for row in range(tile.shape[0]):
        products, itself = tile[row], own[row] - start
        for low in range(0, width, CHUNK):
            limit = limits[row]
            high = min(low + CHUNK, width)
            near = np.int32(0)  # a sum, and a slice: so the comparison becomes vector code
            if high - low == CHUNK:
                chunk, added = products[low : low + CHUNK], halves[low : low + CHUNK]
                for t in range(CHUNK):
                    near += np.int32(added[t] - chunk[t] <= limit)
            else:
                for t in range(low, high):
                    near += np.int32(halves[t] - products[t] <= limit)
            if near == 0:
                continue
            count = counts[row]
            for t in range(low, high):
                score = halves[t] - products[t]
                if score <= limit and t != itself:
                    lower[row, count], columns[row, count] = score, t
                    count += 1
            counts[row] = count
            if count > capacity - CHUNK:
                _prune(row, distances, lower, columns, counts, limits, norms, their_norms, bound)
                if counts[row] > k + CHUNK // 2:
                    # Ties, or distances that single precision cannot tell apart.
                    _evaluate(
                        row, start, distances, indices, lower, columns, counts, limits,
                        points, theirs, norms, their_norms, scale, bound,
                    )  # fmt: skip


@kernel(writes=FOUND)
def filter_columns(
    tile, halves, own, start, distances, indices, lower, columns, counts, limits,
    points, theirs, norms, their_norms, scale, bound,
):  # fmt: skip
    """Take candidates for the columns of a tile, as :func:`filter_rows` does for its rows.

    ``halves`` are of the rows, of which the first has the global number ``start``; none of them is
    a column.
    """
    k, capacity = distances.shape[1], lower.shape[1]
    width = tile.shape[1]
    for row in range(tile.shape[0]):
        products, half = tile[row], halves[row]
        for low in range(0, width, CHUNK):
            high = min(low + CHUNK, width)
            near = np.int32(0)
            if high - low == CHUNK:
                chunk, bounds = products[low : low + CHUNK], limits[low : low + CHUNK]
                for t in range(CHUNK):
                    near += np.int32(half - chunk[t] <= bounds[t])
            else:
                for t in range(low, high):
                    near += np.int32(half - products[t] <= limits[t])
            if near == 0:
                continue
            for t in range(low, high):
                score = half - products[t]
                if score <= limits[t]:
                    lower[t, counts[t]], columns[t, counts[t]] = score, row
                    counts[t] += 1
                    if counts[t] < capacity:
                        continue
                    _prune(t, distances, lower, columns, counts, limits, norms, their_norms, bound)
                    if counts[t] > k + CHUNK // 2:
                        _evaluate(
                            t, start, distances, indices, lower, columns, counts, limits,
                            points, theirs, norms, their_norms, scale, bound,
                        )  # fmt: skip


@kernel(writes=FOUND)
def flush_candidates(
    start, distances, indices, lower, columns, counts, limits,
    points, theirs, norms, their_norms, scale, bound,
):  # fmt: skip
    """Evaluate what candidates are left at the end of a block."""
    for row in range(len(counts)):
        if counts[row] > distances.shape[1]:
            _prune(row, distances, lower, columns, counts, limits, norms, their_norms, bound)
        _evaluate(
            row, start, distances, indices, lower, columns, counts, limits,
            points, theirs, norms, their_norms, scale, bound,
        )  # fmt: skip


@kernel(writes=("distances", "indices"))
def merge_pairs(found_distances, found_indices, start, distances, indices):
    """Take pairs found elsewhere into the heaps; their numbers from ``start`` on, -1 for none."""
    k = distances.shape[1]
    for row in range(distances.shape[0]):
        for c in range(found_indices.shape[1]):
            if found_indices[row, c] >= 0:
                distance, index = found_distances[row, c], start + found_indices[row, c]
                if _worse(distances[row, 0], indices[row, 0], distance, index):
                    _sink(distances[row], indices[row], k, distance, index)


@kernel()
def sort_rows(distances, indices):
    """Turn each row's heap into a list, nearest first."""
    for row in range(distances.shape[0]):
        for size in range(distances.shape[1] - 1, 0, -1):
            distance, index = distances[row, size], indices[row, size]
            distances[row, size], indices[row, size] = distances[row, 0], indices[row, 0]
            _sink(distances[row], indices[row], size, distance, index)
