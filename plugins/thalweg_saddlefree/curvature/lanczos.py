"""|H| by Lanczos on H itself: one basis, every damping, one product a step.

With ``H V_m = V_(m+1) T`` (T tridiagonal with one row more than columns) the
matrix ``T'T`` is the projection of H^2 onto the Krylov space of H, so

    (H^2 + lam^2 I)^(-1/2) g  ~  V_m (T'T + lam^2 I)^(-1/2) e_1 |g|

The usual choice takes the absolute eigenvalues of the square part of T.  They
may fall anywhere between the negative and the positive spectrum, next to zero
included, and the step then jumps; the singular values of T never fall below the
smallest singular value of H.  At loose tolerances that saves a quarter of the
products.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from thalweg.errors import NumericalError
from thalweg_saddlefree.curvature.absolute import (
    AbsoluteSolver,
    Direction,
    Model,
    refuse_singular,
)
from thalweg_saddlefree.curvature.operator import Product, refuse_asymmetry
from thalweg_saddlefree.curvature.slices import Slices

#: Rows that the storage of a basis grows by.
GROWTH = 16

#: Lanczos steps between two looks at the error.
STRIDE = 4


class LanczosBasis:
    """Orthonormal basis of a Krylov space of H, kept orthogonal to rounding.

    Parameters
    ----------
    slices
        How vectors lie on the ranks.
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
        self._blocks = [np.empty((GROWTH, slices.local_size))]
        self._blocks[0][0] = start / self.start_norm
        self._scale = 0.0

    def __len__(self) -> int:
        """Steps taken."""
        return len(self.diagonal)

    def vector(self, index: int) -> np.ndarray:
        """This rank's slice of one basis vector, as a view."""
        return self._blocks[index // GROWTH][index % GROWTH]

    def extend(self, product: Product) -> None:
        """Take one step: one product, orthogonalised against the whole basis.

        Raises
        ------
        InputError
            The product is not symmetric: H v_k has a part along older vectors.
        NumericalError
            A product is not finite.
        """
        k = len(self)
        image = np.array(product(self.vector(k)))
        before = self._coefficients(image, k + 1)
        self._scale = max(self._scale, float(np.linalg.norm(before)))
        self._refuse_asymmetry(before, k)
        self._subtract(before, image)
        again = self._coefficients(image, k + 1)
        self._subtract(again, image)
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
            if (k + 1) % GROWTH == 0:
                self._blocks.append(np.empty((GROWTH, self.slices.local_size)))
            self.vector(k + 1)[...] = image / left

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Slice of the vector with these coefficients in the basis.  Not collective."""
        result = np.zeros(self.slices.local_size)
        for block, part in self._parts(len(coefficients)):
            result += coefficients[part] @ block
        return result

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

    def _parts(self, count: int) -> list[tuple[np.ndarray, slice]]:
        parts = []
        for number, block in enumerate(self._blocks):
            first, last = number * GROWTH, min((number + 1) * GROWTH, count)
            if first < last:
                parts.append((block[: last - first], slice(first, last)))
        return parts

    def _coefficients(self, image: np.ndarray, count: int) -> np.ndarray:
        local = np.concatenate([block @ image for block, _ in self._parts(count)])
        return self.slices.total(local)

    def _subtract(self, coefficients: np.ndarray, image: np.ndarray) -> None:
        for block, part in self._parts(len(coefficients)):
            image -= coefficients[part] @ block

    def _refuse_asymmetry(self, coefficients: np.ndarray, k: int) -> None:
        if k == 0:
            return
        expected = np.zeros(k)
        expected[k - 1] = self.off_diagonal[k - 1]
        refuse_asymmetry(float(np.linalg.norm(coefficients[:k] - expected)) / (self._scale or 1.0))


class LanczosAbsolute(AbsoluteSolver):
    """Steps for every damping from one Lanczos basis (see the module's first lines)."""

    def __init__(
        self,
        slices: Slices,
        product: Product,
        gradient: np.ndarray,
        tolerance: float = 1e-6,
        limit: int = 500,
    ) -> None:
        super().__init__(slices, product, gradient, tolerance, limit)
        self.basis = LanczosBasis(slices, gradient)

    @property
    def lowest(self) -> float:
        """Most negative Ritz value of H seen."""
        return float(self.basis.ritz_values()[0]) if len(self.basis) else float("nan")

    def direction(self, damping: float) -> Direction:
        """The step at this damping; the basis grows only where the error asks for it."""
        error = self._error(damping)
        while error > self.tolerance and not self.basis.complete and self.steps < self.limit:
            for _ in range(min(STRIDE, self.limit - self.steps)):
                self.basis.extend(self.product)
                self.steps += 1
                if self.basis.complete:
                    break
            error = self._error(damping)
        return self._direction(damping, error)

    def cheap_direction(self, damping: float) -> Direction:
        """The step at this damping from the present basis: no product whatever the error."""
        return self._direction(damping, self._error(damping))

    def _direction(self, damping: float, error: float) -> Direction:
        y = self._coordinates(damping, len(self.basis))
        square = self.basis.tridiagonal()[:-1]
        model = Model(slope=self.gradient_norm * float(y[0]), curvature=float(y @ square @ y))
        return Direction(self.basis.combine(y), model, error, error <= self.tolerance)

    def _coordinates(self, damping: float, steps: int) -> np.ndarray:
        matrix = self.basis.tridiagonal(steps)
        _, sigma, right = scipy.linalg.svd(matrix, full_matrices=False)
        if self.basis.complete:
            refuse_singular(float(sigma[-1]), float(sigma[0]), damping)
        return -self.gradient_norm * (right.T @ (right[:, 0] / np.hypot(sigma, damping)))

    def _error(self, damping: float) -> float:
        """Relative error of the step, extrapolated from how the last steps changed it.

        Convergence is geometric: when ``STRIDE`` steps change the step by d, and
        the ``STRIDE`` before them changed it by d', the changes still to come add
        up to about ``d q / (1 - q)`` with ``q = d / d'``.
        """
        m = len(self.basis)
        if self.basis.complete:
            return 0.0
        span = 2 * STRIDE
        if m < 2 * span + 1:
            return float("inf")
        now, before, earlier = (self._coordinates(damping, m - back) for back in (0, span, 2 * span))
        size = float(np.linalg.norm(now))
        last = _distance(now, before) / size
        previous = _distance(before, earlier) / size
        ratio = min(max(last / previous if previous > 0 else 0.0, 0.05), 0.95)
        return last * ratio / (1 - ratio)


def _distance(long: np.ndarray, short: np.ndarray) -> float:
    difference = long.copy()
    difference[: len(short)] -= short
    return float(np.linalg.norm(difference))
