"""Sums of squares from the Moré-Garbow-Hillstrom collection (1981): valleys, flat minima."""

import numpy as np

from thalweg_saddlefree.functions.objective import LeastSquares


class Rosenbrock(LeastSquares):
    """``sum 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2``, minimum 0 at (1, ..., 1)."""

    least = 2

    def start(self) -> np.ndarray:
        return np.resize([-1.2, 1.0], self.size)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """The n - 1 valley residuals, then the n - 1 slope residuals."""
        return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])

    def forward(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.concatenate([10.0 * (v[1:] - 2.0 * x[:-1] * v[:-1]), -v[:-1]])

    def backward(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        valley, slope = np.split(r, 2)
        falling = 20.0 * x[:-1] * valley + slope
        return np.append(0.0, 10.0 * valley) - np.append(falling, 0.0)

    def second_order_term(self, x: np.ndarray, r: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Only the valley residuals are not linear."""
        return np.append(-20.0 * r[: self.size - 1] * v[:-1], 0.0)


class PowellSingular(LeastSquares):
    """Powell's singular function on groups of four: the Hessian at the minimum 0 has rank two.

    Residuals of a group are a + 10 b, 5^(1/2) (c - d), (b - 2 c)^2 and 10^(1/2) (a - d)^2.
    """

    least = 4
    in_groups = True

    #: Linear functions of a group, as rows; a residual is its function or the square of it.
    linear = np.array(
        [[1, 10, 0, 0], [0, 0, 5**0.5, -(5**0.5)], [0, 1, -2, 0], [10**0.25, 0, 0, -(10**0.25)]]
    )
    squared = np.array([False, False, True, True])

    def start(self) -> np.ndarray:
        return np.resize([3.0, -1.0, 0.0, 1.0], self.size)

    def _mapped(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(-1, 4) @ self.linear.T

    def _slopes(self, x: np.ndarray) -> np.ndarray:
        return np.where(self.squared, 2.0 * self._mapped(x), 1.0)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        mapped = self._mapped(x)
        return np.where(self.squared, mapped**2, mapped).ravel()

    def forward(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (self._slopes(x) * self._mapped(v)).ravel()

    def backward(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        return ((self._slopes(x) * r.reshape(-1, 4)) @ self.linear).ravel()

    def second_order_term(self, x: np.ndarray, r: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The two squared residuals of each group are not linear."""
        curved = np.where(self.squared, 2.0 * r.reshape(-1, 4), 0.0)
        return ((curved * self._mapped(v)) @ self.linear).ravel()


class BroydenTridiagonal(LeastSquares):
    """``r_i = (3 - 2 x_i) x_i - x_(i-1) - 2 x_(i+1) + 1``, zero beyond the ends."""

    def start(self) -> np.ndarray:
        return -np.ones(self.size)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        return (3.0 - 2.0 * x) * x + 1.0 - _neighbors(x, 1.0, 2.0)

    def forward(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (3.0 - 4.0 * x) * v - _neighbors(v, 1.0, 2.0)

    def backward(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        return (3.0 - 4.0 * x) * r - _neighbors(r, 2.0, 1.0)

    def second_order_term(self, x: np.ndarray, r: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Every residual is quadratic in its own variable."""
        return -4.0 * r * v


def _neighbors(x: np.ndarray, left: float, right: float) -> np.ndarray:
    """``left x_(i-1) + right x_(i+1)``, zero beyond the ends."""
    return np.append(0.0, left * x[:-1]) + np.append(right * x[1:], 0.0)
