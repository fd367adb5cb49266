"""A diagonal preconditioner for objectives that are not convex."""

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

    def setup(self, objective, x):
        """Evaluate the diagonal at the starting point."""
        self.objective = objective
        self.update(x)

    def update(self, x):
        """Evaluate the diagonal at a new iterate."""
        size, layout = abs(self.objective.hessian_diagonal(x)), self.objective.layout
        mean = sum_over_ranks(layout.comm, float(size.sum())) / max(1, layout.size)
        self.diagonal = size.clip(min=self.floor * mean if mean > 0 else 1.0)

    def apply(self, residual):
        """Divide by the diagonal."""
        return residual / self.diagonal
