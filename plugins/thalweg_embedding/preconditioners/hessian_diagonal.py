"""DiagH: a diagonal of the Hessian, made positive."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thalweg.interfaces import Capability, HessianDiagonal, Objective, Preconditioner
from thalweg.parallel import PETSc
from thalweg_embedding.partial_diagonal import PartialHessianDiagonal
from thalweg_embedding.preconditioners.degrees import floored


class HessianDiagonalScaling(Preconditioner):
    """B = 4 D+ + 8 lambda diag(L^xx) with positive weights, taken anew at every iterate.

    For an objective that offers no such partial diagonal: the absolute value of its
    Hessian's diagonal.  Entries below a thousandth of the mean are raised to it.
    """

    requires: ClassVar[tuple[type[Capability], ...]] = (HessianDiagonal,)

    _objective: Objective
    _diagonal: PETSc.Vec

    def setup(self, objective: Objective, x: PETSc.Vec) -> None:
        """Take the diagonal at ``x``."""
        self._objective = objective
        self._diagonal = objective.layout.create_vec()
        self.update(x)

    def update(self, x: PETSc.Vec) -> None:
        """Take the diagonal at the new iterate."""
        objective = self._objective
        if isinstance(objective, PartialHessianDiagonal):
            objective.partial_hessian_diagonal(x, self._diagonal)
        else:
            assert isinstance(objective, HessianDiagonal)
            objective.hessian_diagonal(x, self._diagonal)
        with objective.layout.writing(self._diagonal) as rows:
            rows[...] = floored(objective.layout, np.abs(rows))

    def apply(self, residual: PETSc.Vec, direction: PETSc.Vec) -> None:
        """Divide by the diagonal."""
        direction.pointwiseDivide(residual, self._diagonal)

    def destroy(self) -> None:
        """Free the diagonal.  Collective."""
        if hasattr(self, "_diagonal"):  # a run may be refused before set-up
            self._diagonal.destroy()
