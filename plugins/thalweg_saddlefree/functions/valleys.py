"""Sums of squares from the Moré-Garbow-Hillstrom collection (1981): valleys, flat minima."""

from __future__ import annotations

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
        result = np.zeros_like(x)
        result[1:] += 10.0 * valley
        result[:-1] -= 20.0 * x[:-1] * valley + slope
        return result

    def second_order_term(self, x: np.ndarray, r: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Only the valley residuals are not linear."""
        result = np.zeros_like(x)
        result[:-1] = -20.0 * r[: self.size - 1] * v[:-1]
        return result


class PowellSingular(LeastSquares):
    """Powell's singular function on groups of four: the Hessian at the minimum 0 has rank two."""

    least = 4
    in_groups = True

    def start(self) -> np.ndarray:
        return np.resize([3.0, -1.0, 0.0, 1.0], self.size)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        a, b, c, d = x.reshape(-1, 4).T
        rows = [a + 10 * b, np.sqrt(5) * (c - d), (b - 2 * c) ** 2, np.sqrt(10) * (a - d) ** 2]
        return np.concatenate(rows)

    def forward(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        a, b, c, d = x.reshape(-1, 4).T
        p, q, r, s = v.reshape(-1, 4).T
        rows = [
            p + 10 * q,
            np.sqrt(5) * (r - s),
            2 * (b - 2 * c) * (q - 2 * r),
            2 * np.sqrt(10) * (a - d) * (p - s),
        ]
        return np.concatenate(rows)

    def backward(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        a, b, c, d = x.reshape(-1, 4).T
        r1, r2, r3, r4 = np.split(r, 4)
        inner, outer = 2 * (b - 2 * c) * r3, 2 * np.sqrt(10) * (a - d) * r4
        columns = [
            r1 + outer,
            10 * r1 + inner,
            np.sqrt(5) * r2 - 2 * inner,
            -np.sqrt(5) * r2 - outer,
        ]
        return np.stack(columns, axis=1).ravel()

    def second_order_term(self, x: np.ndarray, r: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The two squared residuals of each group are not linear."""
        p, q, s, t = v.reshape(-1, 4).T
        _, _, r3, r4 = np.split(r, 4)
        inner, outer = 2 * r3 * (q - 2 * s), 2 * np.sqrt(10) * r4 * (p - t)
        return np.stack([outer, inner, -2 * inner, -outer], axis=1).ravel()


class BroydenTridiagonal(LeastSquares):
    """``r_i = (3 - 2 x_i) x_i - x_(i-1) - 2 x_(i+1) + 1``, zero beyond the ends."""

    def start(self) -> np.ndarray:
        return -np.ones(self.size)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        r = (3.0 - 2.0 * x) * x + 1.0
        r[1:] -= x[:-1]
        r[:-1] -= 2.0 * x[1:]
        return r

    def forward(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        r = (3.0 - 4.0 * x) * v
        r[1:] -= v[:-1]
        r[:-1] -= 2.0 * v[1:]
        return r

    def backward(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        result = (3.0 - 4.0 * x) * r
        result[:-1] -= r[1:]
        result[1:] -= 2.0 * r[:-1]
        return result

    def second_order_term(self, x: np.ndarray, r: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Every residual is quadratic in its own variable."""
        return -4.0 * r * v
