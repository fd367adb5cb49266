"""Compiled selection of nearest neighbors from lower bounds of distances.

Each row has a list of the best pairs so far, in no order: their exact squared distances and, as
exact numbers of the same type, the rows that they are with.  When the list is full, its ``k`` least
entries are kept, by distance, then by row number, and the greatest of these is the row's *limit*:
pairs beyond it need not be looked at.  The *threshold* is the limit as the lower bounds have it.
"""

# Numba's functions take arrays whose types are given by the callers alone.
# mypy: disallow-untyped-defs=False

import numba
import numpy as np

from thalweg.numerics import squared_distance
from thalweg.parallel import kernel

#: What the search writes to: the lists of the rows, and those of the columns.
LISTS = ("pairs", "counts", "limits", "thresholds")
ALL_LISTS = (*LISTS, *(f"their_{name}" for name in LISTS))

#: Allowance for half of scaled squared distances that underflow, as they do beside an outlier.
UNDERFLOW = 2.0**-100

#: Pairs that are measured at once: their points are then fetched side by side.
BATCH = 1024


@numba.njit(nogil=True)
def _before(distance, index, other_distance, other_index):
    return distance < other_distance or (distance == other_distance and index < other_index)


@numba.njit(nogil=True)
def _select(pairs, low, high, place):
    """Reorder pairs ``low`` to ``high`` so that ``place`` has the one that it has in order.

    Those before it come before in order too (Hoare 1961).
    """
    while low < high:
        middle = (low + high) // 2
        distance, index = pairs[middle, 0], pairs[middle, 1]
        i, j = low, high
        while i <= j:
            while _before(pairs[i, 0], pairs[i, 1], distance, index):
                i += 1
            while _before(distance, index, pairs[j, 0], pairs[j, 1]):
                j -= 1
            if i <= j:
                pairs[i, 0], pairs[j, 0] = pairs[j, 0], pairs[i, 0]
                pairs[i, 1], pairs[j, 1] = pairs[j, 1], pairs[i, 1]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break


@numba.njit(nogil=True)
def _threshold(limit, scale):
    # Half the square, upwards, with an allowance for both precisions.
    return np.float32(0.5 * limit * scale * scale * (1.0 + 2.0**-20) + UNDERFLOW)


@numba.njit(nogil=True)
def _shorten(row, k, scale, pairs, counts, limits, thresholds):
    """Keep the ``k`` best pairs of a row that has more, and set its limit."""
    _select(pairs[row], 0, counts[row] - 1, k - 1)
    counts[row] = k
    limits[row] = pairs[row, k - 1, 0]
    thresholds[row] = _threshold(limits[row], scale)


@numba.njit(nogil=True)
def _append(row, distance, index, k, scale, pairs, counts, limits, thresholds):
    count = counts[row]
    pairs[row, count, 0], pairs[row, count, 1] = distance, index
    counts[row] = count + 1
    if count + 1 == pairs.shape[1]:
        _shorten(row, k, scale, pairs, counts, limits, thresholds)


@kernel(writes=("limits", "thresholds"))
def bound_limits(tile, top, slack, k, scale, limits, thresholds):
    """Limits from a tile that has all pairs of the rows from ``top`` among each other.

    ``tile``: half the scaled squared distances, from below by at most ``slack``.
    """
    for i in range(tile.shape[0] if tile.shape[0] > k else 0):
        scores, low, high = tile[i], np.float32(0.0), max(np.float32(0.0), tile[i].max())
        # With the row itself, at least k + 1 scores are at most `high`: more are left each time.
        for _ in range(16):
            middle, count = np.float32(0.5) * (low + high), np.int32(0)
            for j in range(scores.size):
                count += np.int32(scores[j] <= middle)
            if count <= k:
                low = middle
            else:
                high = middle
                if count <= k + 1 + k // 16:
                    break
        row = top + i
        limit = 2.0 * (high + slack) / (scale * scale) * (1.0 + 2.0**-20)
        limits[row] = min(limits[row], limit)
        thresholds[row] = min(thresholds[row], _threshold(limit, scale))


@kernel(writes=ALL_LISTS)
def filter_tile(
    tile, top, left, triangle, k, scale, points, numbers, pairs, counts, limits, thresholds,
    their_points, their_numbers, their_pairs, their_counts, their_limits, their_thresholds,
):  # fmt: skip
    """Measure the pairs of a tile that may be among the best of their row or of their column.

    ``tile`` has lower bounds of half the scaled squared distances of the rows from ``top`` and the
    columns from ``left``; with ``triangle`` these are the same rows, and only the pairs above the
    diagonal count.  Points and numbers are those of all rows and columns; a row is not its own
    neighbor.
    """
    m, n = tile.shape
    marks = np.zeros((n + 7) // 8 * 8, np.uint8)
    groups = marks.view(np.uint64)
    bounds = their_thresholds[left:]
    rows, columns = np.empty(BATCH + n, np.int64), np.empty(BATCH + n, np.int64)
    distances = np.empty(BATCH + n)
    waiting = 0
    for i in range(m):
        row, scores, bound = top + i, tile[i], thresholds[top + i]
        # Most rows of a tile have none.
        passing = np.int32(0)
        for j in range(n):
            limit = bounds[j] if bounds[j] > bound else bound
            passing += np.int32(scores[j] <= limit)
        if passing > 0:
            for j in range(n):
                marks[j] = np.uint8(scores[j] <= bound) | np.uint8(scores[j] <= bounds[j])
            first = i + 1 if triangle else 0
            for group in range(first // 8, groups.size):
                if groups[group] == 0:
                    continue
                for j in range(max(first, 8 * group), min(8 * group + 8, n)):
                    rows[waiting], columns[waiting] = row, left + j
                    waiting += marks[j] != 0 and numbers[row] != their_numbers[left + j]
        if waiting < BATCH and i + 1 < m:
            continue
        for c in range(waiting):
            distances[c] = squared_distance(points[rows[c]], their_points[columns[c]])
        for c in range(waiting):
            row, column, distance = rows[c], columns[c], distances[c]
            lists = pairs, counts, limits, thresholds
            if distance <= limits[row]:
                _append(row, distance, np.float64(their_numbers[column]), k, scale, *lists)
            lists = their_pairs, their_counts, their_limits, their_thresholds
            if distance <= their_limits[column]:
                _append(column, distance, np.float64(numbers[row]), k, scale, *lists)
        waiting = 0


@kernel(writes=LISTS)
def merge_lists(new_counts, new_pairs, first, last, k, scale, pairs, counts, limits, thresholds):
    """Add to each list its ``new_counts[row]`` new pairs, in turn; shorten those of some rows."""
    place = 0
    for row in range(first, last):
        for _ in range(new_counts[row]):
            distance, index = new_pairs[place]
            if distance <= limits[row]:
                _append(row, distance, index, k, scale, pairs, counts, limits, thresholds)
            place += 1
        if counts[row] >= k:
            _shorten(row, k, scale, pairs, counts, limits, thresholds)
