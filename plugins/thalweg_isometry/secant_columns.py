"""The columns that column generation adds: unit secants as a distributed matrix, one a row."""

from collections.abc import Iterator

import numpy as np

from thalweg.engines.secants import SecantSet
from thalweg.parallel import MPI, Layout, RowRoutes, sum_large, sum_over_ranks

#: Secants that products work with at a time; more than so many are kept in single precision.
BLOCK, MANY = 4096, 5000


def differences(
    secants: SecantSet, pairs: np.ndarray, center: np.ndarray | float = 0.0
) -> Iterator[tuple[slice, np.ndarray]]:
    """Which of this rank's pairs, and the differences of their points about a center, float64.

    Collective; ``pairs`` are global numbers, shape ``(m, 2)``.
    """
    numbers, ends = np.unique(pairs, return_inverse=True)
    routes = RowRoutes(secants.comm, secants.layout.owners(numbers))
    asked = routes.deliver(numbers) - secants.layout.start
    points = np.empty((len(numbers), secants.dimension))
    points[routes.rows] = routes.give_back(np.asarray(secants.points[asked], dtype=float))
    points -= center
    ends = ends.reshape(pairs.shape)
    for first in range(0, len(pairs), BLOCK):
        part = slice(first, first + BLOCK)
        yield part, points[ends[part, 0]] - points[ends[part, 1]]


class SecantColumns:
    """Unit secants v_k as the rows of a matrix over the ranks; all methods are collective.

    The operator A of NuMax and FroMax takes a symmetric P to the forms ``v_k^T P v_k``.  ``rows``
    are this rank's secants, shape ``(m, dimension)``, ``count`` is their number on all ranks, and
    ``layout`` the distribution of a number for each.
    """

    def __init__(self, comm: MPI.Comm, rows: np.ndarray) -> None:
        self.comm, self.rows = comm, rows
        self.count = int(sum_over_ranks(comm, len(rows)))
        self.layout = Layout(comm, self.count, local_rows=len(rows))

    @classmethod
    def of(cls, secants: SecantSet, pairs: np.ndarray, lengths: np.ndarray) -> "SecantColumns":
        """Those of listed pairs, shape (m, 2), of these squared lengths; if many, single precision.

        Lengths have shape (m,) and are positive.
        """
        many = sum_over_ranks(secants.comm, len(pairs)) > MANY
        rows = np.empty((len(pairs), secants.dimension), dtype=np.float32 if many else np.float64)
        for part, difference in differences(secants, pairs, secants.mean):
            rows[part] = difference / np.sqrt(lengths[part])[:, None]
        return cls(secants.comm, rows)

    def some(self, which: np.ndarray) -> "SecantColumns":
        """Only these of this rank's, by a mask of shape (m,)."""
        return SecantColumns(self.comm, self.rows[which])

    def blocks(self) -> list[slice]:
        """Parts of this rank's rows that products work with at a time."""
        return [slice(k, k + BLOCK) for k in range(0, len(self.rows), BLOCK)]

    def forward(self, matrix: np.ndarray) -> np.ndarray:
        """``A(P)`` of this rank's secants, shape ``(m,)``, float64."""
        forms, matrix = np.empty(len(self.rows)), matrix.astype(self.rows.dtype)
        for part in self.blocks():
            rows = self.rows[part]
            forms[part] = np.einsum("ij,ij->i", rows @ matrix, rows)
        return forms

    def adjoint(self, weights: np.ndarray) -> np.ndarray:
        """``A*(w)``, shape ``(dimension, dimension)``, on every rank, float64."""
        total = np.zeros(2 * self.rows.shape[1:])
        for part in self.blocks():
            rows = self.rows[part]
            total += rows.T @ (weights[part, None].astype(rows.dtype) * rows)
        return sum_large(self.comm, total)

    def cosines(self) -> np.ndarray:
        """``v_k^T v_l`` of this rank with all, shape ``(m, count)``; their squares are ``A A*``."""
        width = self.rows.shape[1]
        return np.asarray(self.rows @ self.layout.with_columns(width).gather_rows(self.rows).T)
