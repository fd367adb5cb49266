"""Inner products and updates of long arrays, block by block: each is read from memory once.

A block stays in a cache, and is too short for a BLAS to use threads: bits do not depend on them.
"""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import daxpy

from thalweg.parallel.kernels import kernel

#: Numbers of a block, and blocks that are worked on at a time.
BLOCK, BLOCKS = 8192, 16


@np.errstate(over="ignore", invalid="ignore")  # a sum may be infinite; NumPy 2 warns of it
def block_sums(a: np.ndarray, others: Sequence[np.ndarray]) -> list[list[float]]:
    """For each of some flat arrays, its inner products with ``a``, one for each block."""
    if a.size < BLOCK:
        return [[float(a.dot(other))] for other in others]
    sums: list[list[float]] = [[] for _ in others]
    whole = a.size - a.size % BLOCK
    for first in range(0, whole, BLOCK * BLOCKS):
        here = slice(first, min(whole, first + BLOCK * BLOCKS))
        left = a[here].reshape(-1, 1, BLOCK)
        for sums_of_one, other in zip(sums, others, strict=True):
            sums_of_one += np.matmul(left, other[here].reshape(-1, BLOCK, 1)).ravel().tolist()
    if whole < a.size:
        for sums_of_one, other in zip(sums, others, strict=True):
            sums_of_one.append(float(a[whole:].dot(other[whole:])))
    return sums


def add_multiples(
    total: np.ndarray, weights: Sequence[float] | np.ndarray, others: Sequence[np.ndarray]
) -> None:
    """``total += sum of weights * others``, in place and in this order; C-contiguous arrays."""
    flat = total.reshape(-1)
    pairs = zip(weights, [other.reshape(-1) for other in others], strict=True)
    if flat.size <= BLOCK:
        for weight, part in pairs if flat.size else ():
            daxpy(part, flat, a=weight)
        return
    # As in BLAS, a weight of zero adds nothing, not even NaN times zero.
    terms = [(float(weight), part) for weight, part in pairs if weight != 0.0]
    while terms:
        count = 4 if len(terms) >= 4 else 1
        factors, parts = zip(*terms[:count], strict=True)
        (_add_four if count == 4 else _add_one)(flat, *factors, *parts)
        del terms[:count]


# A BLAS would share a long array among its threads, and round otherwise where their parts end.
@kernel(fastmath={"contract"})
def _add_one(total, a, first):
    for i in range(total.size):
        total[i] += a * first[i]


@kernel(fastmath={"contract"})
def _add_four(total, a, b, c, d, first, second, third, fourth):
    for i in range(total.size):
        total[i] = (((total[i] + a * first[i]) + b * second[i]) + c * third[i]) + d * fourth[i]
