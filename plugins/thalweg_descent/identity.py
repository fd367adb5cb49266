"""The preconditioner that does nothing: B = I."""

from __future__ import annotations

from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import Vector


class Identity(Preconditioner):
    """B = I: gradient descent is then plain, and L-BFGS scales its own H0."""

    def setup(self, objective: Objective, x: Vector) -> None:
        """Nothing to prepare."""

    def apply(self, residual: Vector, direction: Vector) -> None:
        """Copy ``residual`` to ``direction``."""
        residual.copy(direction)
