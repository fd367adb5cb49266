"""Numbers that can be computed with: finite, of a size that can be squared, scaled as asked for."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from thalweg.data.labels import EXACT
from thalweg.errors import InputError
from thalweg.numerics.principal import column_means
from thalweg.parallel import Layout, max_over_ranks, min_over_ranks, sum_over_ranks

#: What is said of an integer that is not the same in float64.
ROUNDED = "which float64 rounds; subtract an offset from the column, or leave it out"

#: A feature whose standard deviation is below this times its size is constant.
_CONSTANT = 1e-12


def scale_unit(values: np.ndarray, layout: Layout, stored: np.dtype) -> None:
    """Divide, in place, by the largest value possible: pixels of 8 bits by 255.  Collective.

    Unsigned numbers of 8 or 16 bits are divided by 255 or 65,535; all others by
    the largest absolute value there is, so that they lie within -1 and 1.
    """
    if stored.kind == "u" and stored.itemsize <= 2:
        largest = float(np.iinfo(stored).max)
    else:
        largest = max_over_ranks(layout.comm, np.abs(values).max(initial=0.0))
    if largest > 0:
        values /= values.dtype.type(largest)


def scale_standard(values: np.ndarray, layout: Layout) -> tuple[str, ...]:
    """Give each feature, in place, mean zero and variance one; notes on constant ones.  Collective.

    A constant feature has no variance to divide by: it becomes zero.  Values that cannot be squared
    are brought to at most one beforehand.
    """
    largest = max_over_ranks(layout.comm, largest_value(values))
    if magnitude(largest, values.dtype, (layout.rows, layout.columns)):
        values /= values.dtype.type(largest)
    mean = column_means(values, layout)
    values -= mean.astype(values.dtype)
    squares = np.einsum("ij,ij->j", values, values, dtype=float)
    deviation = np.sqrt(np.asarray(sum_over_ranks(layout.comm, squares)) / layout.rows)
    floor = _CONSTANT if values.dtype == np.float64 else 1e-6
    constant = deviation <= floor * np.maximum(np.abs(mean), np.finfo(float).tiny)
    values /= np.where(constant, 1.0, deviation).astype(values.dtype)
    values[:, constant] = 0.0
    if not constant.any():
        return ()
    which = np.flatnonzero(constant)
    if len(which) == len(mean):
        raise InputError("every column of the data is constant, so they cannot be standardized")
    shown = ", ".join(map(str, which[:5])) + (", ..." if len(which) > 5 else "")
    some = "1 column is" if len(which) == 1 else f"{len(which)} columns are"
    return (f"{some} constant and set to zero by scale = 'standard': {shown}",)


def check_entries(values: np.ndarray, layout: Layout, chosen: np.ndarray | None, what: str) -> None:
    """Refuse NaN, infinity and integers that float64 rounds, naming the first.  Collective."""
    at = first_unusable(values)
    first = min_over_ranks(layout.comm, math.inf if at < 0 else layout.start + at // layout.columns)
    if first == math.inf:
        return
    owner = int(layout.owners(np.array([first]))[0])
    found = at % layout.columns, values.reshape(-1)[at].item() if layout.comm.rank == owner else 0
    column, value = layout.comm.bcast(found, root=owner)
    row = int(first) if chosen is None else int(chosen[int(first)])
    raise entry_error(f"{what} has", value, row, column)


def first_unusable(values: np.ndarray) -> int:
    """Position in the flat array of the first NaN, infinity or integer that float64 rounds.

    It is -1 where there is none.
    """
    flat = values.reshape(-1)
    if flat.dtype.kind == "f":
        bad = ~np.isfinite(flat)
        return int(np.argmax(bad)) if bad.any() else -1
    if flat.dtype.kind != "O" and (flat.dtype.itemsize < 8 or _largest_integer(flat) < EXACT):
        return -1
    for at in np.flatnonzero(~(np.abs(flat.astype(float)) < EXACT)):
        value = flat[at]
        if isinstance(value, Integral) and int(value) != float(value):
            return int(at)
    return -1


def _largest_integer(values: np.ndarray) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def refuse_rounded(data: Any) -> None:
    """Refuse integers that float64 rounds, of an array, sparse matrix, list or data frame."""
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


def check_magnitude(values: np.ndarray, layout: Layout, what: str = "the data") -> None:
    """Refuse values whose squared distances overflow or vanish.  Collective.

    Parameters
    ----------
    values
        This rank's rows, of any real type.
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
