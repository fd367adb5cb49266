"""Functions with saddle points that are known exactly."""

import numpy as np

from thalweg_saddlefree.functions.objective import Function


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


class Himmelblau(Function):
    """``(x^2 + y - 11)^2 + (x + y^2 - 7)^2``: four minima of value 0, four saddles, a maximum."""

    def start(self) -> np.ndarray:
        """Close to the saddle at (0.0867, 2.8843)."""
        return np.array([0.09, 2.88])

    def value(self, x: np.ndarray) -> float:
        a, b = x
        return float((a**2 + b - 11) ** 2 + (a + b**2 - 7) ** 2)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        a, b = x
        p, q = a**2 + b - 11, a + b**2 - 7
        return np.array([4 * a * p + 2 * q, 2 * p + 4 * b * q])

    def hessian_product(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        a, b = x
        p, q = a**2 + b - 11, a + b**2 - 7
        matrix = [[8 * a**2 + 4 * p + 2, 4 * a + 4 * b], [4 * a + 4 * b, 8 * b**2 + 4 * q + 2]]
        return np.array(matrix) @ v


def _path_laplacian(x: np.ndarray) -> np.ndarray:
    return -np.diff(np.diff(x), prepend=0.0, append=0.0)
