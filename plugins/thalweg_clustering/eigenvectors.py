"""Eigenvectors of the smallest eigenvalues of a small symmetric matrix, by two methods."""

import numpy as np
import scipy.linalg

from thalweg_clustering.coordinate_power import coordinate_power_smallest


def smallest_eigenvectors(
    matrix: np.ndarray,
    count: int,
    solver: str = "lapack",
    guess: np.ndarray | None = None,
    tolerance: float = 1e-8,
) -> np.ndarray:
    """Orthonormal eigenvectors of the ``count`` smallest eigenvalues, ascending.

    By LAPACK, or with ``"cpm"`` by the coordinate-wise power method, to a relative residual of
    ``tolerance`` from ``guess``, shape ``(d, count)``.  Each is signed so that its largest entry is
    positive.
    """
    if solver == "cpm":
        if guess is None:
            guess = np.linalg.qr(np.random.default_rng(0).standard_normal((len(matrix), count)))[0]
        vectors = coordinate_power_smallest(matrix, guess, tolerance)
    else:
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
