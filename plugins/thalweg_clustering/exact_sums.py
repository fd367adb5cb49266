"""Exact kernel sums of projected rows, streamed: no kernel matrix is stored.

By sum_ij w_ij (x_i - x_j)(y_i - y_j)' = 2 X'(D_w - w) Y, nothing of size n^2 d is formed either.
"""

import numpy as np

from thalweg.numerics import inner_products
from thalweg.parallel import Layout, sum_over_ranks
from thalweg_clustering.kernels import KernelFunction, symmetric
from thalweg_clustering.projected_kernel import DerivativeSums, PairWeights, ProjectedKernel

#: Rows of a sample whose exact sums take little time.
SAMPLE_ROWS = 1500

#: Rows, or none.
Rows = np.ndarray | None


class StreamedKernel(ProjectedKernel):
    """Every sum is one pass over all pairs, by the pair engine.

    ``single`` computes in single precision, about twice as fast; for the Gaussian kernel.
    """

    def __init__(
        self,
        layout: Layout,
        points: np.ndarray,
        sigma: float,
        function: KernelFunction,
        single: bool = False,
    ) -> None:
        super().__init__(layout, points, sigma, function)
        self._sums = DerivativeSums.of(layout, function, single)
        if function.gaussian and single:
            self.rounding = 1e-7

    def _z(self, w: np.ndarray) -> np.ndarray:
        return self.points @ (w / self.sigma)

    def row_sums(self, w: np.ndarray) -> np.ndarray:
        return self._sums.engines[0].sums(self._z(w))[1]

    def product(self, w: np.ndarray, values: np.ndarray) -> np.ndarray:
        return self._sums.engines[0].sums(self._z(w), values)[0]

    def _weighted(
        self, order: int, w: np.ndarray, weights: PairWeights, values: Rows, direction: Rows = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """``sum_j w_ij v_j`` and ``sum_j w_ij``, w of the ``order``-th derivative of k.

        With a direction, w is multiplied by the derivative of beta along it, halved for
        distances; see :class:`KernelSums`.
        """
        tangent = None if direction is None else self._z(direction)
        sums, totals = self._sums.engines[order].sums(
            self._z(w), values, weights.factor, weights.signs, tangent
        )
        factor = self._sums.factors[order]
        return factor * sums, factor * totals

    def _value(self, totals: np.ndarray) -> float:
        return -float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def _outer(self, totals: np.ndarray, values: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """-(4 / sigma^2) X'(D - w) Y or -(2 / sigma^2) X'w Y, from the rows of Y and of w Y."""
        if self.function.of == "distance":
            inner, factor = totals[:, None] * values - sums, -4.0
        else:
            inner, factor = sums, -2.0
        return (factor / self.sigma**2) * inner_products(self.layout, self.points, inner)

    def _value_and_product(
        self, w: np.ndarray, weights: PairWeights, values: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """F(W), and Phi(W) applied to W where values are X W; Phi(W) itself where they are X."""
        sums, totals = self._weighted(1, w, weights, values)
        product = self._outer(totals, values, sums)
        if self.function.gaussian:
            return self._value(-2.0 * totals), product  # k = -2 k'
        return self.value(w, weights), product

    def value(self, w: np.ndarray, weights: PairWeights) -> float:
        return self._value(self._weighted(0, w, weights, None)[1])

    def value_and_gradient(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        return self._value_and_product(w, weights, self.points @ w)

    def value_and_matrix(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        value, matrix = self._value_and_product(w, weights, self.points)
        return value, symmetric(matrix)

    def hessian_product(
        self, w: np.ndarray, direction: np.ndarray, weights: PairWeights
    ) -> np.ndarray:
        # d(Phi W) = Phi V + (d Phi) W, where d psi = gamma k'' d beta.
        moving, projected = self.points @ direction, self.points @ w
        sums, totals = self._weighted(1, w, weights, moving)
        product = self._outer(totals, moving, sums)
        sums, totals = self._weighted(2, w, weights, projected, direction)
        share = 2.0 if self.function.of == "distance" else 1.0
        return product + share * self._outer(totals, projected, sums)

    def curvature_bound(self, w: np.ndarray, weights: PairWeights) -> float:
        """Right-hand side of condition (10): sum |gamma|/sigma^2 k |x_i - x_j|^4."""
        if not self.function.gaussian:
            return float("nan")
        arrays = self._z(w), weights.factor, weights.signs, self.points
        return self._sums.engines[0].absolute_moment(*arrays) / self.sigma**2
