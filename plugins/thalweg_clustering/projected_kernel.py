"""Interface of kernels of projected rows, and the weights of their pairs.

Exact sums and the Nystrom approximation both give, for W of shape (d, q) and weights gamma, the
value of F(W) (eq. 4 of Wu et al. 2018), its gradient, the matrix Phi(W), Hessian products, row sums
and the embedding.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.numerics import inner_products
from thalweg.parallel import Identified, Layout, sketch, sum_large, sum_over_ranks
from thalweg_clustering.kernel_sums import KernelSums
from thalweg_clustering.kernels import KernelFunction, symmetric


@dataclass(frozen=True)
class PairWeights:
    """Weights gamma_ij = sum_c s_c p_ic p_jc between all pairs of rows, of low rank."""

    factor: np.ndarray  # p, this rank's rows, shape ``(n_local, r)``
    signs: np.ndarray  # s, equal on all ranks, shape ``(r,)``


@dataclass(frozen=True)
class DerivativeSums:
    """Sums over pairs of k, k' and k'': each by an engine, and times a factor."""

    engines: tuple[KernelSums, KernelSums, KernelSums]
    factors: tuple[float, float, float]

    @classmethod
    def of(cls, layout: Layout, function: KernelFunction, single: bool = False) -> "DerivativeSums":
        """Compiled for the Gaussian kernel, in single precision if asked."""
        if function.gaussian:
            one = KernelSums(layout, dtype=np.float32 if single else np.float64)
            return cls((one, one, one), (1.0, -0.5, 0.25))
        k, first, second = (
            KernelSums(layout, order, function.of)
            for order in (function.value, function.first, function.second)
        )
        return cls((k, first, second), (1.0, 1.0, 1.0))


class ProjectedKernel(Identified, ABC):
    """Sums over all pairs of rows of a kernel of the projected rows W'x / sigma.

    ``points`` are this rank's rows x, shape ``(n_local, d)``, sigma has their unit.
    """

    description: str = "exact sums"  # for notes, such as "256 landmarks"

    #: Relative rounding error of a value, in units of the sum of absolute terms.
    rounding: float = 1e-13

    seed: int | None = None  # seed of an approximation

    def __init__(
        self, layout: Layout, points: np.ndarray, sigma: float, function: KernelFunction
    ) -> None:
        self.layout = layout
        self.points = points
        self.sigma = float(sigma)
        self.function = function

    def identity(self) -> dict[str, Any]:
        """Rows, width and function of the kernel, and its approximation."""
        facts = f"{self.sigma:.9g}", self.function, self.description, self.seed
        return {"points": sketch(self.layout, self.points), "facts": facts}

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
        """F(W) and its gradient, shape ``(d, q)``."""

    @abstractmethod
    def value_and_matrix(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        """F(W) and Phi(W), shape ``(d, d)``."""

    def hessian_product(
        self, w: np.ndarray, direction: np.ndarray, weights: PairWeights
    ) -> np.ndarray:
        """Derivative of the gradient along ``direction``, shape ``(d, q)``; of exact sums."""
        raise InputError(f"{self.description} have no Hessian products; use approximation 'exact'")

    def curvature_bound(self, w: np.ndarray, weights: PairWeights) -> float:
        """Right-hand side of condition (10); NaN where it is not known."""
        return float("nan")

    def flat_matrix(self, weights: PairWeights) -> np.ndarray:
        """Phi where every k' is the same: the matrix of the spectral initialization (eq. 12)."""
        factor, signs, points = weights.factor, weights.signs, self.points
        comm = self.layout.comm
        moments = inner_products(self.layout, points, factor)
        matrix = -(moments * signs) @ moments.T
        if self.function.of == "distance":
            degrees = factor @ (signs * np.asarray(sum_over_ranks(comm, factor.sum(axis=0))))
            matrix += sum_large(comm, np.ascontiguousarray((points.T * degrees) @ points))
        return symmetric((2.0 / self.sigma**2) * matrix)
