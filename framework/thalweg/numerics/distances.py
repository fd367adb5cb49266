"""Squared distances of two rows, compiled, and of all pairs, by products; rows of length 1."""

import numba
import numpy as np


# In whatever order is quickest, the same for all pairs, and not fused, so that equal ones tie.
@numba.njit(nogil=True, fastmath={"reassoc", "nsz"})
def squared_distance(x, y):  # type: ignore[no-untyped-def]
    """Sum of squared differences of two rows in double precision."""
    total = 0.0
    for t in range(x.size):
        difference = np.float64(x[t]) - np.float64(y[t])
        total += difference * difference  # type: ignore[assignment]
    return total


def squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of all rows of ``a`` from all of ``b``; not for rows that are close."""
    squares = 1.0 * np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b)
    squares -= (2.0 * a) @ b.T  # of all these numbers no more than two are held
    return np.maximum(squares, 0.0, out=squares)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths, those of zeros as they are; shape ``(n, columns)``."""
    # They are first scaled by powers of two, so that no square overflows or vanishes.
    rows = np.ldexp(rows, -np.frexp(np.abs(rows).max(axis=1, initial=0.0, keepdims=True))[1])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0))
