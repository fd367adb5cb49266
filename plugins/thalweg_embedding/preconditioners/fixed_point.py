"""FP: the diagonal 4 D+ of the attractive Laplacian."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thalweg.interfaces import AttractiveLaplacian, Capability, Objective, Preconditioner
from thalweg.parallel import PETSc
from thalweg_embedding.preconditioners.degrees import attractive_degrees


class FixedPoint(Preconditioner):
    """B = 4 D+, the fixed-point iteration of Carreira-Perpinan (2010).

    A point whose degree is less than a thousandth of the mean counts as one of that
    degree.
    """

    requires: ClassVar[tuple[type[Capability], ...]] = (AttractiveLaplacian,)

    _objective: Objective
    _inverse: np.ndarray

    def setup(self, objective: Objective, x: PETSc.Vec) -> None:
        """Take the degrees at ``x``."""
        self._objective = objective
        self._take(x)

    def update(self, x: PETSc.Vec) -> None:
        """Take the degrees again, where the attraction changes."""
        assert isinstance(self._objective, AttractiveLaplacian)
        if self._objective.attraction_changes:
            self._take(x)

    def _take(self, x: PETSc.Vec) -> None:
        objective = self._objective
        assert isinstance(objective, AttractiveLaplacian)
        degrees = attractive_degrees(objective, objective.layout, x)
        self._inverse = 1.0 / (objective.attraction_scale * degrees[:, None])

    def apply(self, residual: PETSc.Vec, direction: PETSc.Vec) -> None:
        """Divide each row by 4 times its degree."""
        layout = self._objective.layout
        with layout.writing(direction) as rows:
            np.multiply(layout.reading(residual), self._inverse, out=rows)
