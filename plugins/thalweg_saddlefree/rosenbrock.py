"""Rosenbrock's valley with exact Hessian and Gauss-Newton products.

A sum of squares from the collection of Moré, Garbow and Hillstrom (1981).
"""

from typing import Annotated, ClassVar

import numpy as np

from thalweg.data import Dataset
from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Layout
from thalweg.plugins import Help


class Rosenbrock(Objective, HessianProduct, GaussNewtonProduct):
    """``r'r = sum 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2``, minimum 0 at (1, ..., 1).

    Every rank has all ``size`` variables and does the same work.
    """

    default_solver: ClassVar[str] = "saddle-free"

    def __init__(self, comm: MPI.Comm, size: int) -> None:
        super().__init__(comm, Layout(MPI.COMM_SELF, size))

    def initial_point(self, seed: int) -> Array:
        """The customary start, whatever the seed."""
        return np.resize([-1.2, 1.0], self.layout.shape)

    def value(self, x: Array) -> float:
        r = self._residuals(x).ravel()
        return float(r @ r)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        return self.value(x), 2.0 * self._backward(x, self._residuals(x))

    def gauss_newton_product(self, x: Array, direction: Array) -> Array:
        """``2 J'J v``."""
        valley = 10.0 * (direction[1:] - 2.0 * x[:-1] * direction[:-1])
        return 2.0 * self._backward(x, np.concatenate([valley, -direction[:-1]]))

    def hessian_product(self, x: Array, direction: Array) -> Array:
        """``2 (J'J + sum r_i D^2 r_i) v``; only the valley residuals are not linear."""
        product = self.gauss_newton_product(x, direction)
        valley, _ = np.split(self._residuals(x), 2)
        product[:-1] -= 40.0 * valley * direction[:-1]
        return product

    def _residuals(self, x: Array) -> Array:
        """The n - 1 valley residuals, then the n - 1 slope residuals."""
        return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])

    def _backward(self, x: Array, r: Array) -> Array:
        """Transposed Jacobian times r."""
        valley, slope = np.split(r, 2)
        product = np.zeros_like(x)
        product[1:] = 10.0 * valley
        product[:-1] -= 20.0 * x[:-1] * valley + slope
        return product


def build_rosenbrock(
    dataset: Dataset | None,
    comm: MPI.Comm,
    *,
    size: Annotated[int, Help("number of variables", minimum=2)] = 2,
) -> Rosenbrock:
    """Objective ``rosenbrock``."""
    return Rosenbrock(comm, size)
