"""The operator A of the papers with the secants as rows, shared out over the ranks.

``A(P)_k = v_k^T P v_k`` and ``A*(w) = sum_k w_k v_k v_k^T`` for symmetric P that is no
product of a thin factor with itself.  A rank holds its share of the rows v_k; results
are gathered, so that multipliers are equal on all ranks.
"""

from __future__ import annotations

import numpy as np

from thalweg.parallel import Layout, sum_large
from thalweg.parallel.pairs import SecantSet


class SecantRows:
    """Unit secants of listed pairs, this rank's share of them.

    Parameters
    ----------
    secants
        The set that the pairs belong to.
    pairs, lengths
        Point numbers (m, 2) and squared lengths (m,), equal on all ranks.
    """

    def __init__(self, secants: SecantSet, pairs: np.ndarray, lengths: np.ndarray) -> None:
        self.comm = secants.comm
        self.count = len(pairs)
        self.layout = Layout(self.comm, self.count, secants.dimension)
        touched, where = np.unique(pairs, return_inverse=True)
        points = secants.rows_of(touched) - secants.mean
        mine = self.layout.local(where.reshape(pairs.shape))
        self.rows = points[mine[:, 0]] - points[mine[:, 1]]
        self.rows /= np.sqrt(self.layout.local(lengths))[:, None]

    def forward(self, matrix: np.ndarray) -> np.ndarray:
        """``A(P)``, shape ``(m,)``, on every rank."""
        return self.layout.gather_rows(np.einsum("ij,ij->i", self.rows @ matrix, self.rows))

    def adjoint(self, weights: np.ndarray) -> np.ndarray:
        """``A*(w)``, shape ``(dimension, dimension)``, on every rank."""
        mine = self.layout.local(weights)
        return sum_large(self.comm, self.rows.T @ (mine[:, None] * self.rows))

    def gram(self) -> np.ndarray:
        """``A A*``: the squared cosines ``(v_k^T v_l)^2``, shape ``(m, m)``, on every rank."""
        everyone = self.layout.gather_rows(self.rows)
        return self.layout.gather_rows((self.rows @ everyone.T) ** 2)
