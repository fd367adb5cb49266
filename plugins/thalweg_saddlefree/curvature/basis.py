"""Orthonormal basis of a Krylov space, kept orthogonal to rounding."""

from typing import Any

import numpy as np
import scipy.linalg

from thalweg.errors import InputError, NumericalError
from thalweg.parallel import agreed
from thalweg_saddlefree.curvature.operator import ASYMMETRY, Product, refuse_asymmetry
from thalweg_saddlefree.curvature.slices import Slices, Store

#: Maximum number of Lanczos steps in a search for negative curvature; chosen by hand.
MAX_STEPS = 60

#: Ritz values above this part of the largest, negated, are rounding, or above so many rounding
#: units of the products; the latter was chosen by hand.
ROUNDING, RITZ_UNITS = 1e-10, 1e3

#: Rounding units of a projection, in the norm of what is projected.
UNITS = 4.0

#: What is left of a product belongs to the space if it is below so many rounding units, or
#: below this part of the largest coefficient.
INVARIANT_UNITS, INVARIANT = 16.0, 1e-13


class LanczosBasis:
    """Orthonormal basis of a Krylov space of H.

    A projection on the basis hands on what its last two vectors lack of being orthogonal,
    in the ratio of the coefficients along them to what is left. A bound of it is followed
    as in Simon (1984, "The Lanczos algorithm with partial reorthogonalization", section 2),
    and a second projection is made only where it exceeds the power 3/4 of the rounding unit.

    ``start`` is this rank's slice of the vector that the space starts from, not zero, and ``dtype``
    the type that vectors are stored in, by default double precision.  With ``solve``, the solution
    of B v = r for a positive definite B, the basis is of the space of B^-1 H from ``B^-1 start``,
    and orthonormal in the inner product u'Bv; images under B are stored beside it.
    """

    def __init__(
        self,
        slices: Slices,
        start: np.ndarray,
        dtype: np.dtype[Any] | None = None,
        solve: Product | None = None,
    ) -> None:
        self.slices = slices
        #: Entries of T; ``off_diagonal[k]`` is the norm of what step ``k`` left over.
        self.diagonal: list[float] = []
        self.off_diagonal: list[float] = []
        self.complete = False  # whether the space is invariant, so that more steps bring nothing
        self.second_projections = 0  # steps so far that were projected twice
        self._store = Store(slices, dtype)
        self._images = self._store if solve is None else Store(slices, dtype)
        self._solve = solve
        self._scale = 0.0
        self._rounding = float(np.finfo(self._store.dtype).eps)
        #: Norm of the start, in the metric of B^-1.
        self.start_norm, vector = self._solved(start)
        self._append(start, self.start_norm, vector)
        #: Bounds of the inner products of the last two vectors with those before them.
        self._drift = (0.0, 0.0)

    def __len__(self) -> int:
        """Steps taken."""
        return len(self.diagonal)

    def vector(self, index: int) -> np.ndarray:
        """This rank's slice of one basis vector, as a view."""
        return self._store[index]

    def extend(self, product: Product) -> None:
        """Take one step: one product, orthogonalized against the whole basis.

        It is refused if it is not symmetric, so that it has a part along older vectors.
        """
        k = len(self)
        image = np.array(product(self.vector(k)), dtype=self._store.dtype)
        along = self._store.coefficients(image, k + 1)
        self._scale = max(self._scale, agreed(self.slices.comm, float(np.linalg.norm(along))))
        if k:
            self._refuse_asymmetry(along, k)
        self._images.subtract(along, image)
        left, vector = self._solved(image)
        if self._has_drifted(along, left):
            again = self._store.coefficients(image, k + 1)
            self._images.subtract(again, image)
            along[k] += again[k]
            left, vector = self._solved(image)
            self.second_projections += 1
            self._drift = (self._drift[0], UNITS * self._rounding)
        self._scale = max(self._scale, left)
        self.diagonal.append(float(along[k]))
        self.off_diagonal.append(left)
        least = max(INVARIANT, INVARIANT_UNITS * self._rounding)
        if left <= least * self._scale or k + 1 >= self.slices.size:
            self.off_diagonal[k] = 0.0
            self.complete = True
        else:
            self._append(image, left, vector)

    def extend_to(self, steps: int, product: Product) -> int:
        """Take steps until there are so many, or the basis is complete; how many were taken."""
        before = len(self)
        while len(self) < steps and not self.complete:
            self.extend(product)
        return len(self) - before

    def _solved(self, image: np.ndarray) -> tuple[float, np.ndarray]:
        """Norm of B^-1 r in the inner product of B, and B^-1 r."""
        vector, double = image, image.astype(float, copy=False)
        if self._solve is None:
            left = self.slices.norm(double)
        else:
            vector = self._solve(double)
            left = float(np.sqrt(max(0.0, self.slices.dot(double, vector))))
        if not np.isfinite(left):
            raise NumericalError("a Hessian product is not finite")
        return left, vector

    def _append(self, image: np.ndarray, length: float, vector: np.ndarray) -> None:
        """Take in a vector and its image under B, both divided by its length."""
        self._store.append(vector / length)
        if self._images is not self._store:
            self._images.append(image / length)

    def _has_drifted(self, along: np.ndarray, left: float) -> bool:
        """Whether the bound on the inner products of the next vector is too large; moves it."""
        older, last = self._drift
        rounding = UNITS * self._rounding * float(np.hypot(np.linalg.norm(along), left))
        handed_on = abs(along[-1]) * last + (abs(along[-2]) * older if len(along) > 1 else 0.0)
        bound = (handed_on + rounding) / left if left > 0 else np.inf
        self._drift = (last, float(bound))
        return agreed(self.slices.comm, bool(bound > self._rounding**0.75))

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
        values = scipy.linalg.eigvalsh_tridiagonal(
            self.diagonal, self.off_diagonal[: len(self) - 1]
        )
        return agreed(self.slices.comm, np.asarray(values))

    def lowest_ritz_pair(self) -> tuple[float, np.ndarray]:
        """Most negative Ritz value, and this rank's slice of its unit Ritz vector."""
        values, vectors = scipy.linalg.eigh_tridiagonal(
            self.diagonal, self.off_diagonal[: len(self) - 1], select="i", select_range=(0, 0)
        )
        values, vectors = agreed(self.slices.comm, (values, vectors))
        return float(values[0]), self.combine(vectors[:, 0])

    def _refuse_asymmetry(self, coefficients: np.ndarray, k: int) -> None:
        expected = np.zeros(k)
        expected[k - 1] = self.off_diagonal[k - 1]
        asymmetry = float(np.linalg.norm(coefficients[:k] - expected)) / (self._scale or 1.0)
        if self._solve is not None and asymmetry > ASYMMETRY:
            raise InputError(
                "a basis in the metric of a preconditioner needs solves that are linear and exact "
                f"(relative asymmetry {asymmetry:.1e}); use another, or none"
            )
        refuse_asymmetry(asymmetry, self._store.dtype)


def lowest_curvature(
    slices: Slices, operator: Product, seed: int, steps: int, dtype: np.dtype[Any] | None = None
) -> tuple[float, np.ndarray | None, int]:
    """Direction of most negative curvature, for a stationary point.  Collective.

    The most negative Ritz value, this rank's slice of its unit vector, None where the value is not
    negative, and the Lanczos steps, from a random vector, since there is no gradient to start from.
    """
    basis = LanczosBasis(slices, slices.layout.random_normal(seed).ravel(), dtype)
    basis.extend_to(min(steps, MAX_STEPS), operator)
    size = max(float(np.abs(basis.ritz_values()).max()), 1e-300)
    value, vector = basis.lowest_ritz_pair()
    rounding = max(ROUNDING, RITZ_UNITS * basis._rounding)
    return value, vector if value < -rounding * size else None, len(basis)
