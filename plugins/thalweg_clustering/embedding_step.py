"""The U-step: leading eigenvectors of H D^(-1/2) K D^(-1/2) H, from a matrix or from products."""

from __future__ import annotations

import numpy as np

from thalweg.errors import NumericalError
from thalweg.parallel import sum_large
from thalweg_clustering.exact_sums import StoredKernel, StreamedKernel
from thalweg_clustering.feature_sums import FeatureKernel, NystromKernel
from thalweg_clustering.leading_subspace import (
    Subspace,
    dense_leading,
    iterative_leading,
    slepc_leading,
)
from thalweg_clustering.projected_kernel import ProjectedKernel

#: Vectors beside the wanted ones in the iterative solver.
GUARDS = 3

#: Features whose Gram matrix is formed; its eigenvectors take the cube of their number.
GRAM_SIZE = 1536

#: Landmarks of the approximation that eigenvectors of an exact kernel are begun from.
LANDMARKS = 256

#: Budget of products of an embedding kept apart from others, the first, and of one that is not.
FIRST_PRODUCTS, MAX_PRODUCTS = 8, 100


def leading_embedding(
    kernel: ProjectedKernel,
    w: np.ndarray,
    degrees: np.ndarray,
    count: int,
    kind: str = "auto",
    tolerance: float = 1e-4,
    apart: np.ndarray | None = None,
    guess: np.ndarray | None = None,
    seed: int = 0,
) -> Subspace:
    """The ``count`` leading eigenvectors at W (eq. 3), with D of this rank's rows.  Collective.

    The kind ``"auto"`` is the Gram matrix of features where the kernel has some, LAPACK for a
    stored kernel without a guess, else LOBPCG, which without a guess begins from the eigenvectors
    of the Nystrom approximation; the tolerance is the relative residual of iterative kinds.
    ``apart`` and ``guess`` are this rank's rows of orthonormal, centered columns to be orthogonal
    to, and of columns to start from; ``seed`` is that of the rest of the start.
    """
    layout, n = kernel.layout, kernel.layout.rows
    scale = 1.0 / np.sqrt(degrees)
    ones = np.full((layout.local_rows, 1), 1.0 / np.sqrt(n))
    # H and the deflation in one: what is removed has orthonormal columns.
    removed = ones if apart is None else np.concatenate([ones, apart], axis=1)

    if isinstance(kernel, FeatureKernel) and kind == "auto" and kernel.size <= GRAM_SIZE:
        return kernel.embedding(w, degrees, count, removed)

    def project(block: np.ndarray) -> np.ndarray:
        inner = sum_large(layout.comm, np.ascontiguousarray(removed.T @ block))
        return np.asarray(block - removed @ inner)

    stored = isinstance(kernel, StoredKernel)
    if kind == "auto":
        kind = "lapack" if stored and guess is None else "lobpcg"
    if n <= 4 * (count + GUARDS):  # no room for a basis of several blocks
        kind = "lapack"
    if stored or kind == "lapack":
        if isinstance(kernel, StoredKernel):
            matrix = kernel.kernel(w) * scale[:, None]
        else:
            matrix = kernel.product(w, np.eye(n)[layout.start : layout.stop]) * scale[:, None]
        matrix = project(matrix * layout.gather_rows(scale))
        whole = layout.gather_rows(removed)
        matrix -= (matrix @ whole) @ whole.T
    if kind == "lapack":
        return dense_leading(layout, matrix, count)

    def product(block: np.ndarray) -> np.ndarray:
        if stored:
            return matrix @ layout.gather_rows(block)
        return project(scale[:, None] * kernel.product(w, scale[:, None] * project(block)))

    columns = layout.with_columns(min(count + GUARDS, n))
    if guess is None and isinstance(kernel, StreamedKernel):
        guess = _by_landmarks(kernel, w, degrees, columns.columns, removed, seed)
    start = columns.random_normal(seed, 1.0 / np.sqrt(n))
    if guess is not None:
        width = min(guess.shape[1], columns.columns)
        start[:, :width] = 1e-2 * start[:, :width] + guess[:, :width]
    if kind == "slepc":
        return slepc_leading(layout, product, project(start), count, tolerance)
    most = MAX_PRODUCTS if apart is None else FIRST_PRODUCTS
    return iterative_leading(layout, product, project(start), count, tolerance, most)


def _by_landmarks(
    kernel: StreamedKernel,
    w: np.ndarray,
    degrees: np.ndarray,
    count: int,
    removed: np.ndarray,
    seed: int,
) -> np.ndarray | None:
    """A first guess that costs less than a pass over all pairs, or None.  Collective."""
    if not kernel.function.positive or kernel.scales is not None or kernel.layout.rows < LANDMARKS:
        return None
    landmarks = NystromKernel(
        kernel.layout, kernel.points, kernel.sigma, kernel.function, LANDMARKS, seed, True
    )
    try:
        return landmarks.embedding(w, degrees, count, removed).vectors
    except NumericalError:  # on all ranks: they do not show so many directions
        return None
