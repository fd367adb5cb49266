"""The diagonal that Martens preconditions conjugate gradients with."""

from __future__ import annotations

from abc import ABC, abstractmethod

from thalweg.parallel import PETSc


class GradientSquares(ABC):
    """An objective that knows the mean squared derivative of its rows' losses.

    Martens (2010), section 4.7: the diagonal of the empirical Fisher matrix.
    """

    @abstractmethod
    def gradient_squares(self, x: PETSc.Vec, squares: PETSc.Vec) -> None:
        """Overwrite ``squares`` with the mean over rows of the squared derivatives."""
