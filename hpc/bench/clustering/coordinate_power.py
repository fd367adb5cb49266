"""Coordinate-wise power method for the eigenvectors of the smallest eigenvalues.

Lei, Zhong and Dhillon, "Coordinate-wise Power Method" (2016): keep z = A x, and
instead of replacing x by z renew only those coordinates that a power step would
change most; each costs one column of A.  Here A = c I - M with c above M's
largest eigenvalue, and eigenvectors follow one another by deflation.
"""

import numpy as np
import scipy.sparse.linalg

from thalweg.parallel import kernel

#: Share of the coordinates that a step renews.
SHARE = 8

#: Standard deviation of what is added to a coordinate of the guess.
NOISE = 1e-2


def coordinate_power_smallest(
    matrix: np.ndarray, guess: np.ndarray, tolerance: float = 1e-8, sweeps: int = 2000
) -> np.ndarray:
    """Orthonormal vectors of about the smallest eigenvalues of M, of shape ``(d, d)``.

    They start from ``guess``, shape ``(d, q)``, to which a little noise is added: the span of
    eigenvectors, be they the wanted ones or not, would not be left.  They end at a residual
    relative to M's norm of a tenth of ``tolerance``, or after ``sweeps`` updates of each vector,
    counted in d coordinates: the power method on c I - M is slow where the wanted eigenvalue is
    close to the next one in units of the spectrum's spread.
    """
    d, count = guess.shape
    noise = NOISE * np.random.default_rng(0).standard_normal((d, count))
    shifted = _largest_eigenvalue(matrix) * np.eye(d) - matrix
    step = max(1, d // SHARE)
    vectors = np.zeros((d, count))
    for index in range(count):
        known = vectors[:, :index]
        x = guess[:, index] + noise[:, index]
        x = x - known @ (known.T @ x)
        x = x / np.linalg.norm(x)
        rayleigh = np.einsum("ij,ij->j", known, shifted @ known)
        deflated = np.ascontiguousarray(shifted - (known * rayleigh) @ known.T)
        x = _iterate(deflated, x, step, 0.1 * float(tolerance), int(sweeps))
        x = x - known @ (known.T @ x)
        vectors[:, index] = x / np.linalg.norm(x)
    # Rayleigh-Ritz puts the vectors in order and removes what deflation left over.
    frame = np.linalg.qr(vectors)[0]
    return np.asarray(frame @ np.linalg.eigh(frame.T @ matrix @ frame)[1])


def _largest_eigenvalue(matrix: np.ndarray) -> float:
    """About the largest eigenvalue, from above: a Ritz value of Lanczos' method, and its error.

    With less, the power method would find the eigenvector of the largest eigenvalue instead.
    """
    if not matrix.any():
        return 0.0
    start = np.random.default_rng(1).standard_normal(len(matrix))
    value, vector = scipy.sparse.linalg.eigsh(matrix, 1, which="LA", v0=start, tol=1e-2)
    return float(value[0] + np.linalg.norm(matrix @ vector - value * vector))


@kernel()
def _iterate(
    matrix: np.ndarray, start: np.ndarray, step: int, tolerance: float, sweeps: int
) -> np.ndarray:
    x = start.copy()
    z = matrix @ x
    for _ in range(0, sweeps * len(x), step):
        length = x @ x
        value = (x @ z) / length
        residual = np.sqrt(max(z @ z - value * value * length, 0.0))
        if residual <= tolerance * abs(value) * np.sqrt(length) or value == 0.0:
            break
        change = z / value - x
        for i in np.argsort(-np.abs(change))[:step]:
            x[i] += change[i]
            z += change[i] * matrix[i]
    return x / np.sqrt(np.sum(x * x))
