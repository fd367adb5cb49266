"""Eigenvectors of the smallest eigenvalues of a small symmetric matrix, by four methods."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from thalweg_clustering.coordinate_power import coordinate_power_smallest


def smallest_eigenvectors(
    matrix: np.ndarray,
    count: int,
    solver: str = "lapack",
    guess: np.ndarray | None = None,
    tolerance: float = 1e-8,
) -> np.ndarray:
    """Orthonormal eigenvectors of the ``count`` smallest eigenvalues, ascending.

    By LAPACK, or to a relative residual of ``tolerance``, from ``guess``, shape ``(d, count)``, by
    ``"lobpcg"`` (SciPy), ``"cpm"`` (coordinate-wise power method) or ``"slepc"``.  Each is signed
    so that its largest entry is positive.
    """
    d = len(matrix)
    if guess is None and solver != "lapack":
        guess = np.linalg.qr(np.random.default_rng(0).standard_normal((d, count)))[0]
    if solver == "cpm":
        assert guess is not None
        vectors = coordinate_power_smallest(matrix, guess, tolerance)
    elif solver == "slepc":
        vectors = _by_slepc(matrix, count, guess, tolerance)
    elif solver == "lobpcg" and 5 * count < d:
        vectors = _by_lobpcg(matrix, guess, tolerance)
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


def _by_lobpcg(matrix: np.ndarray, guess: np.ndarray | None, tolerance: float) -> np.ndarray:
    scale = float(np.abs(matrix).sum(axis=1).max()) or 1.0
    with warnings.catch_warnings():
        # A residual above the tolerance is no harm: the outer iteration checks the decrease.
        warnings.simplefilter("ignore")
        _, vectors = scipy.sparse.linalg.lobpcg(
            matrix, guess, tol=tolerance * scale, maxiter=500, largest=False
        )
    return np.asarray(np.linalg.qr(vectors)[0])


def _by_slepc(
    matrix: np.ndarray, count: int, guess: np.ndarray | None, tolerance: float
) -> np.ndarray:
    from thalweg.parallel import MPI, Layout
    from thalweg_clustering.leading_subspace import slepc_leading

    layout = Layout(MPI.COMM_SELF, len(matrix))
    assert guess is not None
    start = guess.sum(axis=1, keepdims=True)
    return slepc_leading(layout, lambda block: -(matrix @ block), start, count, tolerance).vectors
