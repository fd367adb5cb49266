"""Activation functions and losses of a network, with their derivatives."""

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


class Loss(Identified, ABC):
    """A loss of the last layer's z, summed over rows; arrays have shape ``(rows, outputs)``.

    ``output`` is what the network answers, computed once from z and handed to the other methods.
    """

    @abstractmethod
    def output(self, z: np.ndarray) -> np.ndarray:
        """The network's answer; may be ``z`` itself, overwritten only by :meth:`delta`."""

    @abstractmethod
    def total(self, z: np.ndarray, output: np.ndarray, target: np.ndarray) -> float:
        """Sum of the losses of the rows, in float64."""

    def delta(self, output: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Derivative of the loss by z, a new array; here that of a cross-entropy."""
        return output - target

    def hessian(self, output: np.ndarray, delta: np.ndarray, rz: np.ndarray) -> np.ndarray:
        """Second derivative by z, times ``rz``, row by row; here that of a loss convex in z."""
        return self.gauss_newton(output, rz)

    @abstractmethod
    def gauss_newton(self, output: np.ndarray, rz: np.ndarray) -> np.ndarray:
        """Its positive semidefinite part, times ``rz``."""

    @abstractmethod
    def fisher_sample(self, output: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Vectors of mean zero whose covariance is the matrix of :meth:`gauss_newton`.

        ``signs`` are independent random numbers of mean 0 and variance 1.
        """


class SquaredError(Loss):
    """``|output - target|^2 / 2`` with any activation on the output."""

    def __init__(self, activation: Activation) -> None:
        self.activation = activation

    def output(self, z: np.ndarray) -> np.ndarray:
        output = z.copy()
        self.activation.apply(output)
        return output

    def total(self, z: np.ndarray, output: np.ndarray, target: np.ndarray) -> float:
        gap = output - target
        return 0.5 * float(np.einsum("ij,ij->", gap, gap, dtype=np.float64))

    def delta(self, output: np.ndarray, target: np.ndarray) -> np.ndarray:
        delta = output - target
        self.activation.times_slope(output, delta)
        return delta

    def hessian(self, output: np.ndarray, delta: np.ndarray, rz: np.ndarray) -> np.ndarray:
        """``(phi'^2 + phi'' (output - target)) rz``, the latter being ``second * delta``."""
        product = self.gauss_newton(output, rz)
        second = self.activation.second_derivative(output)
        if second is not None:
            product += second * delta * rz
        return product

    def gauss_newton(self, output: np.ndarray, rz: np.ndarray) -> np.ndarray:
        product = rz.copy()
        self.activation.times_slope(output, product)
        self.activation.times_slope(output, product)
        return product

    def fisher_sample(self, output: np.ndarray, signs: np.ndarray) -> np.ndarray:
        sample = signs.copy()
        self.activation.times_slope(output, sample)
        return sample


class LogisticCrossEntropy(Loss):
    """``-sum t log s(z) + (1 - t) log(1 - s(z))`` with the logistic function s."""

    def output(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(expit(z))

    def total(self, z: np.ndarray, output: np.ndarray, target: np.ndarray) -> float:
        """Sum of ``log(1 + exp(z)) - t z``, without overflow."""
        return float(np.logaddexp(0, z).sum(dtype=np.float64)) - float(
            np.einsum("ij,ij->", target, z, dtype=np.float64)
        )

    def gauss_newton(self, output: np.ndarray, rz: np.ndarray) -> np.ndarray:
        return np.asarray(output * (1 - output) * rz)

    def fisher_sample(self, output: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(output * (1 - output)) * signs)


class SoftmaxCrossEntropy(Loss):
    """``-sum t log p`` with ``p = softmax(z)`` and t a one-hot row."""

    def output(self, z: np.ndarray) -> np.ndarray:
        shifted = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    def total(self, z: np.ndarray, output: np.ndarray, target: np.ndarray) -> float:
        """Sum of ``log sum exp(z) - t z``."""
        top = z.max(axis=1, keepdims=True)
        logs = np.log(np.exp(z - top).sum(axis=1, keepdims=True)) + top
        return float((logs - (target * z).sum(axis=1, keepdims=True)).sum(dtype=np.float64))

    def gauss_newton(self, output: np.ndarray, rz: np.ndarray) -> np.ndarray:
        weighted = output * rz
        return np.asarray(weighted - output * weighted.sum(axis=1, keepdims=True))

    def fisher_sample(self, output: np.ndarray, signs: np.ndarray) -> np.ndarray:
        scaled = np.sqrt(output) * signs
        return np.asarray(scaled - output * scaled.sum(axis=1, keepdims=True))
