"""Compiled loops over the active secants: squared lengths of images, and Laplacian products.

Small sets are done without threads, whose start costs more than the loop.  That gives the same
bits, since every secant and every point is done by one thread alone.
"""

import numba
import numpy as np

from thalweg.numerics import squared_distance
from thalweg.parallel import kernel

#: Below this number of terms one thread does the loop.
SMALL = 10_000_000

#: With fused multiplications, which are quicker; no ties are told here.
_fused = numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
_squared_distance = _fused(squared_distance.py_func)


@kernel(fastmath={"contract", "nsz"})
def laplacian_row(images, i, offsets, others, secants, weights, out):  # type: ignore[no-untyped-def]
    """``out[i] = sum_k w_k (y_i - y_other)`` over the secants k at one point."""
    mine = images[i]
    row = out[i]
    row[:] = 0.0
    for e in range(offsets[i], offsets[i + 1]):
        w = weights[secants[e]]
        if w != 0.0:
            other = images[others[e]]
            for c in range(mine.size):
                row[c] += w * (mine[c] - other[c])


_laplacian_row = laplacian_row.dispatcher


@kernel(parallel=True)
def write_lengths(images, first, second, out):  # type: ignore[no-untyped-def]
    """``out[k] = ||images[first[k]] - images[second[k]]||^2``."""
    for k in numba.prange(first.size):
        out[k] = _squared_distance(images[first[k]], images[second[k]])


@kernel(parallel=True)
def write_laplacian(images, offsets, others, secants, weights, out):  # type: ignore[no-untyped-def]
    """The Laplacian times the images."""
    for i in numba.prange(offsets.size - 1):
        _laplacian_row(images, i, offsets, others, secants, weights, out)


@kernel()
def place_ends(first, second, free, others, numbers):  # type: ignore[no-untyped-def]
    """The other ends and the numbers of the secants at each point, in the order of secants."""
    for k in range(first.size):
        for i, j in ((first[k], second[k]), (second[k], first[k])):
            others[free[i]] = j
            numbers[free[i]] = k
            free[i] += 1


def incidence(
    first: np.ndarray, second: np.ndarray, points: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the secants at each point begin; other ends; numbers."""
    counts = np.bincount(first, minlength=points) + np.bincount(second, minlength=points)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    others, numbers = np.empty((2, int(offsets[-1])), dtype=np.int64)
    place_ends(first, second, offsets[:-1].copy(), others, numbers)
    return offsets, others, numbers


def image_lengths(images: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Squared lengths of the images of secants, shape ``first.shape``."""
    out = np.empty(first.size)
    small = first.size * images.shape[1] < SMALL
    (write_lengths.alone if small else write_lengths)(images, first, second, out)
    return out


def laplacian_times(
    images: np.ndarray, ends: tuple[np.ndarray, np.ndarray, np.ndarray], weights: np.ndarray
) -> np.ndarray:
    """The Laplacian of the secants, whose :func:`incidence` is ``ends``, times the images."""
    out = np.empty((ends[0].size - 1, images.shape[1]), dtype=images.dtype)
    small = ends[1].size * images.shape[1] < SMALL
    (write_laplacian.alone if small else write_laplacian)(images, *ends, weights, out)
    return out
