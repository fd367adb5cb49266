"""The preconditioner that does nothing: B = I."""

from __future__ import annotations

from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import PETSc


class Identity(Preconditioner):
    """B = I: gradient descent is then plain, and L-BFGS scales its own H0."""

    def setup(self, objective: Objective, x: PETSc.Vec) -> None:
        """Nothing to prepare."""

    def apply(self, residual: PETSc.Vec, direction: PETSc.Vec) -> None:
        """Copy ``residual`` to ``direction``."""
        residual.copy(direction)
