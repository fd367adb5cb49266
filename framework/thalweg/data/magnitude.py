"""Whether numbers can be squared: distances of numbers too large or too small are lost."""

from __future__ import annotations

import math

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import Layout, max_over_ranks


def largest_value(values: np.ndarray) -> float:
    """Largest absolute value; 0 where there are no floating-point numbers."""
    if values.size == 0 or values.dtype.kind != "f":
        return 0.0
    # Not np.abs: it would copy the whole.
    return max(abs(float(values.max())), abs(float(values.min())))


def check_magnitude(values: np.ndarray, layout: Layout, what: str = "the data") -> None:
    """Refuse values whose squared distances overflow or vanish.  Collective.

    Parameters
    ----------
    values
        This rank's rows, of any real type.
    layout
        How the rows lie on the ranks.
    what
        Whose values they are.

    Raises
    ------
    InputError
        The sum of the squared differences of all rows might not be finite, or the
        squares of values 1e-8 times as large as the largest are no longer exact.

    Notes
    -----
    Values that are not finite are another matter, and pass.
    """
    largest = max_over_ranks(layout.comm, largest_value(values))
    refuse_magnitude(largest, values.dtype, (layout.rows, layout.columns), what)


def refuse_magnitude(
    largest: float, dtype: np.dtype, shape: tuple[int, ...], what: str = "the data"
) -> None:
    """:func:`check_magnitude` where the largest absolute value is known already."""
    size = magnitude(largest, dtype, shape)
    if size:
        raise InputError(
            f"the values of {what} are too {size} to square; scale the data, whose largest "
            f"absolute value is {largest:g}"
        )


def magnitude(largest: float, dtype: np.dtype, shape: tuple[int, ...]) -> str:
    """``"large"`` or ``"small"`` where values of this type cannot be squared, else ``""``."""
    if largest == 0.0 or not math.isfinite(largest):
        return ""
    limits = np.finfo(dtype)
    differences = max(1, math.prod(shape))
    if largest > 0.5 * math.sqrt(float(limits.max) / differences):
        return "large"
    return "small" if largest < math.sqrt(float(limits.tiny) / float(limits.eps)) else ""
