"""Degrees of the attractive graph, kept away from zero."""

from __future__ import annotations

import numpy as np

from thalweg.interfaces import AttractiveLaplacian
from thalweg.parallel import Layout, PETSc, sum_over_ranks

#: A degree is at least this share of the mean: a point without neighbours moves like the others.
SMALLEST_SHARE = 1e-3


def attractive_degrees(objective: AttractiveLaplacian, layout: Layout, x: PETSc.Vec) -> np.ndarray:
    """Row sums of the attractive weights, shape (local_rows,), all positive.  Collective."""
    degrees = np.asarray(objective.attractive_weights(x).sum(axis=1), dtype=float).ravel()
    return floored(layout, degrees)


def floored(layout: Layout, numbers: np.ndarray) -> np.ndarray:
    """``numbers`` with those below a thousandth of their mean raised to it.  Collective."""
    count = layout.rows * max(1, numbers.size // max(1, layout.local_rows))
    mean = float(sum_over_ranks(layout.comm, float(np.abs(numbers).sum()))) / max(1, count)
    least = SMALLEST_SHARE * mean if mean > 0.0 else 1.0
    return np.maximum(numbers, least)
