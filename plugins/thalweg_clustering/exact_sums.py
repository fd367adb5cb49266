"""Exact kernel sums of projected rows: the kernel matrix stored for few rows, streamed for many.

Both use sum_ij w_ij (x_i - x_j)(y_i - y_j)' = 2 X'(D_w - w) Y, so that nothing of size
n^2 d is ever formed.
"""

from abc import abstractmethod

import numpy as np

from thalweg.parallel import Layout, any_over_ranks, sum_large, sum_over_ranks
from thalweg_clustering.kernel_sums import KernelSums
from thalweg_clustering.kernels import KernelFunction, symmetric
from thalweg_clustering.projected_kernel import DerivativeSums, PairWeights, ProjectedKernel

#: Largest number of rows for which the kernel matrix is stored (at most three arrays of 18 MB).
STORED_ROWS = 1500

#: Rows, or none.
Rows = np.ndarray | None


class _ExactKernel(ProjectedKernel):
    """Base of the stored and the streamed kernel: derivatives from weighted sums."""

    _engine: KernelSums

    @abstractmethod
    def _weighted(
        self, order: int, w: np.ndarray, weights: PairWeights, values: Rows, direction: Rows = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """``sum_j w_ij v_j`` and ``sum_j w_ij``, w of the ``order``-th derivative of k.

        With a direction, w is multiplied by the derivative of beta along it, halved for
        distances; see :class:`KernelSums`.
        """

    def _value(self, totals: np.ndarray) -> float:
        return -float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def _scaled(self, weights: PairWeights) -> PairWeights:
        """Weights of derivatives: with local scaling, d beta_ij has the factor c_i c_j."""
        if self.scales is None:
            return weights
        return PairWeights(weights.factor * self.scales[:, None], weights.signs)

    def _outer(self, totals: np.ndarray, values: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """-(4 / sigma^2) X'(D - w) Y or -(2 / sigma^2) X'w Y, from the rows of Y and of w Y."""
        if self.function.of == "distance":
            inner, factor = totals[:, None] * values - sums, -4.0
        else:
            inner, factor = sums, -2.0
        scatter = sum_large(self.layout.comm, np.ascontiguousarray(self.points.T @ inner))
        return (factor / self.sigma**2) * scatter

    def _value_and_product(
        self, w: np.ndarray, weights: PairWeights, values: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """F(W), and Phi(W) applied to W where values are X W; Phi(W) itself where they are X."""
        sums, totals = self._weighted(1, w, self._scaled(weights), values)
        product = self._outer(totals, values, sums)
        if self.function.gaussian and self.scales is None:
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
        scaled = self._scaled(weights)
        sums, totals = self._weighted(1, w, scaled, moving)
        product = self._outer(totals, moving, sums)
        sums, totals = self._weighted(2, w, self._scaled(scaled), projected, direction)
        share = 2.0 if self.function.of == "distance" else 1.0
        return product + share * self._outer(totals, projected, sums)

    def curvature_bound(self, w: np.ndarray, weights: PairWeights) -> float:
        """Right-hand side of condition (10): sum |gamma|/sigma^2 k |x_i - x_j|^4."""
        if not self.function.gaussian or self.scales is not None:
            return float("nan")
        z, (factor, signs) = self.points @ (w / self.sigma), (weights.factor, weights.signs)
        moment = self._engine.absolute_moment(z, factor, signs, self.points)
        return moment / self.sigma**2


class StreamedKernel(_ExactKernel):
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
        self._engine = self._sums.engines[0]
        if function.gaussian and single:
            self.rounding = 1e-7

    def _z(self, w: np.ndarray) -> np.ndarray:
        return self.points @ (w / self.sigma)

    def row_sums(self, w: np.ndarray) -> np.ndarray:
        return self._sums.engines[0].sums(self._z(w), scale=self.scales)[1]

    def product(self, w: np.ndarray, values: np.ndarray) -> np.ndarray:
        return self._sums.engines[0].sums(self._z(w), values, scale=self.scales)[0]

    def _weighted(
        self, order: int, w: np.ndarray, weights: PairWeights, values: Rows, direction: Rows = None
    ) -> tuple[np.ndarray, np.ndarray]:
        tangent = None if direction is None else self._z(direction)
        sums, totals = self._sums.engines[order].sums(
            self._z(w), values, weights.factor, weights.signs, tangent, self.scales
        )
        factor = self._sums.factors[order]
        return factor * sums, factor * totals


class StoredKernel(_ExactKernel):
    """This rank's rows of the kernel matrix are kept, with what they were made of."""

    def __init__(
        self, layout: Layout, points: np.ndarray, sigma: float, function: KernelFunction
    ) -> None:
        super().__init__(layout, points, sigma, function)
        identity = None if function.gaussian else np.copy
        self._engine = KernelSums(layout, identity, function.of)
        self._for: np.ndarray | None = None
        self._scales_for: np.ndarray | None = None
        self._kernel = np.empty((0, 0))
        self._beta = np.empty((0, 0))
        self._weights: PairWeights | None = None
        self._gamma = np.empty((0, 0))

    def kernel(self, w: np.ndarray) -> np.ndarray:
        """This rank's rows of K, shape ``(n_local, n)``.  Collective."""
        # W and the scales are replaced on all ranks together, hence so is this branch taken.
        if (
            self._for is None
            or self._scales_for is not self.scales
            or (not np.array_equal(self._for, w))
        ):
            z = self.points @ (w / self.sigma)
            rows = self._engine.kernel_rows(z, self.scales)
            self._kernel = rows if self.function.gaussian else self.function.value(rows)
            self._beta = rows
            self._for, self._scales_for = w.copy(), self.scales
        return self._kernel

    def row_sums(self, w: np.ndarray) -> np.ndarray:
        return self.kernel(w).sum(axis=1)

    def product(self, w: np.ndarray, values: np.ndarray) -> np.ndarray:
        return self.kernel(w) @ self.layout.gather_rows(values)

    def _weighted(
        self, order: int, w: np.ndarray, weights: PairWeights, values: Rows, direction: Rows = None
    ) -> tuple[np.ndarray, np.ndarray]:
        kernel = self.kernel(w)
        if order and not self.function.gaussian:
            kernel = (self.function.first, self.function.second)[order - 1](self._beta)
        if any_over_ranks(self.layout.comm, not weights.same_as(self._weights)):
            whole = self.layout.gather_rows(weights.factor)
            self._gamma = (weights.factor * weights.signs) @ whole.T
            self._weights = weights
        psi = kernel * self._gamma
        if self.function.gaussian and order:
            psi *= (-0.5) ** order
        if direction is not None:
            z, tangent = self.points @ (w / self.sigma), self.points @ (direction / self.sigma)
            every = self.layout.gather_rows(z), self.layout.gather_rows(tangent)
            psi *= self.function.beta_change(z, tangent, *every)
            if self.function.of == "distance":
                psi *= 0.5
        if values is None:
            return np.zeros((len(psi), 0)), psi.sum(axis=1)
        return psi @ self.layout.gather_rows(values), psi.sum(axis=1)


def exact_kernel(
    layout: Layout,
    points: np.ndarray,
    sigma: float,
    function: KernelFunction,
    stored_rows: int = STORED_ROWS,
    single: bool = False,
) -> ProjectedKernel:
    """The stored kernel for up to ``stored_rows`` rows over all ranks, else the streamed one."""
    if layout.rows <= stored_rows:
        return StoredKernel(layout, points, sigma, function)
    return StreamedKernel(layout, points, sigma, function, single)
