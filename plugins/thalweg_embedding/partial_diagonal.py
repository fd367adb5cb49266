"""The capability that ``hessian-diagonal`` prefers to a plain Hessian diagonal."""

from __future__ import annotations

from abc import abstractmethod

from thalweg.interfaces import HessianDiagonal
from thalweg.parallel import PETSc


class PartialHessianDiagonal(HessianDiagonal):
    """A positive diagonal of the partial Hessian, beside the diagonal of the whole one."""

    phrase = "diagonal of a partial Hessian"

    @abstractmethod
    def partial_hessian_diagonal(self, x: PETSc.Vec, diagonal: PETSc.Vec) -> None:
        """Overwrite ``diagonal`` with 4 D+ + 8 lambda diag(L^xx), L^xx of positive weights."""
