"""Rosenbrock's valley with exact Hessian and Gauss-Newton products.

A sum of squares from the collection of Moré, Garbow and Hillstrom (1981).
"""

from typing import Annotated, ClassVar

import numpy as np
from scipy.optimize import rosen, rosen_der, rosen_hess_prod

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
        return float(rosen(x[:, 0]))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        return self.value(x), rosen_der(x[:, 0])[:, None]

    def hessian_product(self, x: Array, direction: Array) -> Array:
        """``2 (J'J + sum r_i D^2 r_i) v``."""
        return np.asarray(rosen_hess_prod(x[:, 0], direction[:, 0]))[:, None]

    def gauss_newton_product(self, x: Array, direction: Array) -> Array:
        """``2 J'J v``, without the curvature of the valley's residuals ``10 (x[i+1] - x[i]^2)``."""
        product = self.hessian_product(x, direction)
        product[:-1] += 400.0 * (x[1:] - x[:-1] ** 2) * direction[:-1]
        return product


def build_rosenbrock(
    dataset: Dataset | None,
    comm: MPI.Comm,
    *,
    size: Annotated[int, Help("number of variables", minimum=2)] = 2,
) -> Rosenbrock:
    """Objective ``rosenbrock``."""
    return Rosenbrock(comm, size)
