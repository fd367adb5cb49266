"""Eigenvectors of the smallest eigenvalues of a small symmetric matrix."""

import numpy as np
import scipy.linalg


def smallest_eigenvectors(matrix: np.ndarray, count: int) -> np.ndarray:
    """Orthonormal eigenvectors of the ``count`` smallest eigenvalues, ascending.

    Each is signed so that its largest entry is positive.
    """
    vectors = scipy.linalg.eigh(matrix, subset_by_index=[0, count - 1])[1]
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(count)] < 0, -1.0, 1.0)
    return np.ascontiguousarray(vectors)


def best_gap(spectrum: np.ndarray) -> int:
    """The q after which the ascending spectrum has its widest gap (eq. 11).

    Where Phi has negative eigenvalues only these directions lower the cost: the gap below
    a direction that is penalized says nothing of how many are wanted.
    """
    count = len(spectrum) - 1
    if spectrum[0] < 0:
        count = max(1, min(count, int(np.count_nonzero(spectrum < 0.05 * spectrum[0]))))
    return int(np.argmax(np.diff(spectrum)[:count])) + 1
