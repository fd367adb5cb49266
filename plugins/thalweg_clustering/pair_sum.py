"""Objectives of the form -sum gamma_ij exp(-Tr(W'A_ij W)/2 sigma^2) on the Stiefel manifold."""

from __future__ import annotations

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import HessianProduct, Objective, SpectralFixedPoint
from thalweg.parallel import MPI, Layout, PETSc, sum_large, sum_over_ranks
from thalweg_clustering.exact_kernel import ProjectedKernel, symmetric
from thalweg_clustering.weights import PairWeights

#: How far W'W may be from a diagonal of zeros and ones before a solver is told off.
OFF_MANIFOLD = 0.1


class GaussianObjective(Objective, SpectralFixedPoint, HessianProduct):
    """F(W) = -sum gamma exp(-Tr(W'A W)/2 sigma^2), W of shape (d, q), W'W = I.

    F depends on W W' alone.  Columns of W that are zero do not count, which lets
    dimension growth work with the columns it has so far.

    Parameters
    ----------
    comm
        Ranks that share the terms; W is replicated.
    dimension, columns
        d and q.
    """

    def __init__(self, comm: MPI.Comm, dimension: int, columns: int) -> None:
        if not 1 <= columns < dimension:
            raise InputError(
                f"the number of components must be at least 1 and less than the {dimension} "
                f"features, not {columns}"
            )
        super().__init__(comm, Layout(MPI.COMM_SELF, dimension, columns))

    def initial_point(self, seed: int) -> PETSc.Vec:
        """A random point of the Stiefel manifold."""
        stream = np.random.default_rng(seed)
        normal = stream.standard_normal((self.layout.rows, self.layout.columns))
        w = np.linalg.qr(normal)[0]
        return self.layout.vec_from(self.comm.bcast(w, root=0))

    def matrix(self, x: PETSc.Vec) -> np.ndarray:
        """W, shape ``(d, q)``.

        Raises
        ------
        InputError
            W has left the Stiefel manifold, as solvers that do not know of it make it.
        """
        w = np.array(self.layout.reading(x))
        gram = w.T @ w
        if not np.isfinite(gram).all():
            return w
        wanted = np.diag((np.diag(gram) > OFF_MANIFOLD).astype(float))
        if np.abs(gram - wanted).max() > OFF_MANIFOLD:
            raise InputError(
                "the iterate's columns are no longer orthonormal: use a solver that keeps them so "
                "(ism, stiefel, stiefel-trust-region, dimension-growth)"
            )
        return w

    # -- for subclasses --------------------------------------------------------------------

    def value_at(self, w: np.ndarray) -> float:
        """F at W of shape ``(d, q)``."""
        raise NotImplementedError

    def value_and_gradient_at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """F and Phi(W) W."""
        raise NotImplementedError

    def value_and_matrix_at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """F and Phi(W)."""
        raise NotImplementedError

    def hessian_product_at(self, w: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Derivative of Phi(W) W along a direction."""
        raise NotImplementedError

    # -- the interface ---------------------------------------------------------------------

    def value(self, x: PETSc.Vec) -> float:
        """F at W."""
        return self.value_at(self.matrix(x))

    def value_and_gradient(self, x: PETSc.Vec, gradient: PETSc.Vec) -> float:
        """F at W, and its gradient in the surrounding space."""
        value, slope = self.value_and_gradient_at(self.matrix(x))
        with self.layout.writing(gradient) as block:
            block[...] = slope
        return value

    def fixed_point_matrix(self, x: PETSc.Vec) -> np.ndarray:
        """Phi(W)."""
        return self.value_and_matrix_at(self.matrix(x))[1]

    def value_and_fixed_point_matrix(self, x: PETSc.Vec) -> tuple[float, np.ndarray]:
        """F and Phi(W), in one pass."""
        return self.value_and_matrix_at(self.matrix(x))

    def hessian_product(self, x: PETSc.Vec, direction: PETSc.Vec, product: PETSc.Vec) -> None:
        """Product of the Hessian in the surrounding space with a direction."""
        result = self.hessian_product_at(self.matrix(x), np.array(self.layout.reading(direction)))
        with self.layout.writing(product) as block:
            block[...] = result


class GaussianPairSum(GaussianObjective):
    """The sum over all pairs of rows, A_ij = (x_i - x_j)(x_i - x_j)', gamma of low rank.

    Parameters
    ----------
    kernel
        Rows, width and way of summing.
    columns
        q.
    weights
        gamma; :attr:`weights` may be replaced.
    """

    def __init__(self, kernel: ProjectedKernel, columns: int, weights: PairWeights) -> None:
        super().__init__(kernel.layout.comm, kernel.points.shape[1], columns)
        self.kernel = kernel
        self.weights = weights

    def value_at(self, w: np.ndarray) -> float:
        """F at W."""
        return self.kernel.value(w, self.weights)

    def value_and_gradient_at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """F and Phi(W) W."""
        return self.kernel.value_and_gradient(w, self.weights)

    def value_and_matrix_at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """F and Phi(W)."""
        return self.kernel.value_and_matrix(w, self.weights)

    def hessian_product_at(self, w: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Derivative of Phi(W) W along a direction."""
        return self.kernel.hessian_product(w, direction, self.weights)


class GaussianTermSum(GaussianObjective):
    """The sum over terms of any positive semidefinite A, each rank holding its own terms.

    Parameters
    ----------
    comm
        Ranks that share the terms.
    gamma
        This rank's coefficients, shape ``(m,)``, of either sign.
    matrices
        This rank's A, shape ``(m, d, d)``, symmetric; a rank without terms gives ``(0, d, d)``.
    sigma
        Width.
    columns
        q.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        gamma: np.ndarray,
        matrices: np.ndarray,
        sigma: float,
        columns: int,
    ) -> None:
        if not sigma > 0:
            raise InputError(f"sigma must be greater than 0, not {sigma!r}")
        super().__init__(comm, matrices.shape[1], columns)
        self.gamma, self.matrices, self.sigma = gamma, matrices, float(sigma)

    def _kernels(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        images = self.matrices @ w
        traces = np.einsum("dq,mdq->m", w, images)
        return self.gamma * np.exp(-traces / (2 * self.sigma**2)), images

    def value_at(self, w: np.ndarray) -> float:
        """F at W."""
        return -float(sum_over_ranks(self.comm, float(self._kernels(w)[0].sum())))

    def value_and_gradient_at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """F and Phi(W) W."""
        kernels, images = self._kernels(w)
        gradient = np.einsum("m,mdq->dq", kernels, images) / self.sigma**2
        value = -float(sum_over_ranks(self.comm, float(kernels.sum())))
        return value, sum_large(self.comm, gradient)

    def value_and_matrix_at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """F and Phi(W)."""
        kernels, _ = self._kernels(w)
        matrix = np.einsum("m,mde->de", kernels, self.matrices) / self.sigma**2
        value = -float(sum_over_ranks(self.comm, float(kernels.sum())))
        return value, symmetric(sum_large(self.comm, matrix))

    def hessian_product_at(self, w: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Derivative of Phi(W) W along a direction."""
        kernels, images = self._kernels(w)
        slopes = kernels * np.einsum("mdq,dq->m", images, direction) / self.sigma**2
        product = np.einsum("m,mdq->dq", kernels, self.matrices @ direction)
        product -= np.einsum("m,mdq->dq", slopes, images)
        return sum_large(self.comm, product) / self.sigma**2
