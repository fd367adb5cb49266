"""What an objective offers to the engine: products with its Hessian, and the diagonal."""

from abc import abstractmethod

from thalweg.capability import Capability
from thalweg.parallel import Array


class HessianProduct(Capability):
    """Products with the Hessian, which is never formed."""

    phrase = "Hessian product"

    @abstractmethod
    def hessian_product(self, x: Array, direction: Array) -> Array:
        """``H(x) direction``."""


class GaussNewtonProduct(Capability):
    """Products with a positive semidefinite Gauss-Newton matrix."""

    phrase = "Gauss-Newton product"

    @abstractmethod
    def gauss_newton_product(self, x: Array, direction: Array) -> Array:
        """``G(x) direction``."""


class HessianDiagonal(Capability):
    """The diagonal of the Hessian."""

    phrase = "Hessian diagonal"

    @abstractmethod
    def hessian_diagonal(self, x: Array) -> Array:
        """The diagonal of the Hessian, entries of either sign, laid out as ``x``."""
