"""Symmetric weights whose rows are distributed over the ranks: made and checked."""

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from thalweg.errors import InputError
from thalweg.parallel import Layout, RowRoutes, max_over_ranks, rows_at

#: A CSR matrix or a dense array: SciPy's types are not known to type checkers.
Weights: TypeAlias = Any


def assembled(
    layout: Layout, rows: np.ndarray, columns: np.ndarray, values: np.ndarray
) -> scipy.sparse.csr_matrix:
    """This rank's rows of a square matrix, of entries that the ranks have.  Collective.

    Entries at one place are added in the order of ranks, not in that of their arrival: the same
    bits every time.
    """
    routes = RowRoutes(layout.comm, layout.owners(rows))
    # One type on all ranks: SciPy chooses that of a rank's indices by the number of its entries.
    kind = np.int32 if layout.rows < 2**31 else np.int64
    columns = routes.deliver(columns.astype(kind, copy=False))
    rows = routes.deliver(rows.astype(kind, copy=False))
    rows -= kind(layout.start)
    values = routes.deliver(values)
    del routes  # which holds as much as a column of these
    return scipy.sparse.csr_matrix((values, (rows, columns)), (layout.local_rows, layout.rows))


def renumbered(
    matrix: scipy.sparse.csr_matrix, layout: Layout, numbers: np.ndarray, wanted: Layout
) -> scipy.sparse.csr_matrix:
    """This rank's rows in another layout of a square row-distributed matrix.  Collective.

    ``numbers`` are those that its rows on this rank get, and columns with them.
    """
    columns = rows_at(layout, numbers, matrix.indices)
    return assembled(wanted, np.repeat(numbers, np.diff(matrix.indptr)), columns, matrix.data)


def transposed(layout: Layout, matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """This rank's rows of the transpose of a square row-distributed matrix.  Collective."""
    own = np.arange(layout.start, layout.stop, dtype=matrix.indices.dtype)
    return assembled(layout, matrix.indices, np.repeat(own, np.diff(matrix.indptr)), matrix.data)


def column_numbers(layout: Layout, indices: np.ndarray) -> np.ndarray:
    """Global numbers of the entries' columns, in the smallest type that a sparse matrix takes."""
    return indices.astype(np.int32 if max(layout.rows, indices.size) < 2**31 else np.int64)


def both_ways(layout: Layout, columns: np.ndarray, entries: np.ndarray) -> tuple[Any, Any]:
    """A matrix with as many entries in each row, and its transpose.  Collective.

    ``columns`` are as :func:`column_numbers` gives, shape (local_rows, k), and ``entries`` those of
    the first ones.
    """
    local, width = entries.shape
    starts = width * np.arange(local + 1, dtype=columns.dtype)
    one_way = scipy.sparse.csr_matrix(
        (entries.ravel(), columns[:, :width].ravel(), starts), shape=(local, layout.rows)
    )
    return one_way, transposed(layout, one_way)


def check_weights(layout: Layout, weights: Weights) -> None:
    """Refuse weights that are no symmetric, non-negative graph without loops.  Collective."""
    if weights.shape != (layout.local_rows, layout.rows):
        raise InputError(
            f"affinities must be a square matrix over the rows, {layout.rows} x {layout.rows}; "
            f"give one row and one column for each point"
        )
    sparse = scipy.sparse.csr_matrix(weights)
    values, comm = sparse.data, layout.comm
    if max_over_ranks(comm, float(not np.isfinite(values).all())):
        raise InputError("affinities must be finite; remove NaN and infinite entries")
    if max_over_ranks(comm, float((-values).max(initial=0.0))) > 0.0:
        raise InputError("affinities must not be negative; clip or shift them")
    largest = max_over_ranks(comm, float(values.max(initial=0.0)))
    if largest == 0.0:
        raise InputError("affinities must not all be zero; give some pair a positive weight")
    loops = sparse.diagonal(k=layout.start) if layout.local_rows else np.zeros(0)
    if max_over_ranks(comm, float(np.abs(loops).max(initial=0.0))) > 0.0:
        raise InputError("affinities must have a zero diagonal; set the entries on it to zero")
    difference = sparse - transposed(layout, sparse)
    if max_over_ranks(comm, float(np.abs(difference.data).max(initial=0.0))) > 1e-9 * largest:
        raise InputError("affinities must be symmetric; pass (W + W.T) / 2")
