"""Random Fourier features in place of the exact kernel: every sum is linear in n.

k(x, y) is the mean of cos(w_r'(x - y)) over normal frequencies w_r (Rahimi and
Recht, 2007).  With C, S the cosines and sines of (X W / sigma) Omega, divided by
the root of their number, K = C C' + S S', and for weights P diag(s) P'

    F(W) = - sum_c s_c (|C'p_c|^2 + |S'p_c|^2),

whose derivatives are exact: solvers minimise the approximation itself.  Phi(W)
is that of the exact formula with the approximate kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thalweg.parallel import Layout, sum_large, sum_over_ranks
from thalweg_clustering.exact_kernel import ProjectedKernel, symmetric
from thalweg_clustering.weights import PairWeights

#: Rows whose features are in memory at one time.
BLOCK = 4096


class FourierKernel(ProjectedKernel):
    """Gaussian kernel by random Fourier features.

    Parameters
    ----------
    layout, points, sigma
        As in :class:`ProjectedKernel`.
    columns
        q, the columns of W.
    features
        Number of frequencies; the kernel's error falls with its square root.
    seed
        Seed of the frequencies, the same on all ranks.
    """

    def __init__(
        self,
        layout: Layout,
        points: np.ndarray,
        sigma: float,
        columns: int,
        features: int,
        seed: int,
    ) -> None:
        super().__init__(layout, points, sigma)
        self.count, self.seed = features, seed
        self.frequencies = self._frequencies(columns)

    def _frequencies(self, columns: int) -> np.ndarray:
        stream = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(columns,)))
        return stream.standard_normal((columns, self.count))

    def _features(self, w: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Rows, cosines and sines, block by block; divided by the root of their number."""
        share = 1.0 / np.sqrt(self.count)
        # The data as they are have as many columns as features, and frequencies of their own.
        known = w.shape[1] == len(self.frequencies)
        mixed = (w / self.sigma) @ (self.frequencies if known else self._frequencies(w.shape[1]))
        for first in range(0, len(self.points), BLOCK):
            rows = slice(first, min(first + BLOCK, len(self.points)))
            angles = self.points[rows] @ mixed
            yield rows, share * np.cos(angles), share * np.sin(angles)

    def _moments(self, w: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``C'V`` and ``S'V`` over all ranks, shapes ``(features, m)``."""
        shape = (2, self.count, values.shape[1])
        total = np.zeros(shape)
        for rows, cosines, sines in self._features(w):
            total[0] += cosines.T @ values[rows]
            total[1] += sines.T @ values[rows]
        sum_large(self.layout.comm, total)
        return total[0], total[1]

    def product(self, w: np.ndarray, values: np.ndarray) -> np.ndarray:
        """This rank's rows of ``K values``."""
        even, odd = self._moments(w, values)
        result = np.empty_like(values)
        for rows, cosines, sines in self._features(w):
            result[rows] = cosines @ even + sines @ odd
        return result

    def row_sums(self, w: np.ndarray) -> np.ndarray:
        """Degrees of this rank's rows; at least 1, which is k_ii, whatever the error."""
        ones = np.ones((len(self.points), 1))
        return np.maximum(self.product(w, ones)[:, 0], 1.0)

    def value(self, w: np.ndarray, weights: PairWeights) -> float:
        """F(W)."""
        even, odd = self._moments(w, weights.factor)
        return -float(((even**2 + odd**2) @ weights.signs).sum())

    def value_and_gradient(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        """F(W) and the gradient of that very sum."""
        even, odd = self._moments(w, weights.factor)
        signed = weights.factor * weights.signs
        total = np.zeros((self.points.shape[1], self.frequencies.shape[1]))
        for rows, cosines, sines in self._features(w):
            slopes = cosines * (signed[rows] @ odd.T) - sines * (signed[rows] @ even.T)
            total += self.points[rows].T @ slopes
        sum_large(self.layout.comm, total)
        value = -float(((even**2 + odd**2) @ weights.signs).sum())
        return value, (-2.0 / self.sigma) * total @ self.frequencies.T

    def value_and_matrix(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        """F(W) and ``(2/sigma^2) X'(D - Psi) X``, with Psi = gamma * K of the features."""
        points, factor, signs = self.points, weights.factor, weights.signs
        extended = np.concatenate([points, np.ones((len(points), 1))], axis=1)
        spread = (factor[:, :, None] * extended[:, None, :]).reshape(len(points), -1)
        sums = self.product(w, spread).reshape(len(points), factor.shape[1], -1)
        weighted = np.einsum("ic,icd->id", factor * signs, sums)
        totals = weighted[:, -1]
        scatter = points.T @ (totals[:, None] * points - weighted[:, :-1])
        matrix = (2.0 / self.sigma**2) * sum_large(self.layout.comm, np.ascontiguousarray(scatter))
        value = -float(sum_over_ranks(self.layout.comm, float(totals.sum())))
        return value, symmetric(matrix)

    def hessian_product(
        self, w: np.ndarray, direction: np.ndarray, weights: PairWeights
    ) -> np.ndarray:
        """Derivative of the gradient along ``direction``."""
        factor = weights.factor
        even, odd = self._moments(w, factor)
        mixed = (direction / self.sigma) @ self.frequencies
        total = np.zeros((2, *even.shape))
        for rows, cosines, sines in self._features(w):
            moving = self.points[rows] @ mixed
            total[0] -= (sines * moving).T @ factor[rows]
            total[1] += (cosines * moving).T @ factor[rows]
        sum_large(self.layout.comm, total)
        signed = factor * weights.signs
        result = np.zeros((self.points.shape[1], self.frequencies.shape[1]))
        for rows, cosines, sines in self._features(w):
            moving = self.points[rows] @ mixed
            mine = signed[rows]
            slopes = cosines * (mine @ total[1].T) - sines * (mine @ total[0].T)
            slopes -= moving * (sines * (mine @ odd.T) + cosines * (mine @ even.T))
            result += self.points[rows].T @ slopes
        sum_large(self.layout.comm, result)
        return (-2.0 / self.sigma) * result @ self.frequencies.T

    def curvature_bound(self, w: np.ndarray, weights: PairWeights) -> float:
        """NaN: |gamma_ij| has no low rank, so condition (10) cannot be had in linear time."""
        return float("nan")
