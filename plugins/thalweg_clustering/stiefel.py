"""The Stiefel manifold, and objectives whose stationary points are eigenvectors."""

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.linalg

from thalweg.interfaces import Manifold, ManifoldVariable
from thalweg.parallel import Array, Layout, sum_over_ranks


class Stiefel(Manifold):
    """Matrices with orthonormal columns: ``X'X = I``.

    Parameters
    ----------
    layout
        Layout of the variable, with at least as many rows as columns.  The rows may be
        distributed: only matrices of the size of the columns are summed over the ranks.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def project(self, x: Array, direction: Array) -> Array:
        """``Z - X sym(X'Z)`` (Absil et al., eq. (3.35))."""
        inner = self._product(x, direction)
        return direction - x @ (0.5 * (inner + inner.T))

    def retract(self, x: Array, direction: Array, step: float) -> Array:
        """Orthonormal factor of ``X + step Z``, by two Cholesky QR steps.

        The factor whose triangle has a positive diagonal is the retraction of eq. (4.8); the
        second step makes it orthonormal to rounding.
        """
        return self.orthonormal(x + step * direction)

    def orthonormal(self, block: Array) -> Array:
        """Orthonormal factor of a matrix of full rank, of which ``block`` are this rank's rows."""
        for _ in range(2):
            block = np.linalg.solve(np.linalg.cholesky(self._product(block, block)), block.T).T
        return block

    def distance(self, x: Array) -> float:
        """Frobenius norm of ``X'X - I``."""
        gram = self._product(x, x)
        return float(np.linalg.norm(gram - np.eye(len(gram))))

    def _product(self, left: Array, right: Array) -> np.ndarray:
        local = left.T @ right
        if self.layout.replicated:
            return np.asarray(local)
        return np.asarray(sum_over_ranks(self.layout.comm, local))


class StiefelVariable(ManifoldVariable):
    """The variable is a matrix with orthonormal columns."""

    phrase = "variable with orthonormal columns"

    layout: Layout  # layout of the variable, as every objective has it

    @property
    def manifold(self) -> Stiefel:
        return Stiefel(self.layout)


class EigenvectorFixedPoint(StiefelVariable):
    """Stationary points are eigenvectors of a matrix that depends on them.

    KDAC: W is stationary when its columns are eigenvectors of Phi(W).
    """

    phrase = "fixed point of eigenvectors"

    @abstractmethod
    def value_and_fixed_point_matrix(self, x: Array) -> tuple[float, np.ndarray]:
        """Objective and Phi(x), symmetric, shape ``(layout.rows,) * 2``, equal on all ranks.

        The gradient is Phi(x) x.
        """

    def fixed_point_matrix(self, x: Array) -> np.ndarray:
        """Phi(x)."""
        return self.value_and_fixed_point_matrix(x)[1]

    @classmethod
    def check(cls, objective: Any, x: Array) -> None:
        """Check that Phi(x) is symmetric, and that the gradient is Phi(x) x.  Collective."""
        matrix = objective.fixed_point_matrix(x)
        rows = objective.layout.rows
        assert matrix.shape == (rows, rows), f"Phi has shape {matrix.shape}, not {(rows, rows)}"
        size = np.abs(matrix).max(initial=1e-300)
        gap = np.abs(matrix - matrix.T).max(initial=0.0) / size
        assert gap <= 1e-10, f"Phi is not symmetric: entries differ by {gap:.1e} relative"
        value, gradient = objective.value_and_gradient(x)
        expected = matrix @ objective.layout.gather_rows(x)
        size = max(float(np.linalg.norm(expected)), 1e-300)
        gap = float(np.linalg.norm(objective.layout.gather_rows(gradient) - expected)) / size
        allowed = max(1e-8, objective.value_error(value) / max(abs(value), 1e-300))
        assert gap <= allowed, f"the gradient differs from Phi(x) x by {gap:.1e} relative"


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
