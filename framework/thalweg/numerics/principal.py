"""Principal components of distributed rows."""

import numpy as np
import scipy.linalg
import scipy.sparse

from thalweg.errors import InputError
from thalweg.parallel import Layout, Ring, sum_large, sum_over_ranks

#: Largest number of columns, or else rows, for which a matrix of that size, 128 MiB, is decomposed.
EXACT_SIZE = 4096

#: Subspace iterations beyond that end when no variance changes by more than this; chosen by hand.
_TOLERANCE = 1e-9

#: They end after so many at the latest; columns beside those asked for speed them; by hand.
_ITERATIONS, _EXTRA = 100, 20


def fix_signs(directions: np.ndarray) -> None:
    """Make each direction's largest entry positive, so that every rank has the same."""
    if len(directions):
        at = np.abs(directions).argmax(axis=1)
        directions *= np.where(directions[np.arange(len(directions)), at] < 0, -1.0, 1.0)[:, None]


def leading_eigenvectors(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of a symmetric matrix, the largest first, and eigenvectors as columns."""
    values, vectors = scipy.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


def column_means(values: np.ndarray | scipy.sparse.csr_matrix, layout: Layout) -> np.ndarray:
    """Mean of each column, shape ``(columns,)``, equal on all ranks.  Collective."""
    sums = np.asarray(values.sum(axis=0, dtype=float)).ravel()
    return np.asarray(sum_over_ranks(layout.comm, sums)) / layout.rows


def check_components(rows: int, columns: int, components: int) -> None:
    """Refuse more principal components than rows or columns."""
    most = min(rows, columns)
    if components > most:
        raise InputError(
            f"data of {rows} rows and {columns} columns have at most {most} principal components, "
            f"not {components}"
        )


def decomposed_size(rows: int, columns: int) -> int:
    """Rows of the square matrix that :func:`principal_components` decomposes, or more."""
    return columns if columns <= EXACT_SIZE else min(rows, EXACT_SIZE)


def principal_components(
    values: np.ndarray | scipy.sparse.csr_matrix, layout: Layout, components: int
) -> np.ndarray:
    """Rows projected on their leading principal directions.  Collective.

    With few columns their covariance matrix is summed over the ranks and decomposed; with few rows,
    their matrix of inner products.  With more than :data:`EXACT_SIZE` of both, and for sparse rows,
    block subspace iteration finds the directions from products with the rows alone.

    Parameters
    ----------
    values
        This rank's rows, shape ``(local_rows, columns)``, an array or CSR; left as they are.

    Returns
    -------
    ndarray, shape (local_rows, components)
        In the type of ``values``, the largest variance first, each direction
        signed so that its largest entry is positive.

    Raises
    ------
    InputError
        More components than rows or columns.
    """
    check_components(layout.rows, values.shape[1], components)
    mean = column_means(values, layout)
    if scipy.sparse.issparse(values):
        directions = _from_subspace(values, mean, layout, components)
        fix_signs(directions)
        return np.asarray(values @ directions.T - mean @ directions.T)
    centered = values - mean.astype(values.dtype)
    if values.shape[1] <= EXACT_SIZE:
        scatter = inner_products(layout, centered, centered)
        directions = _on_every_rank(layout, scatter, components).T
    elif layout.rows <= EXACT_SIZE:
        directions = _from_inner_products(centered, layout, components)
    else:
        directions = _from_subspace(centered, np.zeros_like(mean), layout, components)
    fix_signs(directions)
    return np.ascontiguousarray(centered @ directions.T.astype(values.dtype))


def inner_products(
    layout: Layout, left: np.ndarray | scipy.sparse.csr_matrix, right: np.ndarray
) -> np.ndarray:
    """Of all columns of distributed arrays, the same bits on every rank.  Collective."""
    return sum_large(layout.comm, np.ascontiguousarray(left.T @ right, dtype=float))


def _on_every_rank(layout: Layout, matrix: np.ndarray, count: int) -> np.ndarray:
    """Leading eigenvectors of a matrix, as columns, as rank 0 computes them.  Collective."""
    vectors = leading_eigenvectors(matrix)[1][:, :count].copy() if layout.comm.rank == 0 else None
    return np.asarray(layout.comm.bcast(vectors, root=0))


def _from_inner_products(centered: np.ndarray, layout: Layout, components: int) -> np.ndarray:
    """Directions X' u from the eigenvectors u of X X', made orthonormal."""
    comm = layout.comm
    mine = np.empty((layout.local_rows, layout.rows), dtype=centered.dtype)
    for block in Ring(layout).blocks(centered):
        mine[:, block.start : block.stop] = centered @ block.arrays[0].T
    leading = _on_every_rank(layout, layout.gather_on_root(mine).astype(float), components)
    directions = inner_products(layout, layout.local(leading).astype(centered.dtype), centered)
    # Centered rows span one dimension less than there are rows: X' u is rounding there, and may
    # point along any other direction.
    return np.ascontiguousarray(comm.bcast(np.linalg.qr(directions.T)[0].T))


def _from_subspace(
    rows: np.ndarray | scipy.sparse.csr_matrix, mean: np.ndarray, layout: Layout, components: int
) -> np.ndarray:
    """Directions of rows less their mean, which is 0 for centered ones."""
    comm, columns = layout.comm, rows.shape[1]
    width = min(components + _EXTRA, layout.rows, columns)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((columns, width)))[0]
    before = np.zeros(width)
    for number in range(_ITERATIONS):
        images = rows @ basis.astype(rows.dtype) - (mean @ basis).astype(rows.dtype)
        # Sums of images are zero, so that the mean drops out of this product.
        product = inner_products(layout, rows, images)
        # Rayleigh-Ritz within the subspace: ordered directions, and variances to watch.
        variances, rotation = comm.bcast(leading_eigenvectors(basis.T @ product), root=0)
        change = np.abs(variances - before)[:components]
        if number == _ITERATIONS - 1 or (change <= _TOLERANCE * variances[0]).all():
            break
        basis = comm.bcast(np.linalg.qr(product @ rotation)[0], root=0)
        before = variances
    return np.ascontiguousarray((basis @ rotation[:, :components]).T)
