"""The loops over the edges of a sparse graph, row by row, made for a pair function each."""

import numpy as np
from numba import njit, prange

from thalweg.parallel import kernel
from thalweg_embedding.pairs.functions import FASTMATH
from thalweg_embedding.pairs.specialize import pair

TILE = 128


# By that of numerics, or written out below, second_order took 1.1 to 1.6 times as long.
@njit(fastmath=set(FASTMATH))
def squared_distance(rows, n, points, m):
    """Squared distance of own row n to point m."""
    distance = 0.0
    for i in range(rows.shape[1]):
        u = rows[n, i] - points[m, i]
        distance += u * u
    return distance


def first_order(rows, points, starts, neighbors, weights, shift, totals, slopes):
    """Overwrite ``totals`` with the rows' sums, and ``slopes``, unless empty, with their slopes.

    Unlike the other loops this one takes all points as columns, and a row's edges in tiles:
    the compiler then gathers coordinates and works on several edges at once.
    """
    d = rows.shape[1]
    for n in prange(rows.shape[0]):
        difference = np.empty((d, TILE), rows.dtype)
        value = np.empty(TILE, rows.dtype)
        slope = np.empty(TILE, rows.dtype)
        total = 0.0
        if slopes.size > 0:
            for i in range(d):
                slopes[n, i] = 0.0
        for low in range(starts[n], starts[n + 1], TILE):
            width = min(TILE, starts[n + 1] - low)
            for t in range(width):
                value[t] = -shift
            for i in range(d):
                for t in range(width):
                    u = rows[n, i] - points[i, neighbors[low + t]]
                    difference[i, t] = u
                    value[t] += u * u
            for t in range(width):
                here, change, _ = pair(value[t])
                value[t] = weights[low + t] * here
                slope[t] = weights[low + t] * change
            for t in range(width):
                total += value[t]
            if slopes.size > 0:
                for i in range(d):
                    partial = 0.0
                    for t in range(width):
                        partial += slope[t] * difference[i, t]
                    slopes[n, i] += partial
        totals[n] = total


def first_order_once(points, starts, neighbors, weights, parts, totals, out):
    """The same in two dimensions and single precision, each edge stored in one direction.

    A row is summed in single precision, and rows in double; the points are the columns.  Half as
    much is read, which takes most of the time.  A part of the rows, from ``parts[i]`` on,
    adds up both ends' slopes in ``out[i]``, unless that is empty.
    """
    zero = np.float32(0.0)
    for part in prange(parts.size - 1):
        value, slope = np.empty(TILE, np.float32), np.empty(TILE, np.float32)
        slope_x, slope_y = np.empty(TILE, np.float32), np.empty(TILE, np.float32)
        if out.size > 0:
            out[part, parts[part] :] = zero
        for n in range(parts[part], parts[part + 1]):
            total, sum_x, sum_y = zero, zero, zero
            x, y = points[0, n], points[1, n]
            for low in range(starts[n], starts[n + 1], TILE):
                width = min(TILE, starts[n + 1] - low)
                for t in range(width):
                    slope_x[t] = u = x - points[0, neighbors[low + t]]
                    slope_y[t] = v = y - points[1, neighbors[low + t]]
                    value[t], slope[t], _ = pair(u * u + v * v)
                # Products of two factors in a loop: of three, the compiler chooses the order.
                for t in range(width):
                    total += weights[low + t] * value[t]
                    slope[t] *= weights[low + t]
                for t in range(width):
                    slope_x[t] *= slope[t]
                    slope_y[t] *= slope[t]
                    sum_x += slope_x[t]
                    sum_y += slope_y[t]
                if out.size > 0:
                    for t in range(width):
                        m = neighbors[low + t]
                        out[part, m, 0] -= slope_x[t]
                        out[part, m, 1] -= slope_y[t]
            totals[n] = 2.0 * total
            if out.size > 0:
                out[part, n, 0] += sum_x
                out[part, n, 1] += sum_y


@kernel(writes=("slopes",), parallel=True)
def add_parts(parts, out, slopes):
    """Add to ``slopes`` what the parts of :func:`first_order_once` have summed."""
    for n in prange(slopes.shape[0]):
        for i in range(2):
            total = 0.0
            for part in range(parts.size - 1):
                if parts[part] <= n:
                    total += out[part, n, i]
            slopes[n, i] += total


def second_order(rows, moves, points, all_moves, starts, neighbors, weights, shift, kind, out):
    """Second derivatives of a :class:`~thalweg_embedding.pairs.pair_sum.SecondOrder`."""
    for n in prange(rows.shape[0]):
        for i in range(rows.shape[1]):
            out[n, i] = 0.0
        for e in range(starts[n], starts[n + 1]):
            m = neighbors[e]
            _, slope, curvature = pair(squared_distance(rows, n, points, m) - shift)
            if kind >= 2:
                slope, curvature = 0.0, max(curvature, 0.0)
            along = 0.0
            if kind == 0:
                for i in range(rows.shape[1]):
                    along += (rows[n, i] - points[m, i]) * (moves[n, i] - all_moves[m, i])
            for i in range(rows.shape[1]):
                u = rows[n, i] - points[m, i]
                v = moves[n, i] - all_moves[m, i] if kind % 2 == 0 else 1.0
                change = along if kind == 0 else u * v
                out[n, i] += weights[e] * (slope * v + 2.0 * curvature * change * u)
