"""Mean and principal directions of distributed rows.

:func:`principal_components` projects on the leading directions.  :class:`PrincipalFrame` is for
bounds: its sums are exact, so that mean and directions have the same bits at any rank count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import threadpoolctl

from thalweg.errors import InputError
from thalweg.parallel.layout import Layout
from thalweg.parallel.reductions import max_over_ranks, sum_large, sum_over_ranks

#: Largest number of columns, or else rows, for which a matrix of that size is decomposed.
EXACT_SIZE = 4096

#: Subspace iterations beyond that end when no variance changes by more than this.
_TOLERANCE = 1e-9
_ITERATIONS = 100
_EXTRA = 20

#: Dimension above which the leading directions come from a sample of the points.
LARGE_DIMENSION = 2048


class PrincipalFrame:
    """Mean, principal directions and variances of distributed points.  Collective.

    Sums over points are made of integers: the points, rounded to a grid fine
    enough for directions, coarse enough that every sum is exact.

    Parameters
    ----------
    points
        This rank's points, shape ``(n_local, dimension)``: an array, or sparse rows whose
        slices are arrays.
    layout
        Distribution of the points over the ranks.
    sampled
        Some of the points, equal on all ranks.

    Attributes
    ----------
    mean
        About the mean point, shape ``(dimension,)``.
    directions
        Leading principal directions as rows, orthonormal.
    variances
        Along the directions, largest first, times the number of points.
    centered_sizes
        Squared norms of this rank's points about the mean.
    sampled
        As given.
    """

    def __init__(self, points: Any, layout: Layout, sampled: np.ndarray) -> None:
        comm, dimension = layout.comm, points.shape[1]
        self.sampled = sampled
        n, small = max(1, layout.rows), dimension <= LARGE_DIMENSION
        center = sampled.mean(axis=0) if len(sampled) else np.zeros(dimension)
        blocks = row_blocks(*points.shape)
        farthest = max((float(np.abs(points[b] - center).max()) for b in blocks), default=0.0)
        farthest = max_over_ranks(comm, farthest)
        bits = min(24, int((52 - np.log2(n)) // 2))
        grid = farthest / 2.0**bits if farthest > 0 else 1.0
        total = np.zeros(dimension)
        scatter = np.zeros((dimension, dimension) if small else (0, 0))
        for block in blocks:
            rows = np.rint((points[block] - center) / grid)
            total += rows.sum(axis=0)
            if small:
                scatter += rows.T @ rows
        sum_large(comm, total)
        self.mean = center + grid * (total / n)
        self.centered_sizes = np.empty(len(points))
        for block in blocks:
            centered = points[block] - self.mean
            self.centered_sizes[block] = np.einsum("ij,ij->i", centered, centered)
        # One thread: with more, LAPACK may round differently.
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
            if small:
                sum_large(comm, scatter)
                scatter -= np.outer(total, total / n)
                values, vectors = _leading(scatter)
                self.variances = np.maximum(values, 0.0) * grid**2
                self.directions = np.ascontiguousarray(vectors.T)
            else:
                _, values, vectors = scipy.linalg.svd(sampled - self.mean, full_matrices=False)
                self.variances = values**2 * (n / max(1, len(sampled)))
                self.directions = np.ascontiguousarray(vectors)
        _fix_signs(self.directions)
        self.directions = comm.bcast(self.directions)
        self.variances = comm.bcast(self.variances)


def row_blocks(rows: int, columns: int) -> list[slice]:
    """Slices that cover the rows, each of a few million numbers."""
    size = min(4096, max(64, 2**23 // max(1, columns)))
    return [slice(k, min(rows, k + size)) for k in range(0, rows, size)]


def _fix_signs(directions: np.ndarray) -> None:
    """Make each direction's largest entry positive, so that every rank has the same."""
    if len(directions):
        at = np.abs(directions).argmax(axis=1)
        directions *= np.where(directions[np.arange(len(directions)), at] < 0, -1.0, 1.0)[:, None]


def _leading(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of a symmetric matrix, the largest first, and eigenvectors as columns."""
    values, vectors = scipy.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


def column_means(values: np.ndarray | scipy.sparse.csr_matrix, layout: Layout) -> np.ndarray:
    """Mean of each column, shape ``(columns,)``, equal on all ranks.  Collective."""
    sums = np.asarray(values.sum(axis=0, dtype=float)).ravel()
    return np.asarray(sum_over_ranks(layout.comm, sums)) / layout.rows


def check_components(rows: int, columns: int, components: int) -> None:
    """Refuse more principal components than rows or columns.

    Raises
    ------
    InputError
        There are not so many.
    """
    most = min(rows, columns)
    if components > most:
        raise InputError(
            f"data of {rows} rows and {columns} columns have at most {most} principal components, "
            f"not {components}"
        )


def principal_components(
    values: np.ndarray | scipy.sparse.csr_matrix, layout: Layout, components: int
) -> np.ndarray:
    """Rows projected on their leading principal directions.  Collective.

    With few columns their covariance matrix is summed over the ranks and
    decomposed; with few rows, their matrix of inner products.  With more than
    :data:`EXACT_SIZE` of both, and for sparse rows, block subspace iteration finds the
    directions from products with the rows alone.

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
        _fix_signs(directions)
        return np.asarray(values @ directions.T - mean @ directions.T)
    centered = values - mean.astype(values.dtype)
    if values.shape[1] <= EXACT_SIZE:
        scatter = _product(layout, centered, centered)
        directions = _on_every_rank(layout, scatter, components).T
    elif layout.rows <= EXACT_SIZE:
        directions = _from_inner_products(centered, layout, components)
    else:
        directions = _from_subspace(centered, np.zeros_like(mean), layout, components)
    _fix_signs(directions)
    return np.ascontiguousarray(centered @ directions.T.astype(values.dtype))


def _product(
    layout: Layout, left: np.ndarray | scipy.sparse.csr_matrix, right: np.ndarray
) -> np.ndarray:
    return sum_large(layout.comm, np.ascontiguousarray(left.T @ right, dtype=float))


def _on_every_rank(layout: Layout, matrix: np.ndarray, count: int) -> np.ndarray:
    """Leading eigenvectors of a matrix, as columns, as rank 0 computes them.  Collective."""
    found = _leading(matrix)[1][:, :count].copy() if layout.comm.rank == 0 else None
    return np.asarray(layout.comm.bcast(found, root=0))


def _from_inner_products(centered: np.ndarray, layout: Layout, components: int) -> np.ndarray:
    """Directions X' u / |X' u| from the eigenvectors u of X X'."""
    comm = layout.comm
    mine = np.empty((layout.local_rows, layout.rows), dtype=centered.dtype)
    for owner, count in enumerate(layout.counts()):
        block = centered if owner == comm.rank else np.empty((count, centered.shape[1]), mine.dtype)
        comm.Bcast(block, root=owner)
        mine[:, layout.starts[owner] : layout.starts[owner + 1]] = centered @ block.T
    leading = _on_every_rank(layout, layout.gather_on_root(mine).astype(float), components)
    directions = _product(layout, layout.local(leading).astype(centered.dtype), centered)
    lengths = np.linalg.norm(directions, axis=1)
    # Centered rows span one dimension less than there are rows: that direction stays zero.
    lengths[lengths <= 1e-7 * lengths[0]] = np.inf
    return directions / lengths[:, None]


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
        product = _product(layout, rows, images)
        # Rayleigh-Ritz within the subspace: ordered directions, and variances to watch.
        variances, rotation = comm.bcast(_leading(basis.T @ product), root=0)
        change = np.abs(variances - before)[:components]
        if number == _ITERATIONS - 1 or (change <= _TOLERANCE * variances[0]).all():
            break
        basis = comm.bcast(np.linalg.qr(product @ rotation)[0], root=0)
        before = variances
    return np.ascontiguousarray((basis @ rotation[:, :components]).T)
