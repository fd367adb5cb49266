"""The preconditioner that does nothing: B = I."""

from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import Array


class Identity(Preconditioner):
    """B = I: gradient descent is then plain, and L-BFGS scales its own H0."""

    is_identity = True

    def setup(self, objective: Objective, x: Array) -> None:
        """Nothing to prepare."""

    def apply(self, residual: Array) -> Array:
        """``residual`` itself."""
        return residual
