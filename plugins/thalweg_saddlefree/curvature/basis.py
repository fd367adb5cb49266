"""Orthonormal basis of a Krylov space, kept orthogonal to rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from thalweg.errors import NumericalError
from thalweg_saddlefree.curvature.operator import Product, refuse_asymmetry
from thalweg_saddlefree.curvature.slices import Slices
from thalweg_saddlefree.curvature.store import Store

#: Maximum number of Lanczos steps in a search for negative curvature.
MAX_STEPS = 60

#: Ritz values above this part of the largest, negated, are rounding.
ROUNDING = 1e-10


class LanczosBasis:
    """Orthonormal basis of a Krylov space of H, kept orthogonal to rounding.

    Parameters
    ----------
    slices
        Distribution of vectors over the ranks.
    start
        This rank's slice of the vector that the space starts from; not zero.

    Attributes
    ----------
    diagonal, off_diagonal : list of float
        Entries of T; ``off_diagonal[k]`` is the norm of what step ``k`` left over.
    complete : bool
        Whether the space is invariant, so that more steps bring nothing.
    """

    def __init__(self, slices: Slices, start: np.ndarray) -> None:
        self.slices = slices
        self.start_norm = slices.norm(start)
        self.diagonal: list[float] = []
        self.off_diagonal: list[float] = []
        self.complete = False
        self._store = Store(slices)
        self._store.append(start / self.start_norm)
        self._scale = 0.0

    def __len__(self) -> int:
        """Steps taken."""
        return len(self.diagonal)

    def vector(self, index: int) -> np.ndarray:
        """This rank's slice of one basis vector, as a view."""
        return self._store[index]

    def extend(self, product: Product) -> None:
        """Take one step: one product, orthogonalized against the whole basis.

        Raises
        ------
        InputError
            The product is not symmetric: H v_k has a part along older vectors.
        NumericalError
            A product is not finite.
        """
        k = len(self)
        image = np.array(product(self.vector(k)))
        before = self._store.coefficients(image, k + 1)
        self._scale = max(self._scale, float(np.linalg.norm(before)))
        self._refuse_asymmetry(before, k)
        self._store.subtract(before, image)
        again = self._store.coefficients(image, k + 1)
        self._store.subtract(again, image)
        left = self.slices.norm(image)
        if not np.isfinite(left):
            raise NumericalError("a Hessian product is not finite")
        self._scale = max(self._scale, left)
        self.diagonal.append(float(before[k] + again[k]))
        self.off_diagonal.append(left)
        if left <= 1e-13 * self._scale or k + 1 >= self.slices.size:
            self.off_diagonal[k] = 0.0
            self.complete = True
        else:
            self._store.append(image / left)

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Slice of the vector with these coefficients in the basis.  Not collective."""
        return self._store.combine(coefficients)

    def tridiagonal(self, steps: int | None = None) -> np.ndarray:
        """T of the first ``steps`` steps, shape ``(steps + 1, steps)``."""
        m = len(self) if steps is None else steps
        matrix = np.zeros((m + 1, m))
        index = np.arange(m)
        matrix[index, index] = self.diagonal[:m]
        matrix[index + 1, index] = self.off_diagonal[:m]
        matrix[index[:-1], index[1:]] = self.off_diagonal[: m - 1]
        return matrix

    def ritz_values(self) -> np.ndarray:
        """Eigenvalues of the square part of T, ascending."""
        return np.asarray(
            scipy.linalg.eigvalsh_tridiagonal(self.diagonal, self.off_diagonal[: len(self) - 1])
        )

    def lowest_ritz_pair(self) -> tuple[float, np.ndarray]:
        """Most negative Ritz value, and this rank's slice of its unit Ritz vector."""
        values, vectors = scipy.linalg.eigh_tridiagonal(
            self.diagonal, self.off_diagonal[: len(self) - 1], select="i", select_range=(0, 0)
        )
        return float(values[0]), self.combine(vectors[:, 0])

    def _refuse_asymmetry(self, coefficients: np.ndarray, k: int) -> None:
        if k == 0:
            return
        expected = np.zeros(k)
        expected[k - 1] = self.off_diagonal[k - 1]
        refuse_asymmetry(float(np.linalg.norm(coefficients[:k] - expected)) / (self._scale or 1.0))


@dataclass(frozen=True)
class LowestCurvature:
    """Most negative Ritz value, this rank's slice of its unit vector, and Lanczos steps."""

    value: float
    vector: np.ndarray
    steps: int
    negative: bool


def lowest_curvature(slices: Slices, operator: Product, seed: int, steps: int) -> LowestCurvature:
    """Direction of most negative curvature, for a stationary point.  Collective.

    By Lanczos from a random vector, since there is no gradient to start from.
    """
    basis = LanczosBasis(slices, slices.random_normal(seed))
    while len(basis) < min(steps, MAX_STEPS) and not basis.complete:
        basis.extend(operator)
    size = max(float(np.abs(basis.ritz_values()).max()), 1e-300)
    value, vector = basis.lowest_ritz_pair()
    return LowestCurvature(value, vector, len(basis), value < -ROUNDING * size)
