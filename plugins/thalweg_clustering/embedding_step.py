"""The U-step: leading eigenvectors of H D^(-1/2) K D^(-1/2) H, from a matrix or from products."""

from contextlib import suppress

import numpy as np

from thalweg.errors import NumericalError
from thalweg.numerics import inner_products
from thalweg_clustering.exact_sums import StreamedKernel
from thalweg_clustering.feature_sums import NystromKernel
from thalweg_clustering.leading_subspace import Subspace, dense_leading, iterative_leading
from thalweg_clustering.projected_kernel import ProjectedKernel

#: Vectors beside the wanted ones in the iterative solver.
GUARDS = 3

#: Features whose Gram matrix is formed; its eigenvectors take the cube of their number.
GRAM_SIZE = 1536

#: Landmarks of the approximation that eigenvectors of an exact kernel are begun from.
LANDMARKS = 256

#: Rows up to which all eigenvectors are computed where there is no guess.
DENSE_ROWS = 300

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

    The kind ``"auto"`` is the Gram matrix of features where there are some, LAPACK for few rows
    without a guess, else LOBPCG, without a guess from eigenvectors of the Nystrom approximation.
    ``apart`` and ``guess`` are this rank's rows of orthonormal, centered columns to be orthogonal
    to, and of columns to start from.
    """
    layout, n = kernel.layout, kernel.layout.rows
    scale = 1.0 / np.sqrt(degrees)
    # H and the deflation in one: what is removed has orthonormal columns.
    removed = np.full((layout.local_rows, 1), 1.0 / np.sqrt(n))
    if apart is not None:
        removed = np.concatenate([removed, apart], axis=1)
    if isinstance(kernel, NystromKernel) and kind == "auto" and kernel.size <= GRAM_SIZE:
        return kernel.embedding(w, degrees, count, removed)

    def project(block: np.ndarray) -> np.ndarray:
        return np.asarray(block - removed @ inner_products(layout, removed, block))

    small = n <= 4 * (count + GUARDS)  # no room for a basis of several blocks
    if small or kind == "lapack" or (kind == "auto" and guess is None and n <= DENSE_ROWS):
        rows = kernel.product(w, np.eye(layout.local_rows, n, layout.start))
        matrix = project(rows * scale[:, None] * layout.gather_rows(scale))
        whole = layout.gather_rows(removed)
        matrix -= (matrix @ whole) @ whole.T
        return dense_leading(layout, matrix, count)

    def product(block: np.ndarray) -> np.ndarray:
        return project(scale[:, None] * kernel.product(w, scale[:, None] * project(block)))

    columns = layout.with_columns(min(count + GUARDS, n))
    streamed = isinstance(kernel, StreamedKernel) and kernel.function.positive
    if guess is None and streamed and n >= LANDMARKS:  # it costs less than a pass over all pairs
        of = kernel.points, kernel.sigma, kernel.function
        landmarks = NystromKernel(layout, *of, LANDMARKS, seed, True)
        with suppress(NumericalError):  # on all ranks: they do not show so many directions
            guess = landmarks.embedding(w, degrees, columns.columns, removed).vectors
    start = columns.random_normal(seed, 1.0 / np.sqrt(n))
    if guess is not None:
        width = min(guess.shape[1], columns.columns)
        start[:, :width] = 1e-2 * start[:, :width] + guess[:, :width]
    most = MAX_PRODUCTS if apart is None else FIRST_PRODUCTS
    return iterative_leading(layout, product, project(start), count, tolerance, most)
