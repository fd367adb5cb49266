"""A small problem that offers what most preconditioners and solvers ask for."""

import numpy as np
import scipy.sparse

from thalweg.engines.hessian import GaussNewtonProduct, HessianDiagonal, HessianProduct
from thalweg.engines.laplacian import AttractiveLaplacian
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Layout, sum_over_ranks

LOG_2 = float(np.log(2.0))


class SpringProblem(
    Objective, HessianProduct, GaussNewtonProduct, HessianDiagonal, AttractiveLaplacian
):
    """Points on a ring of springs, each held near a place of its own: smooth and convex.

    ``f(X) = sum_(i<j) 2 w_ij |x_i - x_j|² + sum_i log cosh(x_i - t_i)``, with
    weights on a ring; the Hessian is ``4 L`` plus a diagonal between 0 and 1.

    Parameters
    ----------
    comm
        The ranks that share the rows.
    rows, columns
        Number of points, and of their coordinates.
    """

    def __init__(self, comm: MPI.Comm, rows: int = 24, columns: int = 2) -> None:
        super().__init__(comm, Layout(comm, rows, columns))
        self.places = 2.0 * self.layout.random_normal(7)
        numbers = np.arange(rows)
        strengths = 0.5 + numbers % 3
        ring = scipy.sparse.csr_matrix((strengths, (numbers, (numbers + 1) % rows)), (rows, rows))
        self._weights = (ring + ring.T).tocsr()[self.layout.start : self.layout.stop]
        self._degrees = np.asarray(self._weights.sum(axis=1)).reshape(-1, 1)

    def _springs(self, rows: np.ndarray) -> np.ndarray:
        """This rank's rows of ``4 L X``."""
        return 4.0 * (self._degrees * rows - self._weights @ self.layout.gather_rows(rows))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """Objective and gradient."""
        away = x - self.places
        gradient = self._springs(x)
        value = 0.5 * float(np.vdot(x, gradient))
        gradient += np.tanh(away)
        local = value + (np.logaddexp(away, -away) - LOG_2).sum()
        return float(sum_over_ranks(self.comm, local)), gradient

    def _curvature(self, x: Array) -> Array:
        return np.asarray(1.0 - np.tanh(x - self.places) ** 2)

    def hessian_product(self, x: Array, direction: Array) -> Array:
        """``(4 L + D) direction``."""
        return self._springs(direction) + self._curvature(x) * direction

    def gauss_newton_product(self, x: Array, direction: Array) -> Array:
        """The Hessian itself, since it is positive definite."""
        return self.hessian_product(x, direction)

    def hessian_diagonal(self, x: Array) -> Array:
        """Diagonal of ``4 L + D``."""
        return np.asarray(4.0 * self._degrees + self._curvature(x))

    def attractive_weights(self, x: Array) -> scipy.sparse.csr_matrix:
        """The ring's weights."""
        return self._weights
