"""Inner products and updates of long arrays, block by block: each is read from memory once.

A block stays in a cache, and is too short for a BLAS to use threads: bits do not depend on them.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import daxpy

from thalweg.parallel.kernels import kernel

#: Numbers of a block, and blocks that are worked on at a time.
BLOCK, BLOCKS = 8192, 16


def block_sums(a: np.ndarray, others: Sequence[np.ndarray]) -> list[list[float]]:
    """For each of some flat arrays, its inner products with ``a``, one for each block."""
    sums: list[list[float]] = [[] for _ in others]
    whole = a.size - a.size % BLOCK
    for first in range(0, whole, BLOCK * BLOCKS):
        here = slice(first, min(whole, first + BLOCK * BLOCKS))
        left = a[here].reshape(-1, 1, BLOCK)
        for found, other in zip(sums, others, strict=True):
            found += np.matmul(left, other[here].reshape(-1, BLOCK, 1)).ravel().tolist()
    if whole < a.size:
        for found, other in zip(sums, others, strict=True):
            found.append(float(np.dot(a[whole:], other[whole:])))
    return sums


def add_multiples(
    total: np.ndarray, weights: Sequence[float] | np.ndarray, others: Sequence[np.ndarray]
) -> None:
    """``total += sum of weights * others``, in place and in this order; C-contiguous arrays."""
    flat, parts = total.reshape(-1), [other.reshape(-1) for other in others]
    factors = [float(weight) for weight in weights] if flat.size else []
    done = 0
    if flat.size > BLOCK:
        while len(parts) - done >= 4:
            four = slice(done, done + 4)
            _add_four(flat, *factors[four], *parts[four])
            done += 4
    for weight, part in zip(factors[done:], parts[done:], strict=False):
        daxpy(part, flat, a=weight)


@kernel(fastmath={"contract"})
def _add_four(total, a, b, c, d, first, second, third, fourth):
    for i in range(total.size):
        total[i] = (((total[i] + a * first[i]) + b * second[i]) + c * third[i]) + d * fourth[i]
