"""Inner products of one vector with several, in one global reduction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.parallel import PETSc


def inner_products(vec: PETSc.Vec, others: Sequence[PETSc.Vec]) -> np.ndarray:
    """``[vec . other for other in others]``, float64.  Collective.

    petsc4py leaves ``VecMDot`` out in some versions; PETSc's split-phase
    reductions give the same single message.
    """
    for other in others:
        vec.dotBegin(other)
    return np.array([vec.dotEnd(other) for other in others], dtype=float)
