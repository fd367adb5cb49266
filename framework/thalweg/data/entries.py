"""Entries of a data set: numbers that can be computed with, and labels as integers from 0."""

import math
import re
from contextlib import suppress
from numbers import Integral
from typing import Any

import numpy as np

from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import Layout, max_over_ranks

EXACT = 2.0**53  #: From here on, floating-point numbers do not tell integers apart.

#: An integer as programs and ``numpy.savetxt`` write it; "01", "1_0" and "1E1" are names.
_INTEGER = re.compile(r"-?((0|[1-9][0-9]*)(\.0*)?|[0-9]\.[0-9]{18}e[+-][0-9]{2})")
_UNKNOWN = re.compile(r"|-1(\.0*)?(e\+00)?")


def encode_labels(raw: np.ndarray, what: str) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Labels as integers from 0 to k - 1, and their names, None if they were such integers already.

    ``raw`` has numbers or strings, one per row, or is a one-hot table of 0 and 1.  An
    ``InputError`` for fractions, NaN, floating-point numbers from 2^53 on, and other tables.
    """
    refuse_masked(raw, what)
    raw = label_array(raw)
    if raw.ndim > 1 and raw.size == max(raw.shape):  # a column, or a row as MATLAB saves lists
        raw = raw.reshape(-1)
    if raw.ndim == 2:
        if raw.dtype.kind not in "buif" or set(np.unique(raw)) - {0, 1} or (raw.sum(1) != 1).any():
            raise InputError(
                f"{what} must be one label per row, or a table with a single 1 in each row; "
                f"it has {raw.shape[1]} columns of other values"
            )
        raw = raw.argmax(axis=1)
    if raw.ndim != 1:
        raise InputError(f"{what} must be one label per row, not of shape {raw.shape}")
    if raw.dtype.kind == "S":
        raw = np.char.decode(raw, "utf-8", "backslashreplace")
    if raw.dtype.kind == "U":
        try:
            numbers = raw.astype(float)
        except ValueError:
            numbers = np.full(1, EXACT)
        integers = np.array_equal(numbers, np.rint(numbers))
        names = integers and not all(map(_INTEGER.fullmatch, np.unique(raw)))
        if names or np.abs(numbers).max(initial=0.0) >= EXACT:
            values, labels = np.unique(raw, return_inverse=True)
            return labels.astype(np.int64), tuple(str(value) for value in values)
        raw = numbers
    if raw.dtype.kind not in "buif":
        raise InputError(f"{what} must be integers or strings, not {raw.dtype}")
    if raw.dtype.kind == "f":
        wrong = np.flatnonzero(~((np.abs(raw) < EXACT) & (raw == np.rint(raw))))
        if len(wrong):
            raise InputError(
                f"{what} must be integers or strings, but row {wrong[0]} (counted from 0) "
                f"has {raw[wrong[0]]}"
            )
    whole = raw if raw.dtype.kind == "u" else raw.astype(np.int64)
    values, labels = np.unique(whole, return_inverse=True)
    if np.array_equal(values, np.arange(len(values))):
        return whole.astype(np.int64), None
    return labels.astype(np.int64), tuple(str(value) for value in values)


def label_array(labels: Any) -> np.ndarray:
    """Labels as an array: of strings, or of objects where a list or frame has others beside them.

    NumPy would make such a list one of strings, and NaN in it a name, or round large integers.
    """
    array = np.asanyarray(labels)
    is_rounded = array.dtype.kind == "f" and EXACT <= np.nanmax(np.abs(array), initial=0) < np.inf
    if (is_rounded or array.dtype.kind in "US") and not hasattr(labels, "dtype"):
        array = np.asarray(labels, dtype=object)
    for text in (str, bytes) if array.dtype.kind == "O" else ():
        if all(isinstance(label, text) for label in array.flat):
            return array.astype(text)
    return array


def is_unknown(name: str) -> bool:
    """Whether a label's name marks rows without one: empty, or -1 as programs write it."""
    return _UNKNOWN.fullmatch(name) is not None


def mark_unknown(labels: np.ndarray, names: tuple[str, ...] | None) -> np.ndarray:
    """Labels with -1 in place of those whose names mark unknown rows."""
    unknown = np.array([is_unknown(name) for name in names or ()], dtype=bool)
    return np.where(unknown[labels], -1, labels) if unknown.any() else labels


def is_missing(label: Any) -> bool:
    """Whether a label is None, or does not equal itself: NaN, NaT, or NA of pandas."""
    equal = label == label  # of NA neither true nor false
    return label is None or not (isinstance(equal, bool | np.bool_) and equal)


def plain_label(label: Any) -> Any:
    """A label that means the same beside labels of other types: 1 and 1.0 are one, none is ""."""
    if is_missing(label):
        return ""
    if isinstance(label, bytes):
        return label.decode("utf-8", "backslashreplace")
    with suppress(TypeError, ValueError, OverflowError):
        return int(label) if int(label) == label else label
    return label


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
    if flat.dtype.kind != "O" and max(int(flat.max(initial=0)), -int(flat.min(initial=0))) < EXACT:
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
