"""Compiled loops of the secant oracle: filter a tile, measure a pair exactly, map points.

Sums run in an order that depends on the length of a row alone, never on where the row lies in a
tile or on which rank, so that every number is the same at any number of ranks.
"""

# mypy: disable-error-code="no-untyped-def"

import numba
import numpy as np

from thalweg.numerics import squared_distance
from thalweg.parallel import kernel

#: Squared lengths below this are measured on coordinates times ``_SCALE``: they would vanish.
_TINY = 1e-250
_SCALE = 2.0**700

#: A pair is measured unless its bounds stay this far below the largest distortion: three
#: roundings of the comparison in single precision, and then the error of a measurement.
_MARGIN = 5e-7


@numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _squared_image(components, a, b, scale):
    """``||Psi (a - b) scale||^2``, from the difference: accurate however close a and b are."""
    total = 0.0
    for k in range(components.shape[0]):
        product = 0.0
        for c in range(a.size):
            product += components[k, c] * ((np.float64(a[c]) - np.float64(b[c])) * scale)
        total += product * product
    return total


@kernel(fastmath={"reassoc", "contract", "nsz"})
def map_rows(rows, mean, components, images):
    """``images = (rows - mean) @ components.T`` in float64, each row by itself."""
    centered = np.empty(mean.size)
    for i in range(rows.shape[0]):
        for c in range(mean.size):
            centered[c] = np.float64(rows[i, c]) - mean[c]
        for k in range(components.shape[0]):
            product = 0.0
            for c in range(mean.size):
                product += centered[c] * components[k, c]
            images[i, k] = product


@numba.njit(nogil=True)
def _unpacked(packed, dimension):
    """A row of :class:`SparseRows` with all its zeros."""
    width = packed.size // 2
    row = np.zeros(dimension + 1)
    for k in range(width):
        row[int(packed[k])] = packed[width + k]
    return row[:dimension]


@numba.njit(nogil=True, fastmath={"contract", "nsz"})
def _measure_rows(components, close, a, b, image_a, image_b, size):
    """Squared length before and after the map; ``size`` is the sum of the squared norms.

    Both are multiplied by the square of ``_SCALE`` where the points nearly coincide.
    """
    length = squared_distance(a, b)
    if length >= close * size and length >= _TINY:
        return length, squared_distance(image_a, image_b)
    scale = 1.0
    if length < _TINY:
        scale = _SCALE
        gap = (a.astype(np.float64) - b.astype(np.float64)) * scale
        length = squared_distance(gap, np.zeros(a.size))
        if length == 0.0:
            return 0.0, 0.0
    return length, _squared_image(components, a, b, scale)


@numba.njit(nogil=True)
def _measure_pair(components, close, packed, a, b, image_a, image_b, size):
    """As :func:`_measure_rows`; ``packed``: the points are rows of :class:`SparseRows`."""
    if packed:
        columns = components.shape[1]
        a_row, b_row = _unpacked(a, columns), _unpacked(b, columns)
        return _measure_rows(components, close, a_row, b_row, image_a, image_b, size)
    return _measure_rows(components, close, a, b, image_a, image_b, size)


@numba.njit(nogil=True, fastmath={"contract", "nsz"})
def _is_suspect(dot, image, low, high, image_low, image_high, cross, w):
    """Whether the distortion of a pair may reach ``w``, by bounds that hold under rounding.

    Not suspect means: the true distortion is below ``w`` by no more than three roundings of
    ``1 + w`` in single precision too few.  The bounds are sums of those of the two points.
    """
    two = np.float32(2.0)
    shortest = low - two * (dot + cross)
    longest = high - two * (dot - cross)
    # Negated, so that what overflowed to NaN is a suspect.
    stretched = not (image_high - two * image < (np.float32(1.0) + w) * shortest)
    shrunk = not (image_low - two * image > (np.float32(1.0) - w) * longest)
    return stretched | shrunk


@numba.njit(nogil=True, fastmath={"contract", "nsz"})
def _mark_suspects(dots, images, low, high, image_low, image_high, tails, i, first, last, w, marks):
    """Mark the suspects among some columns.  Returns their number.

    ``low``, ``high``, ``image_low``, ``image_high`` and ``tails`` are pairs
    (value of row i, values of the columns).
    """
    # Loops over slices from 0 on are the ones that compilers turn into vector code.
    dot_j, image_j = dots[i, first:last], images[i, first:last]
    low_j, high_j, tail_j = low[1][first:last], high[1][first:last], tails[1][first:last]
    image_low_j, image_high_j = image_low[1][first:last], image_high[1][first:last]
    count = np.int32(0)
    for j in range(last - first):
        suspect = np.uint8(
            _is_suspect(
                dot_j[j], image_j[j], low[0] + low_j[j], high[0] + high_j[j],
                image_low[0] + image_low_j[j], image_high[0] + image_high_j[j],
                tails[0] * tail_j[j], w,
            )
        )  # fmt: skip
        marks[j] = suspect
        count += np.int32(suspect)
    return count


@numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _product_of_rows(a, b):
    """Inner product in single precision."""
    total = np.float32(0.0)
    for c in range(a.size):
        total += a[c] * b[c]
    return total


@numba.njit(nogil=True)
def _lowered(cutoff):
    """Cutoff for bounds in single precision, below which the true value is below ``cutoff``."""
    # Infinite it would clear pairs whatever they are.
    return np.float32(min(cutoff - _MARGIN * (1.0 + cutoff), 1e30))


@kernel(fastmath={"contract", "nsz"})
def filter_tile(
    dots, images, rows, columns, components, row_start, column_start, triangle, close, packed,
    threshold, best, max_pairs, labeled, found_i, found_j, found_value, found_length, counts,
    best_pair,
):  # fmt: skip
    """Keep, in each row of a tile, the ``max_pairs`` worst pairs that reach ``threshold``.

    ``dots`` and ``images`` are float32 products, of leading coordinates and of images, ``rows`` and
    ``columns`` results of :meth:`Block.cut`.  All rows come before all columns, or, with
    ``triangle``, both are the same points and only columns after the row count.  A squared length
    counts as close below ``close`` times the squared norms; ``packed`` points are rows of
    :class:`SparseRows`.  Pairs that may reach ``best``, the largest distortion known so far, are
    measured even below ``threshold``.

    Overwritten are the found pairs (global numbers, signed distortion, squared length), ``counts``
    of pairs listed, measured and coincident, and ``best_pair`` where a larger distortion is found.
    Returns the largest, ``best`` or better.
    """
    exact_r, size_r, image_r, low_r, high_r, tail_r, image_low_r, image_high_r = rows[:8]
    exact_c, size_c, image_c, low_c, high_c, tail_c, image_low_c, image_high_c = columns[:8]
    further_low_r, further_high_r, further_tail_r, label_r, further_r = rows[8:]
    further_low_c, further_high_c, further_tail_c, label_c, further_c = columns[8:]
    further = further_r.shape[1] > 0
    m, n = dots.shape
    listed = measured = coincident = 0
    step = 512  # shorter pieces spend their time on starting the loop
    marks = np.zeros(step, dtype=np.uint8)
    groups = marks.view(np.uint64)
    for i in range(m):
        filled = 0
        # The row's own part of the lists, in which they hold no more than max_pairs.
        row_j, row_value, row_length = found_j[listed:], found_value[listed:], found_length[listed:]
        j0 = i + 1 if triangle else 0
        while j0 < n:
            j1 = min(n, j0 + step)
            cutoff = abs(row_value[max_pairs - 1]) if filled == max_pairs else threshold
            w = _lowered(min(cutoff, best))
            low, high, tails = (low_r[i], low_c), (high_r[i], high_c), (tail_r[i], tail_c)
            image_low, image_high = (image_low_r[i], image_low_c), (image_high_r[i], image_high_c)
            suspects = _mark_suspects(
                dots, images, low, high, image_low, image_high, tails, i, j0, j1, w, marks
            )
            if suspects == 0:
                j0 = j1
                continue
            j = j0 - 1
            while True:
                j += 1
                while j < j1 and (j - j0) % 8 == 0 and groups[(j - j0) // 8] == 0:
                    j += 8
                if j >= j1:
                    break
                if marks[j - j0] == 0:
                    continue
                if labeled and label_r[i] != label_c[j]:
                    continue
                # The cutoff may have risen since this piece of the row was marked.
                cutoff = abs(row_value[max_pairs - 1]) if filled == max_pairs else threshold
                raised_cutoff = _lowered(min(cutoff, best))
                least_image = image_low_r[i] + image_low_c[j]
                largest_image = image_high_r[i] + image_high_c[j]
                suspect = raised_cutoff <= w or _is_suspect(
                    dots[i, j], images[i, j], low_r[i] + low_c[j], high_r[i] + high_c[j],
                    least_image, largest_image, tail_r[i] * tail_c[j], raised_cutoff,
                )  # fmt: skip
                if suspect and further:
                    suspect = _is_suspect(
                        dots[i, j] + _product_of_rows(further_r[i], further_c[j]), images[i, j],
                        further_low_r[i] + further_low_c[j], further_high_r[i] + further_high_c[j],
                        least_image, largest_image, further_tail_r[i] * further_tail_c[j],
                        raised_cutoff,
                    )  # fmt: skip
                if not suspect:
                    continue
                measured += 1
                sizes = size_r[i] + size_c[j]
                length, mapped = _measure_pair(
                    components, close, packed, exact_r[i], exact_c[j], image_r[i], image_c[j], sizes
                )
                if length == 0.0:
                    coincident += 1
                    continue
                value = mapped / length - 1.0
                size = abs(value)
                pair = row_start + i, column_start + j
                if size > best or (size == best and pair < (best_pair[0], best_pair[1])):
                    best = size
                    best_pair[0], best_pair[1] = pair
                if size < threshold or (filled == max_pairs and size <= cutoff):
                    continue
                # Insert behind equals, which have smaller column numbers.
                place = filled if filled < max_pairs else max_pairs - 1
                while place > 0 and abs(row_value[place - 1]) < size:
                    row_value[place] = row_value[place - 1]
                    row_length[place] = row_length[place - 1]
                    row_j[place] = row_j[place - 1]
                    place -= 1
                row_j[place], row_value[place], row_length[place] = pair[1], value, length
                if filled < max_pairs:
                    filled += 1
            j0 = j1
        found_i[listed : listed + filled] = row_start + i
        listed += filled
    counts[:] = listed, measured, coincident
    return best


@kernel(fastmath={"contract", "nsz"})
def measure_pairs(
    first, second, rows, others, sizes, other_sizes, images, other_images, components, close,
    packed, lengths, mapped,
):  # fmt: skip
    """Squared lengths before and after the map of the pairs (rows[first], others[second])."""
    for k in range(first.size):
        i = first[k]
        j = second[k]
        size = sizes[i] + other_sizes[j]
        lengths[k], mapped[k] = _measure_pair(
            components, close, packed, rows[i], others[j], images[i], other_images[j], size
        )
