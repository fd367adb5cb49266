"""Classical test functions with exact Hessian products: valleys, saddles, flat minima.

The sums of squares are from the collection of Moré, Garbow and Hillstrom (1981); the saddle points
of the others are known exactly.
"""

import functools
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

import numpy as np

from thalweg.data import Dataset
from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Identified, Layout
from thalweg.plugins import Help


class Function(Identified, ABC):
    """A twice differentiable function of ``size`` numbers; arrays have shape ``(size,)``."""

    least: ClassVar[int] = 1

    def __init__(self, size: int) -> None:
        if size < self.least:
            name = type(self).__name__
            raise InputError(f"{name} needs a size of at least {self.least}, not {size}")
        self.size = size

    @abstractmethod
    def start(self) -> np.ndarray:
        """The customary starting point."""

    @abstractmethod
    def value(self, x: np.ndarray) -> float:
        """f(x)."""

    @abstractmethod
    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient at x."""

    @abstractmethod
    def hessian_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Hessian at x times v."""


class FunctionObjective(Objective, HessianProduct):
    """Objective of a :class:`Function`, the same work on every rank.

    ``spread`` is the standard deviation of a seeded normal shift of the customary start.
    """

    default_solver: ClassVar[str] = "saddle-free"

    def __init__(self, comm: MPI.Comm, function: Function, spread: float = 0.0) -> None:
        super().__init__(comm, Layout(MPI.COMM_SELF, function.size))
        self.function = function
        self.spread = spread

    def initial_point(self, seed: int) -> Array:
        """The customary start, shifted at random if a spread is given."""
        start = self.function.start()[:, None]
        return start + self.layout.random_normal(seed, self.spread)

    def value(self, x: Array) -> float:
        return float(self.function.value(x[:, 0]))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        return self.value(x), self.function.gradient(x[:, 0])[:, None]

    def hessian_product(self, x: Array, direction: Array) -> Array:
        return self.function.hessian_product(x[:, 0], direction[:, 0])[:, None]


class RosenbrockObjective(FunctionObjective, GaussNewtonProduct):
    """The same for a sum of squares, with Gauss-Newton products."""

    function: "Rosenbrock"

    def gauss_newton_product(self, x: Array, direction: Array) -> Array:
        return self.function.gauss_newton_product(x[:, 0], direction[:, 0])[:, None]


class Rosenbrock(Function):
    """``r'r = sum 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2``, minimum 0 at (1, ..., 1)."""

    least = 2

    def start(self) -> np.ndarray:
        return np.resize([-1.2, 1.0], self.size)

    def value(self, x: np.ndarray) -> float:
        r = self.residuals(x)
        return float(r @ r)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return 2.0 * self.backward(x, self.residuals(x))

    def gauss_newton_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """``2 J'J v``."""
        return 2.0 * self.backward(x, self.forward(x, v))

    def hessian_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """``2 (J'J + sum r_i D^2 r_i) v``; only the valley residuals are not linear."""
        bent = -20.0 * self.residuals(x)[: self.size - 1] * v[:-1]
        return self.gauss_newton_product(x, v) + 2.0 * np.append(bent, 0.0)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """The n - 1 valley residuals, then the n - 1 slope residuals."""
        return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])

    def forward(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Jacobian times v."""
        return np.concatenate([10.0 * (v[1:] - 2.0 * x[:-1] * v[:-1]), -v[:-1]])

    def backward(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Transposed Jacobian times r."""
        valley, slope = np.split(r, 2)
        falling = 20.0 * x[:-1] * valley + slope
        return np.append(0.0, 10.0 * valley) - np.append(falling, 0.0)


class MonkeySaddle(Function):
    """``x^3 - 3 x y^2 + (x^2 + y^2)^2 / 4``: three valleys meet where even the Hessian is zero.

    The quartic term bounds it below: three minima of value -27/4 at distance 3.
    """

    def start(self) -> np.ndarray:
        """Close to the saddle, on no axis of symmetry."""
        return np.array([0.01, 0.002])

    def value(self, x: np.ndarray) -> float:
        a, b = x
        return float(a**3 - 3 * a * b**2 + (a**2 + b**2) ** 2 / 4)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        a, b = x
        return np.array([3 * a**2 - 3 * b**2, -6 * a * b]) + (a**2 + b**2) * x

    def hessian_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        a, b = x
        cubic = np.array([6 * a * v[0] - 6 * b * v[1], -6 * b * v[0] - 6 * a * v[1]])
        return np.asarray(cubic + (a**2 + b**2) * v + 2.0 * x * (x @ v))


class StyblinskiTang(Function):
    """``sum (x^4 - 16 x^2 + 5 x) / 2``: 3^n stationary points, all but 2^n of them no minima.

    The global minimum, about -39.166 a variable, is at -2.9035.
    """

    def start(self) -> np.ndarray:
        """Close to the maximum of every term, at 0.1569."""
        return np.full(self.size, 0.157) + 1e-3 * np.cos(np.arange(self.size))

    def value(self, x: np.ndarray) -> float:
        return float(0.5 * (x**4 - 16 * x**2 + 5 * x).sum())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(2 * x**3 - 16 * x + 2.5)

    def hessian_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray((6 * x**2 - 16) * v)


class GinzburgLandau(Function):
    """A chain of double wells, ``h sum (x^2 - 1)^2 / 4 + (e^2 / 2 h) sum (x[i+1] - x[i])^2``.

    On the unit interval, h = 1 / n, e = 1/10. Zero is a saddle with four descending
    directions; the minima are the constants 1 and -1, of value 0.
    """

    width = 0.1

    def start(self) -> np.ndarray:
        """Close to the saddle."""
        return 1e-3 * np.cos(7.0 * np.arange(self.size) ** 1.5)

    def value(self, x: np.ndarray) -> float:
        h = 1.0 / self.size
        return float(
            0.25 * h * ((x**2 - 1) ** 2).sum() + 0.5 * self.width**2 / h * (np.diff(x) ** 2).sum()
        )

    def gradient(self, x: np.ndarray) -> np.ndarray:
        h = 1.0 / self.size
        return np.asarray(h * x * (x**2 - 1) + self.width**2 / h * _path_laplacian(x))

    def hessian_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        h = 1.0 / self.size
        return np.asarray(h * (3 * x**2 - 1) * v + self.width**2 / h * _path_laplacian(v))


def _path_laplacian(x: np.ndarray) -> np.ndarray:
    return -np.diff(np.diff(x), prepend=0.0, append=0.0)


Spread = Annotated[float, Help("standard deviation of a random shift of the start", minimum=0.0)]


def _of_any_size(
    function: type[Function],
    dataset: Dataset | None,
    comm: MPI.Comm,
    *,
    size: Annotated[int, Help("number of variables", minimum=1)] = 100,
    spread: Spread = 0.0,
) -> FunctionObjective:
    """Objective of a function of any number of variables."""
    kind = RosenbrockObjective if function is Rosenbrock else FunctionObjective
    return kind(comm, function(size), spread)


def build_monkey_saddle(
    dataset: Dataset | None, comm: MPI.Comm, *, spread: Spread = 0.0
) -> FunctionObjective:
    """Objective ``monkey-saddle``."""
    return FunctionObjective(comm, MonkeySaddle(2), spread)


build_rosenbrock = functools.partial(_of_any_size, Rosenbrock, size=2)
build_styblinski_tang = functools.partial(_of_any_size, StyblinskiTang, size=20)
build_ginzburg_landau = functools.partial(_of_any_size, GinzburgLandau)
