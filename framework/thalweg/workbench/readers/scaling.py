"""The entries of a data set: checked, and scaled as asked for."""

import math

import numpy as np

from thalweg.data.scaling import entry_error, first_unusable, largest_value, magnitude
from thalweg.errors import InputError
from thalweg.numerics.principal import column_means
from thalweg.parallel import Layout, max_over_ranks, min_over_ranks
from thalweg.parallel.reductions import sum_over_ranks, values_of_all_ranks

#: A feature whose standard deviation is below this times its size is constant.
_CONSTANT = 1e-13

#: Sums of squares below this have lost digits, or all of them.
_LOST = 1e-290


def scale_unit(values: np.ndarray, layout: Layout, stored: np.dtype) -> None:
    """Divide, in place, pixels of 8 or 16 bits by 255 or 65,535, others by the largest size."""
    if stored.kind == "u" and stored.itemsize <= 2:
        largest = float(np.iinfo(stored).max)
    else:
        largest = max_over_ranks(layout.comm, np.abs(values).max(initial=0.0))
    if largest > 0:
        values /= values.dtype.type(largest)


def scale_standard(values: np.ndarray, layout: Layout) -> tuple[str, ...]:
    """Give each feature, in place, mean zero and variance one; notes on constant ones, now zero.

    Values that cannot be squared are brought to at most one beforehand.
    """
    largest = max_over_ranks(layout.comm, largest_value(values))
    if magnitude(largest, values.dtype, (layout.rows, layout.columns)):
        values /= values.dtype.type(largest)
    mean = column_means(values, layout)
    values -= mean.astype(values.dtype)
    squares = _sums_of_squares(values, layout)
    if (lost := squares < _LOST).any():  # beside others, or constant
        each = np.abs(values[:, lost]).max(axis=0, initial=0.0)
        largest = values_of_all_ranks(layout.comm, each).max(axis=0)
        largest[largest == 0.0] = 1.0
        values[:, lost] /= largest
        mean[lost] /= largest
        squares = _sums_of_squares(values, layout)
    deviation = np.sqrt(squares / layout.rows)
    constant = deviation <= _CONSTANT * np.maximum(np.abs(mean), np.finfo(float).tiny)
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


def _sums_of_squares(values: np.ndarray, layout: Layout) -> np.ndarray:
    squares = np.einsum("ij,ij->j", values, values, dtype=float)
    return np.asarray(sum_over_ranks(layout.comm, squares))


def check_entries(values: np.ndarray, layout: Layout, chosen: np.ndarray | None, what: str) -> None:
    """Refuse NaN, infinity and integers that float64 rounds, naming the first.  Collective."""
    at = first_unusable(values)
    first = min_over_ranks(layout.comm, math.inf if at < 0 else layout.start + at // layout.columns)
    if first == math.inf:
        return
    owner = int(layout.owners(np.array([first]))[0])
    entry = at % layout.columns, values.reshape(-1)[at].item() if layout.comm.rank == owner else 0
    column, value = layout.comm.bcast(entry, root=owner)
    row = int(first) if chosen is None else int(chosen[int(first)])
    raise entry_error(f"{what} has", value, row, column)
