"""A dense factorization, for small or full matrices."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from thalweg.errors import NumericalError


class DenseCholesky:
    """LAPACK's Cholesky factor of a whole matrix."""

    def __init__(self, whole: np.ndarray) -> None:
        try:
            # The transpose is the same matrix, and in LAPACK's order without a copy.
            self.factor = scipy.linalg.cho_factor(
                whole.T, lower=True, overwrite_a=True, check_finite=False
            )
        except np.linalg.LinAlgError as error:
            raise NumericalError(f"the Laplacian is not positive definite: {error}") from error

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for the right-hand sides."""
        return np.asarray(scipy.linalg.cho_solve(self.factor, block, check_finite=False))

    def destroy(self) -> None:
        """Nothing to free."""
