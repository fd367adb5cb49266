"""Functions with known saddle points: each a JAX function, and a start close to a saddle."""

from __future__ import annotations

import numpy as np

from thalweg.parallel import MPI
from thalweg_saddlefree.jax_objective import JaxObjective, import_jax


def monkey_saddle() -> JaxObjective:
    """``x^3 - 3 x y^2 + (x^2 + y^2)^2 / 4``: three valleys meet where even the Hessian is zero.

    The quartic term bounds it below: three minima of value -27/4 at distance 3.
    """

    def function(x):
        return x[0] ** 3 - 3 * x[0] * x[1] ** 2 + (x @ x) ** 2 / 4

    return JaxObjective(MPI.COMM_SELF, function, np.array([0.01, 0.002]))


def styblinski_tang(size: int) -> JaxObjective:
    """``sum (x^4 - 16 x^2 + 5 x) / 2``: 3^n stationary points, all but 2^n of them no minima.

    The global minimum, about -39.166 a variable, is at -2.9035; the start is close to the
    maximum of every term, at 0.1569.
    """

    def function(x):
        return 0.5 * (x**4 - 16 * x**2 + 5 * x).sum()

    return JaxObjective(MPI.COMM_SELF, function, 0.157 + 1e-3 * np.cos(np.arange(size)))


def ginzburg_landau(size: int) -> JaxObjective:
    """A chain of double wells, ``h sum (x^2 - 1)^2 / 4 + (e^2 / 2 h) sum (x[i+1] - x[i])^2``.

    On the unit interval, h = 1 / n, e = 1/10. Zero is a saddle with four descending
    directions; the minima are the constants 1 and -1, of value 0.
    """
    h, width = 1.0 / size, 0.1
    numpy = import_jax().numpy

    def function(x):
        bends = (numpy.diff(x) ** 2).sum()
        return 0.25 * h * ((x**2 - 1) ** 2).sum() + 0.5 * width**2 / h * bends

    return JaxObjective(MPI.COMM_SELF, function, 1e-3 * np.cos(7.0 * np.arange(size) ** 1.5))
