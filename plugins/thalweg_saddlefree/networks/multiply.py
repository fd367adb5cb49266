"""Matrix products that write, or add, into an array that is already there."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, add: bool = False) -> np.ndarray:
    """``out = a b``, or ``out += a b`` with ``add``; no temporary arrays.

    Parameters
    ----------
    a, b
        Row-major matrices or their transposes, of one type (float32 or float64).
    out
        Row-major, of the same type.
    """
    if 0 in (a.shape[0], a.shape[1], b.shape[1]):
        if not add:
            out[...] = 0
        return out
    gemm = blas.dgemm if out.dtype == np.float64 else blas.sgemm
    # BLAS is column-major: it is given out' = b' a'.
    left, flip_left = (b.T, 0) if b.flags.c_contiguous else (b, 1)
    right, flip_right = (a.T, 0) if a.flags.c_contiguous else (a, 1)
    gemm(
        1.0,
        left,
        right,
        beta=1.0 if add else 0.0,
        c=out.T,
        trans_a=flip_left,
        trans_b=flip_right,
        overwrite_c=1,
    )
    return out
