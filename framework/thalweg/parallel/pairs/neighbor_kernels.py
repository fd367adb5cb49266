"""Compiled selection of nearest neighbors from lower bounds of distances.

Each row has a list of the best pairs so far, in no order.  When the list is full, its ``k`` least
entries are kept, by exact squared distance, then by row number, and the greatest of these is the
row's *limit*: pairs beyond it need not be looked at.  The *threshold* is the limit as the lower
bounds have it.
"""

# Numba's functions take arrays whose types are given by the callers alone.
# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numba
import numpy as np

from thalweg.parallel.kernels import kernel

#: What the search writes to: the lists of the rows, and those of the columns.
LISTS = ("distances", "indices", "counts", "limits", "thresholds")
ALL_LISTS = (*LISTS, *(f"their_{name}" for name in LISTS))


# In whatever order is quickest, the same for all pairs; of few coordinates one after the other.
@numba.njit(nogil=True, fastmath={"reassoc", "nsz"})
def _squared_distance(x, y):
    total = 0.0
    for t in range(x.size):
        difference = x[t] - y[t]
        total += difference * difference
    return total


@numba.njit(nogil=True)
def _before(distance, index, other_distance, other_index):
    return distance < other_distance or (distance == other_distance and index < other_index)


@numba.njit(nogil=True)
def _select(distances, indices, low, high, place):
    """Reorder pairs ``low`` to ``high`` so that ``place`` has the one that it has in order.

    Those before it come before in order too (Hoare 1961).
    """
    while low < high:
        middle = (low + high) // 2
        distance, index = distances[middle], indices[middle]
        i, j = low, high
        while i <= j:
            while _before(distances[i], indices[i], distance, index):
                i += 1
            while _before(distance, index, distances[j], indices[j]):
                j -= 1
            if i <= j:
                distances[i], distances[j] = distances[j], distances[i]
                indices[i], indices[j] = indices[j], indices[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break


@numba.njit(nogil=True)
def _sort(distances, indices):
    # By insertion at falling gaps (Shell 1959): short lists need no more.
    gap = 1
    while gap < distances.size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for c in range(gap, distances.size):
            distance, index, at = distances[c], indices[c], c
            while at >= gap and _before(distance, index, distances[at - gap], indices[at - gap]):
                distances[at], indices[at] = distances[at - gap], indices[at - gap]
                at -= gap
            distances[at], indices[at] = distance, index
        gap //= 3


@numba.njit(nogil=True)
def _threshold(limit, scale):
    # Half the square, upwards, with an allowance for both precisions and for underflow.
    return np.float32(0.5 * limit * scale * scale * (1.0 + 2.0**-20) + 2.0**-100)


@numba.njit(nogil=True)
def _shorten(row, k, scale, distances, indices, counts, limits, thresholds):
    """Keep the ``k`` best pairs of a row that has more, and set its limit."""
    _select(distances[row], indices[row], 0, counts[row] - 1, k - 1)
    counts[row] = k
    limits[row] = distances[row, k - 1]
    thresholds[row] = _threshold(limits[row], scale)


@numba.njit(nogil=True)
def _append(
    row, distance, index, k, scale, distances, indices, counts, limits, thresholds
):  # fmt: skip
    count = counts[row]
    distances[row, count], indices[row, count] = distance, index
    counts[row] = count + 1
    if count + 1 == distances.shape[1]:
        _shorten(row, k, scale, distances, indices, counts, limits, thresholds)


@kernel(writes=("limits", "thresholds"))
def bound_limits(tile, top, slack, k, scale, limits, thresholds):
    """Limits from a tile that has all pairs of the rows from ``top`` among each other.

    Parameters
    ----------
    tile
        Half the scaled squared distances, from below by at most ``slack``.
    """
    n = tile.shape[0]
    if n <= k:
        return
    for i in range(n):
        scores, low, high = tile[i], np.float32(0.0), np.float32(0.0)
        for j in range(n):
            high = max(high, scores[j])
        # With the row itself, at least k + 1 scores are at most `high`: more are left each time.
        for _ in range(16):
            middle, count = np.float32(0.5) * (low + high), np.int32(0)
            for j in range(n):
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
    tile, top, left, triangle, k, scale,
    points, numbers, distances, indices, counts, limits, thresholds,
    their_points, their_numbers, their_distances, their_indices, their_counts, their_limits,
    their_thresholds,
):  # fmt: skip
    """Measure the pairs of a tile that may be among the best of their row or of their column.

    Parameters
    ----------
    tile
        Lower bounds of half the scaled squared distances of the rows from ``top`` and the
        columns from ``left``.
    triangle
        Whether these are the same rows, so that only the pairs above the diagonal count.
    points, numbers, their_points, their_numbers
        Values and global numbers of all rows and columns; a row is not its own neighbor.

    Returns
    -------
    int
        Pairs measured.
    """
    m, n = tile.shape
    marks = np.zeros((n + 7) // 8 * 8, np.uint8)
    groups = marks.view(np.uint64)
    bounds = their_thresholds[left : left + n]
    measured = 0
    for i in range(m):
        row, scores, bound = top + i, tile[i], thresholds[top + i]
        for j in range(n):
            marks[j] = np.uint8(scores[j] <= bound) | np.uint8(scores[j] <= bounds[j])
        first = i + 1 if triangle else 0
        for group in range(first // 8, groups.size):
            if groups[group] == 0:
                continue
            for j in range(max(first, 8 * group), min(8 * group + 8, n)):
                column = left + j
                # Both thresholds may have fallen since.
                if marks[j] == 0 or not (scores[j] <= thresholds[row] or scores[j] <= bounds[j]):
                    continue
                if numbers[row] == their_numbers[column]:
                    continue
                distance = _squared_distance(points[row], their_points[column])
                measured += 1
                if distance <= limits[row]:
                    _append(
                        row, distance, their_numbers[column], k, scale,
                        distances, indices, counts, limits, thresholds,
                    )  # fmt: skip
                if distance <= their_limits[column]:
                    _append(
                        column, distance, numbers[row], k, scale, their_distances,
                        their_indices, their_counts, their_limits, their_thresholds,
                    )  # fmt: skip
    return measured


@kernel(writes=LISTS)
def merge_lists(
    found_counts, found_distances, found_indices, k, scale,
    distances, indices, counts, limits, thresholds,
):  # fmt: skip
    """Add to each row's list the next ``found_counts[row]`` pairs found; shorten all lists."""
    place = 0
    for row in range(counts.size):
        for _ in range(found_counts[row]):
            if found_distances[place] <= limits[row]:
                _append(
                    row, found_distances[place], found_indices[place], k, scale,
                    distances, indices, counts, limits, thresholds,
                )  # fmt: skip
            place += 1
        if counts[row] >= k:
            _shorten(row, k, scale, distances, indices, counts, limits, thresholds)


@kernel(writes=("packed_distances", "packed_indices"))
def pack_lists(distances, indices, counts, packed_distances, packed_indices):
    """Put the lists one after the other."""
    place = 0
    for row in range(counts.size):
        for c in range(counts[row]):
            packed_distances[place], packed_indices[place] = distances[row, c], indices[row, c]
            place += 1


@kernel(writes=("distances", "indices", "sorted_distances", "sorted_indices"))
def sort_lists(distances, indices, order, sorted_distances, sorted_indices):
    """The first pairs of each list, nearest first; list ``row`` goes to row ``order[row]``."""
    k = sorted_distances.shape[1]
    for row in range(order.size):
        _sort(distances[row, :k], indices[row, :k])
        sorted_distances[order[row]] = distances[row, :k]
        sorted_indices[order[row]] = indices[row, :k]
