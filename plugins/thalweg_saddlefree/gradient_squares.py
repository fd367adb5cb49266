"""The diagonal that Martens preconditions conjugate gradients with."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from thalweg.interfaces import Objective
from thalweg.parallel import PETSc
from thalweg_saddlefree.curvature import Slices


class GradientSquares(ABC):
    """An objective that knows the mean squared derivative of its rows' losses.

    Martens (2010), section 4.7: the diagonal of the empirical Fisher matrix.
    """

    @abstractmethod
    def gradient_squares(self, x: PETSc.Vec, squares: PETSc.Vec) -> None:
        """Overwrite ``squares`` with the mean over rows of the squared derivatives."""


def mean_gradient_squares(objective: Objective, x: PETSc.Vec, slices: Slices) -> np.ndarray | None:
    """This rank's slice of them, or None where the objective does not know them.  Collective."""
    if not isinstance(objective, GradientSquares):
        return None
    squares = x.duplicate()
    try:
        objective.gradient_squares(x, squares)
        return slices.take(squares)
    finally:
        squares.destroy()
