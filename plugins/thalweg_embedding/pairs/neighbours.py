"""Sums over the pairs of a sparse graph."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from thalweg.parallel import Layout, sum_over_ranks
from thalweg_embedding.pairs import neighbours_loops as loops
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.interface import PairSum
from thalweg_embedding.pairs.specialise import specialise


class NeighbourPairs(PairSum):
    """Sum over the edges of a graph, O(edges) work.

    Every rank reads the whole map, whose N x d numbers are few beside the edges.

    Parameters
    ----------
    layout
        Rows of the map, and its dimension.
    function
        phi.
    weights
        This rank's rows of c, shape (local_rows, rows), CSR.
    single
        Keep the weights in single precision: half the memory, and less to read.
    """

    def __init__(
        self,
        layout: Layout,
        function: PairFunction,
        weights: scipy.sparse.csr_matrix,
        single: bool = False,
    ) -> None:
        self.layout = layout
        self.function = function
        self._graph = (
            weights.indptr.astype(np.int64, copy=False),
            weights.indices.astype(np.int32 if layout.rows < 2**31 else np.int64, copy=False),
            np.asarray(weights.data, dtype=np.float32 if single else np.float64),
        )

    def total(self, rows: np.ndarray, shift: float = 0.0) -> float:  # noqa: D102
        return self._first_order(rows, np.empty((0, rows.shape[1])), shift)

    def total_and_slopes(  # noqa: D102
        self, rows: np.ndarray, slopes: np.ndarray, shift: float = 0.0
    ) -> float:
        return self._first_order(rows, slopes, shift)

    def _first_order(self, rows: np.ndarray, slopes: np.ndarray, shift: float) -> float:
        run = specialise(loops.first_order, self.function)
        totals = np.zeros(len(rows))
        points = self.layout.gather_rows(rows).T.copy()
        run(rows, points, *self._graph, shift, totals, slopes)
        return float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def product(  # noqa: D102
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        self._second_order(loops.product, rows, direction, product, shift)

    def diagonal(  # noqa: D102
        self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0
    ) -> None:
        self._second_order(loops.diagonal, rows, rows, diagonal, shift)

    def convex_product(  # noqa: D102
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        self._second_order(loops.convex_product, rows, direction, product, shift)

    def convex_diagonal(  # noqa: D102
        self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0
    ) -> None:
        self._second_order(loops.convex_diagonal, rows, rows, diagonal, shift)

    def _second_order(self, template, rows, direction, out, shift) -> None:  # type: ignore[no-untyped-def]
        run = specialise(template, self.function)
        points = self.layout.gather_rows(rows)
        moves = points if direction is rows else self.layout.gather_rows(direction)
        run(rows, direction, points, moves, *self._graph, shift, out)
