"""Embeddings whose attraction is all there is, under an orthonormality constraint."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from thalweg.interfaces import Capability, Objective
from thalweg.parallel import Array, Layout, sketch, sum_over_ranks
from thalweg_embedding.options import AffinityOptions
from thalweg_embedding.relocation import RowMatrix


class SmallestEigenvectors(Capability):
    """The minimizer is spanned by eigenvectors of a sparse symmetric matrix.

    Those of its smallest eigenvalues, but for one known null vector.
    """

    phrase = "sparse eigenproblem"

    #: This rank's rows of the positive semidefinite matrix A, CSR, shape (local_rows, rows).
    matrix: scipy.sparse.csr_matrix

    null_vector: np.ndarray  # this rank's entries of the null vector, of norm 1 over all ranks

    @abstractmethod
    def residuals(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rayleigh quotients v'Av of orthonormal columns v, and norms |Av - (v'Av) v|.

        Collective; ``rows`` are this rank's.
        """


class EigenvectorEmbedding(Objective, SmallestEigenvectors):
    """f(Y) = 2 tr((Y'Y)^-1 Y'AY) over the columns of Y, all orthogonal to the null vector u.

    The constraint Y'Y = I is divided out, so that any descent solver may be used: f
    depends on the span of Y alone, and is least where that is the span of the
    eigenvectors of A's smallest eigenvalues beyond u's.

    Map rows are those of Y times ``scaling``, shape (local_rows,): D^(-1/2) where A is a normalized
    Laplacian.  ``components`` are those of the graph of nearest neighbors, before the nearest pairs
    of rows connected them, and ``name`` is for identities.
    """

    default_solver: ClassVar[str] = "eigen"
    options: AffinityOptions | None = AffinityOptions()  # None where affinities are given

    def __init__(
        self,
        layout: Layout,
        matrix: scipy.sparse.csr_matrix,
        null_vector: np.ndarray,
        scaling: np.ndarray,
        name: str,
        components: int = 1,
    ) -> None:
        super().__init__(layout.comm, layout)
        self.matrix = matrix
        self._product = RowMatrix(layout, matrix)
        self.null_vector = null_vector
        self._scaling = scaling
        self._name = name
        self._components = components
        if components > 1:
            self.note(
                f"the graph of the nearest neighbors has {components} components; the nearest "
                "pairs of rows that connect them are neighbors too"
            )

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        inside, image, gram, energy = self._projected(x)
        inverse = np.linalg.pinv(gram, hermitian=True)
        quotient = inverse @ energy
        gradient = self._without_null(4.0 * (image - inside @ quotient) @ inverse)
        return float(2.0 * np.trace(quotient)), gradient

    def _projected(self, x: Array) -> tuple[Array, Array, np.ndarray, np.ndarray]:
        """Y without the null vector's direction, AY, Y'Y and Y'AY."""
        inside = self._without_null(x)
        image = self._product.multiply(inside)
        return inside, image, self._inner(inside, inside), self._inner(inside, image)

    def _without_null(self, rows: Array) -> Array:
        return rows - self.null_vector[:, None] * self._inner(self.null_vector[:, None], rows)

    def _inner(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.asarray(sum_over_ranks(self.comm, first.T @ second))

    def solution(self, x: Array) -> np.ndarray:
        """This rank's rows of the map: the principal axes of Y, scaled.

        Columns are ordered by eigenvalue, with unit norm before scaling, and signs such
        that each column's largest entry is positive.
        """
        inside, _, gram, energy = self._projected(x)
        half = np.linalg.inv(np.linalg.cholesky(gram + 1e-300 * np.eye(len(gram))))
        _, vectors = np.linalg.eigh(half @ energy @ half.T)
        return signed(self.layout, inside @ (half.T @ vectors)) * self._scaling[:, None]

    def metrics(self, x: Array) -> Mapping[str, Any]:
        """Rayleigh quotients of the map's columns, and components of the graph of neighbors."""
        values, _ = self.residuals(self.solution(x) / self._scaling[:, None])
        return {"eigenvalues": values.tolist(), "components": self._components}

    def residuals(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        image = self._product.multiply(rows)
        values = np.diag(self._inner(rows, image))
        residual = image - rows * values
        return values, np.sqrt(np.diag(self._inner(residual, residual)))

    def identity(self) -> dict[str, Any]:
        """The method and the matrix, of which the rest follows."""
        image = self._product.multiply(self.layout.random_normal(0))
        return {"name": self._name, "matrix": sketch(self.layout, image)}


def signed(layout: Layout, columns: np.ndarray) -> np.ndarray:
    """Columns with signs such that the entry of largest absolute value, the first of them, is > 0.

    Entries within 1e-6 of the largest count as equal to it, so that rounding does not decide.
    """
    whole = layout.gather_rows(columns)
    sizes = np.abs(whole)
    first = (sizes >= (1.0 - 1e-6) * sizes.max(axis=0)).argmax(axis=0)
    return columns * np.where(whole[first, np.arange(whole.shape[1])] < 0.0, -1.0, 1.0)
