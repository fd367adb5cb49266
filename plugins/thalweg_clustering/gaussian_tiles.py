"""Compiled inner loops of Gaussian kernel sums: weights of row pairs, and what they multiply.

Rows in single precision are treated in single precision, twice as many at a time; sums over more
than one chunk are kept in double precision.
"""

# mypy: disable-error-code="no-untyped-def"

import numba
import numpy as np
from numba.extending import overload

from thalweg.numerics import exponential
from thalweg.parallel import kernel

#: Received rows that are treated together: what they need stays in the first-level cache.
CHUNK = 256

#: Own rows after which another thread may take over.
BAND = 32

_FAST = {"contract", "nsz", "arcp", "reassoc"}

#: With the transformations allowed to the loop that calls it.
_exponential_double = numba.njit(inline="always")(exponential)


@numba.njit(inline="always")
def _exponential_single(x):
    """``exp(x)`` for ``x <= 0`` in single precision, to three units in the last place."""
    x = max(x, np.float32(-87.0))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375)
    r = r + n * np.float32(2.12194440e-4)
    p = np.float32(1.0 / 5040.0)
    p = p * r + np.float32(1.0 / 720.0)
    p = p * r + np.float32(1.0 / 120.0)
    p = p * r + np.float32(1.0 / 24.0)
    p = p * r + np.float32(1.0 / 6.0)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return p * power


def _exponential(x):
    """The exponential in the precision of its argument."""


@overload(_exponential, inline="always")
def _choose_exponential(x):
    if x == numba.types.float32:
        return lambda x: _exponential_single(x)
    return lambda x: _exponential_double(x)


@numba.njit(fastmath=_FAST, inline="always")
def _fill_weights(i, width, own, other, weights, scratch):
    """Weights of own row ``i`` with the ``width`` received rows of one chunk."""
    own_z, own_factor, own_tangent = own[0], own[1], own[2]
    z, factor, tangent = other[0], other[1], other[2]
    # In the type of the rows: a literal would turn single precision into double.
    minus_half = own_z.dtype.type(-0.5)
    zero = own_z.dtype.type(0.0)
    for j in range(width):
        scratch[j] = zero
    for a in range(own_z.shape[1]):
        mine = own_z[i, a]
        for j in range(width):
            difference = mine - z[a, j]
            scratch[j] += difference * difference
    for j in range(width):
        weights[j] = _exponential(minus_half * scratch[j])
    if own_factor.shape[1] > 0:
        for j in range(width):
            scratch[j] = zero
        for a in range(own_factor.shape[1]):
            mine = own_factor[i, a]
            for j in range(width):
                scratch[j] += mine * factor[a, j]
        for j in range(width):
            weights[j] *= scratch[j]
    if own_tangent.shape[1] > 0:
        for j in range(width):
            scratch[j] = zero
        for a in range(own_tangent.shape[1]):
            mine = own_z[i, a]
            moving = own_tangent[i, a]
            for j in range(width):
                scratch[j] += (mine - z[a, j]) * (moving - tangent[a, j])
        for j in range(width):
            weights[j] *= scratch[j]


@numba.njit(inline="always")
def _empty_chunk(array):
    return np.empty((array.shape[0], CHUNK), array.dtype)


@numba.njit(inline="always")
def _load_chunk(arrays, first, width, chunks):
    """Copy columns into small arrays of their own, which the compiler knows to be disjoint."""
    for k in range(len(arrays)):
        for a in range(arrays[k].shape[0]):
            for j in range(width):
                chunks[k][a, j] = arrays[k][a, first + j]


@kernel(parallel=True, fastmath=_FAST)
def add_pairs(own, other, triangle, sums, contributions):
    """Add the weighted values of every pair of an own with a received row, both ways.

    Own rows are z, factors, tangents and values, of shapes ``(n, q)``, ``(n, r)``,
    ``(n, q or 0)``, ``(n, m)``, of one type, float64 or float32; the received are
    transposed, ``(q, v)`` and so on.  In a ``triangle`` these are the own ones: only pairs i < j
    are met.  ``sums``, ``(n, m + 1)``, have those of the weights themselves in the last column;
    ``contributions``, ``(threads, m + 1, v)``, are what the own rows add to the received ones.
    """
    own_values = own[3]
    count, columns = own_values.shape
    received, dtype = other[0].shape[1], own_values.dtype
    threads = contributions.shape[0]
    bands = (count + BAND - 1) // BAND
    zero = dtype.type(0.0)
    for thread in numba.prange(threads):
        weights = np.empty(CHUNK, dtype)
        scratch = np.empty(CHUNK, dtype)
        chunk = (
            _empty_chunk(other[0]), _empty_chunk(other[1]), _empty_chunk(other[2]),
            _empty_chunk(other[3]),
        )  # fmt: skip
        chunk_values = chunk[3]
        chunk_contributions = np.empty((columns + 1, CHUNK), dtype)
        # Bands are dealt out in turn, since in a triangle they get shorter.
        for band in range(thread, bands, threads):
            low = band * BAND
            high = min(low + BAND, count)
            start = (low + 1) // CHUNK * CHUNK if triangle else 0
            for first in range(start, received, CHUNK):
                width = min(CHUNK, received - first)
                _load_chunk(other, first, width, chunk)
                chunk_contributions[...] = 0.0
                for i in range(low, high):
                    _fill_weights(i, width, own, chunk, weights, scratch)
                    if triangle:
                        for j in range(min(width, i + 1 - first)):
                            weights[j] = 0.0
                    total = zero
                    for j in range(width):
                        total += weights[j]
                    sums[i, columns] += total
                    for j in range(width):
                        chunk_contributions[columns, j] += weights[j]
                    for c in range(columns):
                        mine = own_values[i, c]
                        total = zero
                        for j in range(width):
                            total += weights[j] * chunk_values[c, j]
                        sums[i, c] += total
                        for j in range(width):
                            chunk_contributions[c, j] += weights[j] * mine
                for c in range(columns + 1):
                    for j in range(width):
                        contributions[thread, c, first + j] += chunk_contributions[c, j]


@kernel(fastmath=_FAST)
def fill_tile(own, other, tile):
    """Overwrite ``tile``, shape ``(n, v)``, with the weights of every pair; see `add_pairs`."""
    count, received = tile.shape
    dtype = own[0].dtype
    weights, scratch = np.empty(CHUNK, dtype), np.empty(CHUNK, dtype)
    chunk = _empty_chunk(other[0]), _empty_chunk(other[1]), _empty_chunk(other[2])
    for first in range(0, received, CHUNK):
        width = min(CHUNK, received - first)
        _load_chunk(other, first, width, chunk)
        for i in range(count):
            _fill_weights(i, width, own, chunk, weights, scratch)
            for j in range(width):
                tile[i, first + j] = weights[j]
