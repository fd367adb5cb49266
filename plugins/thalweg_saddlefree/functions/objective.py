"""A function of a few replicated numbers as an objective."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Identified, Layout


class Function(Identified, ABC):
    """A twice differentiable function of ``size`` numbers; arrays have shape ``(size,)``."""

    #: Least size, of which every size must be a multiple where ``in_groups``.
    least: ClassVar[int] = 1
    in_groups: ClassVar[bool] = False

    def __init__(self, size: int) -> None:
        name = type(self).__name__
        if size < self.least:
            raise InputError(f"{name} needs a size of at least {self.least}, not {size}")
        if self.in_groups and size % self.least:
            raise InputError(f"{name} needs a size that is a multiple of {self.least}, not {size}")
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


class LeastSquares(Function):
    """A sum of squared residuals: ``f = r'r``, so that Gauss-Newton has a meaning."""

    @abstractmethod
    def residuals(self, x: np.ndarray) -> np.ndarray:
        """r(x)."""

    @abstractmethod
    def forward(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Jacobian times v."""

    @abstractmethod
    def backward(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Transposed Jacobian times r."""

    @abstractmethod
    def second_order_term(self, x: np.ndarray, r: np.ndarray, v: np.ndarray) -> np.ndarray:
        """``sum_i r_i (second derivative of residual i) v``."""

    def value(self, x: np.ndarray) -> float:
        """Sum of squares."""
        r = self.residuals(x)
        return float(r @ r)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """``2 J'r``."""
        return 2.0 * self.backward(x, self.residuals(x))

    def gauss_newton_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """``2 J'J v``."""
        return 2.0 * self.backward(x, self.forward(x, v))

    def hessian_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """``2 (J'J + sum r_i D^2 r_i) v``."""
        return self.gauss_newton_product(x, v) + 2.0 * self.second_order_term(
            x, self.residuals(x), v
        )


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


class LeastSquaresObjective(FunctionObjective, GaussNewtonProduct):
    """The same for a sum of squares, with Gauss-Newton products."""

    function: LeastSquares

    def gauss_newton_product(self, x: Array, direction: Array) -> Array:
        return self.function.gauss_newton_product(x[:, 0], direction[:, 0])[:, None]
