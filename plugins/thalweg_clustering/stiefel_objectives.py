"""Objectives of the form -sum gamma_ij k(beta_ij) on the Stiefel manifold."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.engines.hessian import HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Identified, Layout, agreed, sketch
from thalweg_clustering.kernels import KernelFunction
from thalweg_clustering.projected_kernel import PairWeights, ProjectedKernel
from thalweg_clustering.stiefel import EigenvectorFixedPoint

#: Largest deviation of W'W from a diagonal of zeros and ones; beyond it a solver is refused.
OFF_MANIFOLD = 0.1


class StiefelObjective(Objective, EigenvectorFixedPoint, HessianProduct):
    """F(W), W of shape (d, q), W'W = I, whose gradient is Phi(W) W.

    F depends on W W' alone.  Columns of W that are zero do not count, which lets dimension growth
    work with the columns it has so far.  The ranks share the terms; W is replicated.
    """

    def __init__(self, comm: MPI.Comm, dimension: int, columns: int) -> None:
        if not 1 <= columns < dimension:
            raise InputError(
                f"the number of components must be at least 1 and less than the {dimension} "
                f"features, not {columns}"
            )
        super().__init__(comm, Layout(MPI.COMM_SELF, dimension, columns))

    def initial_point(self, seed: int) -> Array:
        """A random point of the Stiefel manifold."""
        stream = np.random.default_rng(seed)
        normal = stream.standard_normal((self.layout.rows, self.layout.columns))
        return agreed(self.comm, np.linalg.qr(normal)[0])

    def matrix(self, x: Array) -> Array:
        """W as rank 0 has it, shape ``(d, q)``; refused off the Stiefel manifold.  Collective.

        LAPACK may give each rank other bits, and the ranks' sums must be of one W.
        """
        w = agreed(self.comm, np.ascontiguousarray(x))
        gram = w.T @ w
        if not np.isfinite(gram).all():
            return w
        expected = np.diag((np.diag(gram) > OFF_MANIFOLD).astype(float))
        if np.abs(gram - expected).max() > OFF_MANIFOLD:
            raise InputError(
                "the iterate's columns are no longer orthonormal: use a solver that keeps them so "
                "(ism, stiefel, dimension-growth)"
            )
        return w


class KernelPairSum(StiefelObjective):
    """The sum over all pairs of rows, gamma of low rank, and over single pairs ("links").

    Parameters
    ----------
    kernel
        Rows, kernel function, width and way of summing.
    columns
        q.
    weights
        gamma; :attr:`weights` may be replaced.
    links
        Further pairs, each of a weight of its own; None for none.
    """

    def __init__(
        self,
        kernel: ProjectedKernel,
        columns: int,
        weights: PairWeights,
        links: "LinkSum | None" = None,
    ) -> None:
        super().__init__(kernel.layout.comm, kernel.points.shape[1], columns)
        self.kernel = kernel
        self.weights = weights
        self.links = links or LinkSum.none(kernel)

    def value(self, x: Array) -> float:
        w = self.matrix(x)
        return agreed(self.comm, self.kernel.value(w, self.weights) + self.links.value(w))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        w = self.matrix(x)
        value, gradient = self.kernel.value_and_gradient(w, self.weights)
        return agreed(self.comm, (value + self.links.value(w), gradient + self.links.matrix(w) @ w))

    def value_and_fixed_point_matrix(self, x: Array) -> tuple[float, np.ndarray]:
        w = self.matrix(x)
        value, matrix = self.kernel.value_and_matrix(w, self.weights)
        return agreed(self.comm, (value + self.links.value(w), matrix + self.links.matrix(w)))

    def hessian_product(self, x: Array, direction: Array) -> Array:
        w = self.matrix(x)
        product = self.kernel.hessian_product(w, direction, self.weights)
        return agreed(self.comm, product + self.links.hessian_product(w, direction))


@dataclass(frozen=True)
class LinkSum(Identified):
    """-sum_l w_l k(beta_l) over a few pairs of rows, the same on every rank."""

    #: Kernel and its width.
    function: KernelFunction
    sigma: float
    #: Rows of the pairs, shape ``(m, d)``.
    left: np.ndarray
    right: np.ndarray
    weights: np.ndarray  # w, shape ``(m,)``: positive where the rows should be alike

    @classmethod
    def none(cls, kernel: ProjectedKernel) -> "LinkSum":
        """Of no pairs."""
        rows = np.zeros((0, kernel.points.shape[1]))
        return cls(kernel.function, kernel.sigma, rows, rows, np.zeros(0))

    def identity(self) -> tuple[Any, ...]:
        """The rows of the pairs, and their weights; the kernel is that of all pairs."""
        rows = np.hstack([self.left, self.right])
        return self.weights, sketch(Layout(MPI.COMM_SELF, *rows.shape), rows)

    def _beta(self, w: np.ndarray) -> np.ndarray:
        a, b = self.left @ (w / self.sigma), self.right @ (w / self.sigma)
        if self.function.of == "product":
            return np.einsum("ij,ij->i", a, b)
        return ((a - b) ** 2).sum(axis=1)

    def _scatter(self, psi: np.ndarray) -> np.ndarray:
        """-sum psi d beta / d(WW'), times W the derivative of -sum psi beta."""
        if self.function.of == "product":
            cross = (self.left.T * psi) @ self.right
            return np.asarray(-(cross + cross.T) / self.sigma**2)
        difference = self.left - self.right
        return np.asarray(-2.0 * (difference.T * psi) @ difference / self.sigma**2)

    def value(self, w: np.ndarray) -> float:
        """The sum."""
        return -float(self.weights @ self.function.value(self._beta(w)))

    def matrix(self, w: np.ndarray) -> np.ndarray:
        """Its part of Phi(W)."""
        return self._scatter(self.weights * self.function.first(self._beta(w)))

    def hessian_product(self, w: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """The derivative of Phi(W) W along a direction."""
        a, b = self.left @ w, self.right @ w
        t, u = self.left @ direction, self.right @ direction
        if self.function.of == "product":
            turned = np.einsum("ij,ij->i", a, u) + np.einsum("ij,ij->i", t, b)
        else:
            turned = 2.0 * np.einsum("ij,ij->i", a - b, t - u)
        second = self.function.second(self._beta(w)) * turned / self.sigma**2
        return self.matrix(w) @ direction + self._scatter(self.weights * second) @ w

    def curvature_bound(self, w: np.ndarray) -> float:
        """Its part of condition (10): sum |w_l|/sigma^2 k |x_i - x_j|^4, of a Gaussian kernel."""
        lengths = ((self.left - self.right) ** 2).sum(axis=1)
        moments = np.abs(self.weights) * self.function.value(self._beta(w)) * lengths**2
        return float(moments.sum()) / self.sigma**2
