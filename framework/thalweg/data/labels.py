"""Labels: integers from 0, whatever they were in the file, which may be one of their own."""

import re
from typing import Any

import numpy as np

from thalweg.errors import InputError, refuse_masked

EXACT = 2.0**53  #: From here on, floating-point numbers do not tell integers apart.

#: An integer as programs and ``numpy.savetxt`` write it; "01", "1_0" and "1E1" are names.
_INTEGER = re.compile(r"-?((0|[1-9][0-9]*)(\.0*)?|[0-9]\.[0-9]{18}e[+-][0-9]{2})")


def encode_labels(raw: np.ndarray, what: str) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Labels as integers from 0 to k - 1, and their names, None if they were such integers already.

    ``raw`` has numbers or strings, one per row, or is a one-hot table of 0 and 1.  An
    ``InputError`` for fractions, NaN, floating-point numbers from 2^53 on, and other tables.
    """
    refuse_masked(raw, what)
    raw = np.asarray(raw)
    if raw.dtype.kind == "O" and all(isinstance(label, str) for label in raw.flat):
        raw = raw.astype(str)  # of a data frame
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


def mark_unknown(labels: np.ndarray, names: tuple[str, ...] | None) -> np.ndarray:
    """Labels with -1 in place of those called "-1" or nothing, which mark unknown rows."""
    unknown = np.isin(names or (), ("-1", ""))
    return np.where(unknown[labels], -1, labels) if unknown.any() else labels


def is_missing(label: Any) -> bool:
    """Whether a label is None, or does not equal itself: NaN, NaT, or NA of pandas."""
    equal = label == label  # of NA neither true nor false
    return label is None or not (isinstance(equal, bool | np.bool_) and equal)
