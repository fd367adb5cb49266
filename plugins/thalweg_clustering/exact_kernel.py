"""Exact Gaussian kernel sums of projected rows: stored for few rows, streamed for many.

Both ways give, for W of shape (d, q) and weights gamma, the terms of

    F(W) = - sum_ij gamma_ij k_ij,   k_ij = exp(-|W'(x_i - x_j)|^2 / 2 sigma^2)

(eq. 4 of Wu et al., "Iterative Spectral Method for Alternative Clustering") through

    sum_ij w_ij (x_i - x_j)(y_i - y_j)' = 2 X'(D_w - w) Y,

so that nothing of size n^2 d is ever formed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from thalweg.parallel import Layout, sum_large, sum_over_ranks
from thalweg.parallel.pairs import KernelSums
from thalweg_clustering.weights import PairWeights

#: Up to this many rows the kernel matrix is stored (two arrays of 18 MB at most).
STORED_ROWS = 1500


class ProjectedKernel(ABC):
    """Sums over all pairs of rows of a kernel of the projected differences W'(x_i - x_j).

    Parameters
    ----------
    layout
        Distribution of the rows.
    points
        This rank's rows, shape ``(n_local, d)``.
    sigma
        Width of the kernel, in the unit of the points.
    """

    def __init__(self, layout: Layout, points: np.ndarray, sigma: float) -> None:
        self.layout = layout
        self.points = points
        self.sigma = float(sigma)

    @abstractmethod
    def row_sums(self, w: np.ndarray) -> np.ndarray:
        """Degrees ``sum_j k_ij`` of this rank's rows, shape ``(n_local,)``."""

    @abstractmethod
    def product(self, w: np.ndarray, values: np.ndarray) -> np.ndarray:
        """This rank's rows of ``K values``, shape of ``values``: ``(n_local, m)``."""

    @abstractmethod
    def value(self, w: np.ndarray, weights: PairWeights) -> float:
        """F(W)."""

    @abstractmethod
    def value_and_gradient(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        """F(W) and its gradient Phi(W) W (eq. 5), shape ``(d, q)``."""

    @abstractmethod
    def value_and_matrix(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        """F(W) and Phi(W) (eq. 8), shape ``(d, d)``."""

    @abstractmethod
    def hessian_product(
        self, w: np.ndarray, direction: np.ndarray, weights: PairWeights
    ) -> np.ndarray:
        """Derivative of the gradient along ``direction``, shape ``(d, q)``."""

    @abstractmethod
    def curvature_bound(self, w: np.ndarray, weights: PairWeights) -> float:
        """Right-hand side of condition (10)."""

    def flat_matrix(self, weights: PairWeights) -> np.ndarray:
        """Phi where every k_ij is 1: the matrix of the spectral initialisation (eq. 12)."""
        factor, signs, points = weights.factor, weights.signs, self.points
        comm = self.layout.comm
        sums = np.asarray(sum_over_ranks(comm, factor.sum(axis=0)))
        degrees = factor @ (signs * sums)
        moments = sum_large(comm, np.ascontiguousarray(points.T @ factor))
        diagonal = sum_large(comm, np.ascontiguousarray((points.T * degrees) @ points))
        return symmetric((2.0 / self.sigma**2) * (diagonal - (moments * signs) @ moments.T))


def symmetric(matrix: np.ndarray) -> np.ndarray:
    """Symmetric part, so that rounding cannot make it anything else."""
    return 0.5 * (matrix + matrix.T)


class _ExactKernel(ProjectedKernel):
    """What the stored and the streamed kernel share: from weighted sums to derivatives."""

    @abstractmethod
    def _weighted(
        self,
        w: np.ndarray,
        weights: PairWeights,
        values: np.ndarray,
        direction: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """``sum_j w_ij v_j`` and ``sum_j w_ij``; see :class:`KernelSums`."""

    def _value(self, totals: np.ndarray) -> float:
        return -float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def _outer(self, totals: np.ndarray, values: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """``X'(D - w) Y`` from the rows of Y and of ``w Y``."""
        return sum_large(
            self.layout.comm,
            np.ascontiguousarray(self.points.T @ (totals[:, None] * values - sums)),
        )

    def value_and_gradient(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        projected = self.points @ w
        sums, totals = self._weighted(w, weights, projected)
        return self._value(totals), (2.0 / self.sigma**2) * self._outer(totals, projected, sums)

    def value_and_matrix(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        sums, totals = self._weighted(w, weights, self.points)
        matrix = (2.0 / self.sigma**2) * self._outer(totals, self.points, sums)
        return self._value(totals), symmetric(matrix)

    def hessian_product(
        self, w: np.ndarray, direction: np.ndarray, weights: PairWeights
    ) -> np.ndarray:
        # d(Phi W) = Phi V - sum gamma/sigma^4 k <W'dx, V'dx> dx (W'dx)'
        moving = self.points @ direction
        sums, totals = self._weighted(w, weights, moving)
        product = (2.0 / self.sigma**2) * self._outer(totals, moving, sums)
        projected = self.points @ w
        sums, totals = self._weighted(w, weights, projected, moving)
        return product - (2.0 / self.sigma**2) * self._outer(totals, projected, sums)


class StreamedKernel(_ExactKernel):
    """Every sum is one pass over all pairs, by the pair engine."""

    def __init__(self, layout: Layout, points: np.ndarray, sigma: float) -> None:
        super().__init__(layout, points, sigma)
        self.sums = KernelSums(layout)

    def _z(self, w: np.ndarray) -> np.ndarray:
        return self.points @ (w / self.sigma)

    def row_sums(self, w: np.ndarray) -> np.ndarray:
        """Degrees of this rank's rows."""
        return self.sums.sums(self._z(w))[1]

    def product(self, w: np.ndarray, values: np.ndarray) -> np.ndarray:
        """This rank's rows of ``K values``."""
        return self.sums.sums(self._z(w), values)[0]

    def value(self, w: np.ndarray, weights: PairWeights) -> float:
        """F(W)."""
        return self._value(self.sums.sums(self._z(w), None, weights.factor, weights.signs)[1])

    def _weighted(
        self,
        w: np.ndarray,
        weights: PairWeights,
        values: np.ndarray,
        direction: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        tangent = None if direction is None else direction / self.sigma
        return self.sums.sums(self._z(w), values, weights.factor, weights.signs, tangent)

    def curvature_bound(self, w: np.ndarray, weights: PairWeights) -> float:
        """Right-hand side of condition (10): sum |gamma|/sigma^2 k |x_i - x_j|^4."""
        moment = self.sums.absolute_moment(self._z(w), weights.factor, weights.signs, self.points)
        return moment / self.sigma**2


class StoredKernel(_ExactKernel):
    """This rank's rows of the kernel matrix are kept, with what they were made of."""

    def __init__(self, layout: Layout, points: np.ndarray, sigma: float) -> None:
        super().__init__(layout, points, sigma)
        self.sums = KernelSums(layout)
        self._for: np.ndarray | None = None
        self._kernel = np.empty((0, 0))
        self._weights: PairWeights | None = None
        self._gamma = np.empty((0, 0))
        self._psi: np.ndarray | None = None

    def kernel(self, w: np.ndarray) -> np.ndarray:
        """This rank's rows of K, shape ``(n_local, n)``.  Collective."""
        # W is the same on every rank, hence so is this branch.
        if self._for is None or not np.array_equal(self._for, w):
            self._kernel = self.sums.kernel_rows(self.points @ (w / self.sigma))
            self._for, self._psi = w.copy(), None
        return self._kernel

    def _product_with_gamma(self, w: np.ndarray, weights: PairWeights) -> np.ndarray:
        comm = self.layout.comm
        kernel = self.kernel(w)
        if not all(comm.allgather(weights.same_as(self._weights))):
            whole = self.layout.gather_rows(weights.factor)
            self._gamma = (weights.factor * weights.signs) @ whole.T
            self._weights, self._psi = weights, None
        if self._psi is None:
            self._psi = kernel * self._gamma
        return self._psi

    def row_sums(self, w: np.ndarray) -> np.ndarray:
        """Degrees of this rank's rows."""
        return self.kernel(w).sum(axis=1)

    def product(self, w: np.ndarray, values: np.ndarray) -> np.ndarray:
        """This rank's rows of ``K values``."""
        return self.kernel(w) @ self.layout.gather_rows(values)

    def value(self, w: np.ndarray, weights: PairWeights) -> float:
        """F(W)."""
        return self._value(self._product_with_gamma(w, weights).sum(axis=1))

    def _weighted(
        self,
        w: np.ndarray,
        weights: PairWeights,
        values: np.ndarray,
        direction: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        psi = self._product_with_gamma(w, weights)
        if direction is not None:
            psi = psi * self._inner_differences(self.points @ (w / self.sigma), direction)
        gathered = self.layout.gather_rows(values)
        return psi @ gathered, psi.sum(axis=1)

    def _inner_differences(self, z: np.ndarray, moving: np.ndarray) -> np.ndarray:
        """``<z_i - z_j, t_i - t_j>`` for this rank's rows i and all rows j."""
        tangent = moving / self.sigma
        all_z, all_t = self.layout.gather_rows(z), self.layout.gather_rows(tangent)
        cross = z @ all_t.T + tangent @ all_z.T
        own = np.einsum("ij,ij->i", z, tangent)
        return own[:, None] + np.einsum("ij,ij->i", all_z, all_t) - cross

    def curvature_bound(self, w: np.ndarray, weights: PairWeights) -> float:
        """Right-hand side of condition (10): sum |gamma|/sigma^2 k |x_i - x_j|^4."""
        psi = self._product_with_gamma(w, weights)
        whole = self.layout.gather_rows(self.points)
        squares = np.einsum("ij,ij->i", self.points, self.points)
        lengths = squares[:, None] + np.einsum("ij,ij->i", whole, whole)
        lengths -= 2.0 * self.points @ whole.T
        total = float((np.abs(psi) * lengths**2).sum())
        return float(sum_over_ranks(self.layout.comm, total)) / self.sigma**2


def exact_kernel(
    layout: Layout, points: np.ndarray, sigma: float, stored_rows: int = STORED_ROWS
) -> ProjectedKernel:
    """The stored kernel for up to ``stored_rows`` rows over all ranks, else the streamed one."""
    kind = StoredKernel if layout.rows <= stored_rows else StreamedKernel
    return kind(layout, points, sigma)
