"""Numbers that can be computed with: finite, and of a size that can be squared."""

import math
from numbers import Integral
from typing import Any

import numpy as np

from thalweg.data.labels import EXACT
from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import Layout, max_over_ranks

#: What is said of an integer that is not the same in float64.
ROUNDED = "which float64 rounds; subtract an offset from the column, or leave it out"


def first_unusable(values: np.ndarray) -> int:
    """Position in the flat array of the first NaN, infinity or integer that float64 rounds.

    It is -1 where there is none.
    """
    flat = values.reshape(-1)
    if flat.dtype.kind == "f":
        bad = ~np.isfinite(flat)
        return int(np.argmax(bad)) if bad.any() else -1
    if flat.dtype.kind != "O":
        largest = max(int(flat.max(initial=0)), -int(flat.min(initial=0)))
        if largest < EXACT:
            return -1
    for at in np.flatnonzero(~(np.abs(flat.astype(float)) < EXACT)):
        value = flat[at]
        if isinstance(value, Integral) and int(value) != float(value):
            return int(at)
    return -1


def refuse_rounded(data: Any) -> None:
    """Refuse masked arrays, and integers of any data that float64 rounds."""
    refuse_masked(data, "the data")
    if getattr(getattr(data, "dtype", None), "kind", "") == "f":
        return
    sparse = data.tocoo() if hasattr(data, "tocoo") else None
    try:
        values = np.asarray(data if sparse is None else sparse.data)
        if values.dtype.kind == "f" and not largest_value(values) < EXACT:
            values = np.asarray(data, dtype=object)  # integers of a list or a frame as they are
        at = -1 if values.dtype.kind not in "iuO" else first_unusable(values)
    except (ValueError, TypeError, OverflowError):
        return  # no numbers, of which others say more
    if at >= 0 and (sparse is not None or values.ndim == 2):
        row, column = divmod(at, values.shape[-1])
        if sparse is not None:
            row, column = sparse.row[at], sparse.col[at]
        raise entry_error("the data have", values.reshape(-1)[at], row, column)


def entry_error(what: str, value: Any, row: int, column: int) -> InputError:
    """Error on an entry of a table."""
    where = f"{what} {value} in row {row}, column {column} (both counted from 0)"
    if isinstance(value, Integral):
        return InputError(f"{where}, {ROUNDED}")
    return InputError(f"{where}; remove such rows or fill them in")


def largest_value(values: np.ndarray) -> float:
    """Largest absolute value; 0 where there are no floating-point numbers."""
    if values.size == 0 or values.dtype.kind != "f":
        return 0.0
    # Not np.abs: it would copy the whole.
    return max(abs(float(values.max())), abs(float(values.min())))


def check_magnitude(
    values: np.ndarray, layout: Layout, what: str = "the data", dtype: Any = None
) -> None:
    """Refuse values whose squared distances overflow or vanish.  Collective.

    Parameters
    ----------
    values, dtype
        This rank's rows, and the type that they are to get, or None.
    layout
        Distribution of the rows over the ranks.
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
    if largest == 0.0 or not math.isfinite(largest):
        return
    limits = np.finfo(dtype or values.dtype)
    is_large = largest > 0.5 * math.sqrt(float(limits.max) / max(1, layout.size))
    if is_large or largest < math.sqrt(float(limits.tiny) / float(limits.eps)):
        raise InputError(
            f"the values of {what} are too {'large' if is_large else 'small'} to square; scale "
            f"the data, whose largest absolute value is {largest:g}"
        )
