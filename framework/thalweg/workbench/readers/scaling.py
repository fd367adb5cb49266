"""The entries of a data set: checked, and scaled as asked for."""

import math

import numpy as np

from thalweg.data.scaling import entry_error, first_unusable
from thalweg.errors import InputError
from thalweg.numerics.principal import column_means
from thalweg.parallel import Layout, max_over_ranks, min_over_ranks
from thalweg.parallel.reductions import sum_over_ranks, values_of_all_ranks

#: A feature whose standard deviation is below this times its size is constant.
_CONSTANT = 1e-13


def scale_unit(values: np.ndarray, layout: Layout, stored: np.dtype) -> None:
    """Divide, in place, pixels of 8 or 16 bits by 255 or 65,535, others by the largest size."""
    if stored.kind == "u" and stored.itemsize <= 2:
        largest = float(np.iinfo(stored).max)
    else:
        largest = max_over_ranks(layout.comm, np.abs(values).max(initial=0.0))
    if largest > 0:
        values /= values.dtype.type(largest)


def scale_standard(values: np.ndarray, layout: Layout) -> tuple[str, ...]:
    """Give each feature, in place, mean zero and variance one; notes on constant ones, now zero."""
    largest = np.maximum(values.max(axis=0, initial=0.0), -values.min(axis=0, initial=0.0))
    largest = values_of_all_ranks(layout.comm, largest).max(axis=0)
    # By a power of two, which rounds nothing, to at most 1, so that squares are finite.
    np.ldexp(values, -np.frexp(largest)[1], out=values)
    mean = column_means(values, layout)
    values -= mean.astype(values.dtype)
    squares = sum_over_ranks(layout.comm, np.einsum("ij,ij->j", values, values, dtype=float))
    deviation = np.sqrt(np.asarray(squares) / layout.rows)
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
