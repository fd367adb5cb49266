"""Activation functions, with derivatives written in terms of their own value."""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit

from thalweg.parallel import Identified


class Activation(Identified, ABC):
    """``a = phi(z)``, applied to arrays in place."""

    @abstractmethod
    def apply(self, z: np.ndarray) -> None:
        """Overwrite ``z`` with ``phi(z)``."""

    @abstractmethod
    def times_slope(self, a: np.ndarray, values: np.ndarray) -> None:
        """Multiply ``values`` by ``phi'(z)``, given ``a = phi(z)``."""

    def second_derivative(self, a: np.ndarray) -> np.ndarray | None:
        """``phi''(z) / phi'(z)``, given ``a = phi(z)``; None if it is zero everywhere."""
        return None


class Tanh(Activation):
    """Hyperbolic tangent."""

    def apply(self, z: np.ndarray) -> None:
        np.tanh(z, out=z)

    def times_slope(self, a: np.ndarray, values: np.ndarray) -> None:
        values *= 1 - a * a

    def second_derivative(self, a: np.ndarray) -> np.ndarray:
        return -2 * a


class Sigmoid(Activation):
    """Logistic function."""

    def apply(self, z: np.ndarray) -> None:
        expit(z, out=z)

    def times_slope(self, a: np.ndarray, values: np.ndarray) -> None:
        values *= a - a * a

    def second_derivative(self, a: np.ndarray) -> np.ndarray:
        return 1 - 2 * a


class Relu(Activation):
    """Positive part; its slope at zero is taken as zero."""

    def apply(self, z: np.ndarray) -> None:
        np.maximum(z, 0, out=z)

    def times_slope(self, a: np.ndarray, values: np.ndarray) -> None:
        values *= a > 0


class Linear(Activation):
    """The identity."""

    def apply(self, z: np.ndarray) -> None:
        """Leave ``z`` as it is."""

    def times_slope(self, a: np.ndarray, values: np.ndarray) -> None:
        """Leave ``values`` as they are."""


#: Activations by the name that users write.
ACTIVATIONS: dict[str, Activation] = {
    "tanh": Tanh(),
    "sigmoid": Sigmoid(),
    "relu": Relu(),
    "linear": Linear(),
}
