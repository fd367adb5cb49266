"""Diagonal preconditioners: the degrees of the attractive graph, or of the Hessian's diagonal."""

from typing import Any, ClassVar

import numpy as np

from thalweg.engines.hessian import HessianDiagonal
from thalweg.engines.laplacian import AttractiveLaplacian
from thalweg.interfaces import Capability, Preconditioner
from thalweg.parallel import Array, Layout, sum_over_ranks
from thalweg_embedding.relocation import degrees_and_free

#: A degree is at least this share of the mean: a point without neighbors moves like the others.
SMALLEST_SHARE = 1e-3


def floored(layout: Layout, numbers: np.ndarray) -> np.ndarray:
    """``numbers`` with those below a thousandth of their mean raised to it.  Collective."""
    count = layout.rows * max(1, numbers.size // max(1, layout.local_rows))
    mean = float(sum_over_ranks(layout.comm, float(np.abs(numbers).sum()))) / max(1, count)
    return np.maximum(numbers, SMALLEST_SHARE * mean if mean > 0.0 else 1.0)


class FixedPoint(Preconditioner):
    """B = 4 D+, the fixed-point iteration of Carreira-Perpinan (2010).

    A point whose degree is less than a thousandth of the mean counts as one of that degree.
    """

    requires: ClassVar[tuple[type[Capability], ...]] = (AttractiveLaplacian,)

    def setup(self, objective: Any, x: Array) -> None:
        degrees = floored(objective.layout, degrees_and_free(objective, x)[0])
        self._inverse = 1.0 / (objective.attraction_scale * degrees[:, None])
        self._objective = objective

    def update(self, x: Array) -> None:
        if self._objective.attraction_changes:
            self.setup(self._objective, x)

    def apply(self, residual: Array) -> Array:
        return residual * self._inverse


class HessianDiagonalScaling(Preconditioner):
    """B = 4 D+ + 8 lambda diag(L^xx) with positive weights, taken anew at every iterate.

    For an objective that offers no such partial diagonal: the absolute value of its
    Hessian's diagonal.  Entries below a thousandth of the mean are raised to it.
    """

    requires: ClassVar[tuple[type[Capability], ...]] = (HessianDiagonal,)

    def setup(self, objective: Any, x: Array) -> None:
        diagonal = getattr(objective, "partial_hessian_diagonal", objective.hessian_diagonal)(x)
        self._diagonal = floored(objective.layout, np.abs(diagonal))
        self._objective = objective

    def update(self, x: Array) -> None:
        self.setup(self._objective, x)

    def apply(self, residual: Array) -> Array:
        return residual / self._diagonal
