"""The short-range part of a sum over all pairs: points of neighboring cells.

``near`` is replaced by the short-range function of a split (see ``specialize``): of the squared
distance and the cut, its value and two derivatives.
"""

from numba import njit, prange

from thalweg_embedding.pairs.functions import FASTMATH, inlined
from thalweg_embedding.pairs.specialize import pair as near

#: Points of one cell row after another that a thread processes in turn.
BLOCK = 64


@njit(fastmath=set(FASTMATH))
def line_of(starts, along, axes, a, b, c):
    """Range of the points in up to three neighboring cells of a line of cells."""
    last = along[axes - 1]
    line = 0
    if axes == 3:
        line = (a * along[1] + b) * last
    elif axes == 2:
        line = b * last
    return starts[line + max(c - 1, 0)], starts[line + min(c + 2, last)]


@njit(fastmath=set(FASTMATH))
def cell_of(points, n, axis, low, scale, along):
    """Cell of a point along one axis, 0 for axes that are made up."""
    if axis < 0:
        return 0
    return min(max(int((points[axis, n] - low[axis]) * scale), 0), along[axis] - 1)


@inlined
def lines_near(points, n, low, scale, along):
    """Cell of a point, and one past the last lines of cells beside it along two axes."""
    axes = points.shape[0]
    a = cell_of(points, n, axes - 3, low, scale, along)
    b = cell_of(points, n, axes - 2, low, scale, along)
    c = cell_of(points, n, axes - 1, low, scale, along)
    last_a = min(a + 2, along[0]) if axes == 3 else 1
    last_b = min(b + 2, along[axes - 2]) if axes >= 2 else 1
    return a, b, c, last_a, last_b


def first_order(points, order, starts, along, low, scale, own, cut, reach, totals, slopes):
    """Sums over near points; slopes are added to rows ``order[n]`` of ``slopes``.

    A point's term with itself is part of its sum; its slope is zero.
    """
    axes = points.shape[0]
    zero = points.dtype.type(0.0)
    for block in prange((own.size + BLOCK - 1) // BLOCK):
        subtotal = 0.0
        for turn in range(block * BLOCK, min((block + 1) * BLOCK, own.size)):
            n = own[turn]
            row = order[n]
            a, b, c, last_a, last_b = lines_near(points, n, low, scale, along)
            total = zero
            if axes == 2:
                x, y = points[0, n], points[1, n]
                slope_x, slope_y = zero, zero
                for line_b in range(max(b - 1, 0), last_b):
                    left, right = line_of(starts, along, axes, 0, line_b, c)
                    width = right - left
                    for t in range((width + 15) // 16 * 16):
                        u = x - points[0, left + t]
                        v = y - points[1, left + t]
                        distance = u * u + v * v
                        value, slope, _ = near(distance, cut)
                        inside = (distance < reach) & (t < width)
                        value = value if inside else zero
                        slope = slope if inside else zero
                        total += value
                        slope_x += slope * u
                        slope_y += slope * v
                slopes[row, 0] += slope_x
                slopes[row, 1] += slope_y
            else:
                for line_a in range(max(a - 1, 0), last_a):
                    for line_b in range(max(b - 1, 0), last_b):
                        left, right = line_of(starts, along, axes, line_a, line_b, c)
                        for m in range(left, right):
                            distance = zero
                            for i in range(axes):
                                u = points[i, n] - points[i, m]
                                distance += u * u
                            if distance < reach:
                                value, slope, _ = near(distance, cut)
                                total += value
                                for i in range(axes):
                                    slopes[row, i] += slope * (points[i, n] - points[i, m])
            subtotal += total
        totals[block] = subtotal


def second_order(points, order, starts, along, low, scale, own, cut, reach, kind, moves, out):
    """Second derivatives; ``moves`` and ``out`` are in the order of the points given.

    ``kind`` 0 is ``PairSum.product``, 1 the diagonal, 2 and 3 the same of the convex part.
    """
    axes = points.shape[0]
    for turn in prange(own.size):
        n = own[turn]
        row = order[n]
        a, b, c, last_a, last_b = lines_near(points, n, low, scale, along)
        for line_a in range(max(a - 1, 0), last_a):
            for line_b in range(max(b - 1, 0), last_b):
                left, right = line_of(starts, along, axes, line_a, line_b, c)
                for m in range(left, right):
                    distance = 0.0
                    along_line = 0.0
                    for i in range(axes):
                        u = points[i, n] - points[i, m]
                        distance += u * u
                        if kind == 0:
                            along_line += u * (moves[order[n], i] - moves[order[m], i])
                    if distance >= reach or m == n:
                        continue
                    _, slope, curvature = near(distance, cut)
                    if kind >= 2:
                        slope = 0.0
                    for i in range(axes):
                        u = points[i, n] - points[i, m]
                        v = moves[order[n], i] - moves[order[m], i] if kind % 2 == 0 else 1.0
                        change = along_line if kind == 0 else u * v
                        out[row, i] += slope * v + 2.0 * curvature * change * u
