"""The leading eigenvectors of a symmetric operator on distributed rows.

``lapack`` gathers the matrix on one rank (small problems); ``lobpcg`` needs only products: a block
Rayleigh-Ritz method that, like LOBPCG, expands its basis by the residuals, but keeps several of
them before it restarts, since here a product (a pass over all pairs of rows) costs far more than
the memory of a few thin blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from thalweg.errors import NumericalError
from thalweg.numerics import inner_products
from thalweg.parallel import Layout, agreed, on_root
from thalweg_clustering.kernels import symmetric

#: Product of the operator with this rank's rows, ``(n_local, m) -> (n_local, m)``; collective.
Product = Callable[[np.ndarray], np.ndarray]

#: Blocks that a basis holds before it is restarted.
DEPTH = 6


@dataclass(frozen=True)
class Subspace:
    """Leading invariant subspace."""

    #: This rank's rows of orthonormal eigenvectors, the largest eigenvalue first.
    vectors: np.ndarray
    values: np.ndarray  # their eigenvalues, and one more (NaN if unknown), shape ``(k + 1,)``


def dense_leading(layout: Layout, rows: np.ndarray, count: int) -> Subspace:
    """By LAPACK on rank 0, from this rank's rows of the matrix, ``(n_local, n)``.  Collective."""
    comm, n = layout.comm, layout.rows
    whole, first = layout.gather_rows(rows), max(0, n - count - 1)

    def eigenpairs() -> tuple[np.ndarray, np.ndarray]:
        matrix = symmetric(whole)
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=[first, n - 1], driver="evr")
        if len(values) < n - first:  # LAPACK misses some where very many are equal
            values, vectors = (part[..., first:] for part in scipy.linalg.eigh(matrix))
        return values[::-1], np.ascontiguousarray(vectors[:, ::-1][:, :count])

    values, vectors = on_root(comm, eigenpairs)
    known = np.full(count + 1, np.nan)
    known[: len(values)] = values[: count + 1]
    return Subspace(np.array(layout.local(vectors)), known)


def iterative_leading(
    layout: Layout,
    product: Product,
    start: np.ndarray,
    count: int,
    tolerance: float,
    most_products: int,
) -> Subspace:
    """By restarted block Rayleigh-Ritz from ``start``, rows of more than ``count`` columns.

    These leave room for guard vectors and the eigenvalue after the wanted ones.  Ends where
    residuals relative to the largest eigenvalue meet the tolerance, or after ``most_products``.
    Collective.
    """
    basis = orthonormal_columns(layout, start)
    if basis.shape[1] < count:
        raise NumericalError(f"the embedding has fewer than {count} independent directions")
    block = basis.shape[1]
    images, products = product(basis), 1  # counted in blocks
    previous: np.ndarray | None = None
    while True:
        matrix = symmetric(inner_products(layout, basis, images))
        values, rotation = agreed(layout.comm, tuple(np.linalg.eigh(matrix)))
        order = np.argsort(-values, kind="stable")[:block]
        values, rotation = values[order], rotation[:, order]
        vectors, moved = basis @ rotation, images @ rotation
        residual = moved - vectors * values
        norms = np.sqrt(np.maximum(np.diag(inner_products(layout, residual, residual)), 0.0))
        scale = max(abs(values[0]), np.finfo(float).tiny)
        if (norms[:count] <= tolerance * scale).all() or products >= most_products:
            break
        if basis.shape[1] + block > DEPTH * block:
            # Restart from the Ritz vectors and the directions that led to them.
            memory = vectors if previous is None else np.hstack([vectors, previous])
            overlaps = inner_products(layout, basis, memory)
            frame, values, _ = np.linalg.svd(overlaps, full_matrices=False)
            frame = agreed(layout.comm, frame[:, values > 1e-10 * values[0]])
            basis, images = basis @ frame, images @ frame
        previous = vectors
        fresh = orthonormal_columns(layout, residual[:, norms > 1e-3 * tolerance * scale], basis)
        if fresh.shape[1] == 0:
            break
        basis = np.hstack([basis, fresh])
        images = np.hstack([images, product(fresh)])
        products += 1
    known = np.full(count + 1, np.nan)
    known[: min(count + 1, block)] = values[: count + 1]
    return Subspace(np.ascontiguousarray(vectors[:, :count]), known)


def orthonormal_columns(
    layout: Layout, block: np.ndarray, against: np.ndarray | None = None
) -> np.ndarray:
    """An orthonormal basis of distributed columns' span, orthogonal to another.  Collective."""
    for _ in range(2):
        if against is not None:
            block = block - against @ inner_products(layout, against, block)
        gram = symmetric(inner_products(layout, block, block))
        if gram.shape[0] == 0:
            return block
        scale = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        values, vectors = agreed(layout.comm, tuple(np.linalg.eigh(gram / np.outer(scale, scale))))
        independent = values > 1e-12 * values[-1] if values[-1] > 0 else values > np.inf
        block = (block / scale) @ (vectors[:, independent] / np.sqrt(values[independent]))
    return block
