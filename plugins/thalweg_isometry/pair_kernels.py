"""Compiled loops over the pairs of a strip: what a compression changes, and what is within a limit.

A table is of products of its rows with its columns, their norms and values, and two errors: of a
bounded pair relative to the norms, and of a measured one to the terms of its sum.  Sums are in an
order that depends on the length of a row alone.
"""

# mypy: disable-error-code="no-untyped-def"

import numba
import numpy as np

from thalweg.numerics import squared_distance
from thalweg.parallel import kernel

#: Bits of a double below those that tell its class, 64 for each factor of 2.
BELOW = 46

#: Relative allowance for the few roundings of a bound.
FEW = 2.0**-48


@numba.njit(nogil=True)
def _bounded(is_distance, product, norm, other, error):
    """Bounds of the squared distance of two rows of these norms, or of their product."""
    if is_distance:
        total = norm * norm + other * other
        square, slack = total - 2.0 * product, error * total
        return max(0.0, square - slack), square + slack
    slack = error * (norm * other)
    return product - slack, product + slack


@numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _product(x, y):
    """Product of two rows, and of their absolute values."""
    total, size = 0.0, 0.0
    for c in range(x.size):
        total += x[c] * y[c]
        size += abs(x[c] * y[c])
    return total, size


@numba.njit(nogil=True)
def _measured(is_distance, x, y, error):
    """As :func:`_bounded`, from the rows themselves."""
    if is_distance:
        total = size = squared_distance(x, y)
    else:
        total, size = _product(x, y)
    return total - error * size, total + error * size


@numba.njit(nogil=True)
def _changed(is_relative, before, after):
    """Bounds of the change between intervals, and whether its divisor may be next to nothing.

    Where nothing changes nothing is divided; a change from 0 is infinite.
    """
    (low, high), (new_low, new_high) = before, after
    least = max(new_low - high, low - new_high, 0.0) * (1.0 - FEW)
    most = max(new_high - low, high - new_low, 0.0) * (1.0 + FEW)
    if not is_relative or most == 0.0:
        return least, most, False
    smallest, largest = max(low, -high, 0.0), max(abs(low), abs(high))
    if least > 0.0:
        least = least / largest * (1.0 - FEW) if largest > 0.0 else np.inf
    most = most / smallest * (1.0 + FEW) if smallest > 0.0 else np.inf
    return least, most, smallest < 0.5 * largest


@kernel()
def compare_pairs(
    before, after, first_row, first_column, is_distance, is_relative, worst, pair, row_worst,
    column_worst, counts,
):  # fmt: skip
    """Bound the changes of all pairs of a strip i < j, and measure those that may be the worst.

    Overwritten are ``worst``, bounds of the largest change so far, and its ``pair`` of global
    numbers, where a larger one is found; largest bounds of each row and column; counts of pairs by
    the classes of both bounds.
    """
    old_products, old_norms, old_others, old_rows, old_columns, old_error, old_close = before
    new_products, new_norms, new_others, new_rows, new_columns, new_error, new_close = after
    for i in range(old_products.shape[0]):
        x, y = old_norms[i], new_norms[i]
        for j in range(max(0, first_row + i + 1 - first_column), old_products.shape[1]):
            old = _bounded(is_distance, old_products[i, j], x, old_others[j], old_error)
            new = _bounded(is_distance, new_products[i, j], y, new_others[j], new_error)
            least, most, unclear = _changed(is_relative, old, new)
            if most > 0.0 and (unclear or most >= worst[1]):
                old = _measured(is_distance, old_rows[i], old_columns[j], old_close)
                new = _measured(is_distance, new_rows[i], new_columns[j], new_close)
                lower, upper, _ = _changed(is_relative, old, new)
                lower, upper = max(lower, least), min(upper, most)
                if unclear:
                    least, most = lower, upper
                a, b = first_row + i, first_column + j
                earlier = a < pair[0] or (a == pair[0] and b < pair[1])
                if upper > worst[1] or (upper == worst[1] and earlier):
                    worst[0], worst[1], pair[0], pair[1] = lower, upper, a, b
            for k, bound in enumerate((least, most)):
                counts[k, np.float64(bound).view(np.int64) >> BELOW] += 1
                row_worst[i, k] = max(row_worst[i, k], bound)
                column_worst[j, k] = max(column_worst[j, k], bound)


@kernel()
def count_within(table, first_row, first_column, limits, column_limits, counts, column_counts):
    """Count the pairs of a strip i < j whose squared distance is within both limits of either."""
    products, norms, others, rows, columns, error, close = table
    for i in range(products.shape[0]):
        for j in range(max(0, first_row + i + 1 - first_column), products.shape[1]):
            low, _ = _bounded(True, products[i, j], norms[i], others[j], error)
            if low * (1.0 - 2.0 * close) <= max(limits[i, 1], column_limits[j, 1]):
                square = squared_distance(rows[i], columns[j])
                for k in range(2):
                    counts[i, k] += square <= limits[i, k]
                    column_counts[j, k] += square <= column_limits[j, k]


@kernel()
def square_distances(rows, others, squares):
    """Overwrite ``squares`` with the squared distances of rows, each from another."""
    for i in range(squares.size):
        squares[i] = squared_distance(rows[i], others[i])
