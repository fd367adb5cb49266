"""The Stiefel manifold, and objectives whose stationary points are eigenvectors."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from thalweg.interfaces import Manifold, ManifoldVariable
from thalweg.parallel import Layout, Vector, sum_over_ranks


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

    def project(self, x: Vector, direction: Vector) -> None:
        """``Z - X sym(X'Z)`` (Absil et al., eq. (3.35))."""
        with self.layout.writing(direction) as block:
            block[...] = self.tangent(self.layout.reading(x), block)

    def tangent(self, rows: np.ndarray, block: np.ndarray) -> np.ndarray:
        """:meth:`project` for arrays: this rank's rows of the point and of the direction."""
        inner = self._product(rows, block)
        return np.asarray(block - rows @ (0.5 * (inner + inner.T)))

    def retract(self, x: Vector, direction: Vector, step: float, moved: Vector) -> None:
        """Orthonormal factor of ``X + step Z``, by two Cholesky QR steps.

        The factor whose triangle has a positive diagonal is the retraction of eq. (4.8); the
        second step makes it orthonormal to rounding.
        """
        moved.waxpy(step, direction, x)
        with self.layout.writing(moved) as block:
            block[...] = self.orthonormal(block)

    def orthonormal(self, block: np.ndarray) -> np.ndarray:
        """Orthonormal factor of a matrix of full rank, of which ``block`` are this rank's rows."""
        for _ in range(2):
            gram = self._product(block, block)
            block = np.linalg.solve(np.linalg.cholesky(gram), block.T).T
        return block

    def distance(self, x: Vector) -> float:
        """Frobenius norm of ``X'X - I``."""
        rows = self.layout.reading(x)
        gram = self._product(rows, rows)
        return float(np.linalg.norm(gram - np.eye(len(gram))))

    def _product(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        local = left.T @ right
        if self.layout.replicated:
            return np.asarray(local)
        return np.asarray(sum_over_ranks(self.layout.comm, local))


class StiefelVariable(ManifoldVariable):
    """The variable is a matrix with orthonormal columns."""

    phrase = "variable with orthonormal columns"

    #: Layout of the variable, as every objective has it.
    layout: Layout

    @property
    def manifold(self) -> Stiefel:
        """Matrices with orthonormal columns."""
        return Stiefel(self.layout)


class EigenvectorFixedPoint(StiefelVariable):
    """Stationary points are eigenvectors of a matrix that depends on them.

    KDAC: W is stationary when its columns are eigenvectors of Phi(W).
    """

    phrase = "fixed point of eigenvectors"

    @abstractmethod
    def fixed_point_matrix(self, x: Vector) -> np.ndarray:
        """Phi(x), symmetric, shape ``(layout.rows, layout.rows)``, equal on all ranks.

        The gradient is Phi(x) x.
        """

    def value_and_fixed_point_matrix(self, x: Vector) -> tuple[float, np.ndarray]:
        """Objective and Phi(x); overridden where one pass over the data gives both."""
        return self.value(x), self.fixed_point_matrix(x)

    @abstractmethod
    def value(self, x: Vector) -> float:
        """Objective at ``x``."""

    @classmethod
    def check(cls, objective: Any, x: Vector) -> None:
        """Check that Phi(x) is symmetric, and that the gradient is Phi(x) x.  Collective."""
        from thalweg.testing import poisoned

        matrix = objective.fixed_point_matrix(x)
        rows = objective.layout.rows
        assert matrix.shape == (rows, rows), f"Phi has shape {matrix.shape}, not {(rows, rows)}"
        size = np.abs(matrix).max(initial=1e-300)
        gap = np.abs(matrix - matrix.T).max(initial=0.0) / size
        assert gap <= 1e-10, f"Phi is not symmetric: entries differ by {gap:.1e} relative"
        gradient = poisoned(x)
        objective.value_and_gradient(x, gradient)
        found = objective.layout.gather(gradient)
        wanted = matrix @ objective.layout.gather(x)
        gap = float(np.linalg.norm(found - wanted)) / max(float(np.linalg.norm(wanted)), 1e-300)
        assert gap <= 1e-8, f"the gradient differs from Phi(x) x by {gap:.1e} relative"
