"""A diagonal preconditioner for objectives that are not convex."""

from thalweg.engines.hessian import HessianDiagonal
from thalweg.interfaces import Preconditioner
from thalweg.parallel import PETSc


class AbsoluteDiagonal(Preconditioner):
    """``B = max(|diag H|, floor * mean |diag H|)``.

    Parameters
    ----------
    floor
        Least entry, over the mean of all.
    """

    requires = (HessianDiagonal,)

    def __init__(self, floor=0.05):
        self.floor = floor
        self.diagonal = None

    def setup(self, objective, x):
        """Evaluate the diagonal at the starting point."""
        self.destroy()
        self.objective, self.diagonal = objective, x.duplicate()
        self.update(x)

    def update(self, x):
        """Evaluate the diagonal at a new iterate."""
        self.objective.hessian_diagonal(x, self.diagonal)
        self.diagonal.abs()
        mean = self.diagonal.norm(PETSc.NormType.NORM_1) / max(1, self.diagonal.getSize())
        with self.objective.layout.writing(self.diagonal) as block:
            block.clip(min=self.floor * mean if mean > 0 else 1.0, out=block)

    def apply(self, residual, direction):
        """Divide by the diagonal."""
        direction.pointwiseDivide(residual, self.diagonal)

    def destroy(self):
        """Free the diagonal."""
        if self.diagonal is not None:
            self.diagonal.destroy()
            self.diagonal = None
