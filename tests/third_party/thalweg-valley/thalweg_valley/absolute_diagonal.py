"""A diagonal preconditioner for objectives that are not convex."""

import numpy as np

from thalweg.engines.hessian import HessianDiagonal
from thalweg.interfaces import Preconditioner
from thalweg.parallel import sum_over_ranks


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
        self.objective, self.diagonal = objective, x.duplicate()
        self.update(x)

    def update(self, x):
        """Evaluate the diagonal at a new iterate."""
        self.objective.hessian_diagonal(x, self.diagonal)
        layout = self.objective.layout
        with layout.writing(self.diagonal) as block:
            np.abs(block, out=block)
            mean = sum_over_ranks(layout.comm, float(block.sum())) / max(1, self.diagonal.getSize())
            block.clip(min=self.floor * mean if mean > 0 else 1.0, out=block)

    def apply(self, residual, direction):
        """Divide by the diagonal."""
        np.divide(residual.rows, self.diagonal.rows, out=direction.rows)
