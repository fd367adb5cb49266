"""The loops over all pairs.

Points come as columns, so that the innermost loops run over contiguous numbers; a
tile of them stays in the first-level cache.  ``me`` is the place of the first own row
among these points: the pair of a point with itself is left out, not subtracted.
``pair`` is replaced by a pair function (see ``specialize``).
"""

import numpy as np
from numba import njit, prange

from thalweg_embedding.pairs.functions import FASTMATH
from thalweg_embedding.pairs.specialize import pair

TILE = 256

inlined = njit(fastmath=set(FASTMATH))


@inlined
def range_beside(side, me, count):
    """Range of the points before (side 0) or after (side 1) position ``me``."""
    first = 0 if side == 0 else max(me + 1, 0)
    last = min(max(me, 0), count) if side == 0 else count
    return first, last


@inlined
def squared_distances(rows, n, points, low, width, distance):
    """Squared distances of row n to a tile of points."""
    for t in range(width):
        distance[t] = 0.0
    for i in range(rows.shape[1]):
        for t in range(width):
            u = rows[n, i] - points[i, low + t]
            distance[t] += u * u


@inlined
def weigh(numbers, weights, n, low, width):
    """Multiply a tile by its weights, if there are any."""
    if weights.size > 0:
        for t in range(width):
            numbers[t] *= weights[n, low + t]


def first_order(rows, points, me, weights, offset, shift, totals, slopes):
    """Add to ``totals`` the rows' sums, and to ``slopes``, unless it is empty, their slopes."""
    for n in prange(rows.shape[0]):
        value = np.empty(TILE)
        slope = np.empty(TILE)
        total = 0.0
        for side in range(2):
            first, last = range_beside(side, me + n, points.shape[1])
            for low in range(first, last, TILE):
                width = min(TILE, last - low)
                squared_distances(rows, n, points, low, width, value)
                for t in range(width):
                    value[t], slope[t], _ = pair(value[t] - shift)
                weigh(value, weights, n, offset + low, width)
                for t in range(width):
                    total += value[t]
                if slopes.size > 0:
                    weigh(slope, weights, n, offset + low, width)
                    for i in range(rows.shape[1]):
                        partial = 0.0
                        for t in range(width):
                            partial += slope[t] * (rows[n, i] - points[i, low + t])
                        slopes[n, i] += partial
        totals[n] += total


def second_order(rows, moves, points, all_moves, me, weights, offset, shift, kind, out):
    """Add the second derivatives of a :class:`~thalweg_embedding.pairs.pair_sum.SecondOrder`."""
    for n in prange(rows.shape[0]):
        along = np.empty(TILE)
        slope = np.empty(TILE)
        curvature = np.empty(TILE)
        term = np.empty(TILE)
        for side in range(2):
            first, last = range_beside(side, me + n, points.shape[1])
            for low in range(first, last, TILE):
                width = min(TILE, last - low)
                squared_distances(rows, n, points, low, width, curvature)
                for t in range(width):
                    _, slope[t], curvature[t] = pair(curvature[t] - shift)
                    curvature[t] *= 2.0
                if kind >= 2:
                    for t in range(width):
                        slope[t], curvature[t] = 0.0, max(curvature[t], 0.0)
                weigh(slope, weights, n, offset + low, width)
                weigh(curvature, weights, n, offset + low, width)
                if kind == 0:
                    for t in range(width):
                        along[t] = 0.0
                    for i in range(rows.shape[1]):
                        for t in range(width):
                            v = moves[n, i] - all_moves[i, low + t]
                            along[t] += (rows[n, i] - points[i, low + t]) * v
                    for t in range(width):
                        along[t] *= curvature[t]
                for i in range(rows.shape[1]):
                    # Loops of two factors each: of three, the compiler chooses the order, another
                    # one where it compiles than where it optimizes once more for the cache.
                    if kind == 0:
                        for t in range(width):
                            u = rows[n, i] - points[i, low + t]
                            v = moves[n, i] - all_moves[i, low + t]
                            term[t] = slope[t] * v + along[t] * u
                    else:
                        for t in range(width):
                            u = rows[n, i] - points[i, low + t]
                            term[t] = u * u
                        for t in range(width):
                            term[t] = slope[t] + curvature[t] * term[t]
                    if kind == 2:
                        for t in range(width):
                            term[t] *= moves[n, i] - all_moves[i, low + t]
                    partial = 0.0
                    for t in range(width):
                        partial += term[t]
                    out[n, i] += partial
