"""The pair sum as the paper's authors compute it, from an array of all differences."""

from __future__ import annotations

import numpy as np

from thalweg.parallel import MPI
from thalweg_clustering.stiefel_objectives import KernelPairSum, StiefelObjective


class StoredDifferences(StiefelObjective):
    """The objective of a :class:`KernelPairSum` of one rank, with n^2 x d numbers in memory."""

    def __init__(self, pair_sum: KernelPairSum) -> None:
        points = pair_sum.kernel.points
        super().__init__(MPI.COMM_SELF, points.shape[1], pair_sum.layout.columns)
        self.differences = (points[:, None] - points[None]).reshape(-1, points.shape[1])
        weights = pair_sum.weights
        self.gamma = ((weights.factor * weights.signs) @ weights.factor.T).ravel()
        self.sigma = pair_sum.kernel.sigma

    def _terms(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        images = self.differences @ w
        squares = np.einsum("mq,mq->m", images, images)
        return self.gamma * np.exp(-squares / (2 * self.sigma**2)), images

    def value(self, x: np.ndarray) -> float:
        """F at W."""
        return -float(self._terms(self.matrix(x))[0].sum())

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """F and Phi(W) W."""
        terms, images = self._terms(self.matrix(x))
        gradient = self.differences.T @ (terms[:, None] * images)
        return -float(terms.sum()), gradient / self.sigma**2

    def value_and_fixed_point_matrix(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """F and Phi(W)."""
        terms, _ = self._terms(self.matrix(x))
        return -float(terms.sum()), (self.differences.T * terms) @ self.differences / self.sigma**2

    def hessian_product(self, x: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Not computed: gradient descent needs none."""
        raise NotImplementedError
