"""Sums over all pairs of points, streamed round the ranks and never stored."""

import numpy as np

from thalweg.parallel import Array, Layout, Ring, sum_over_ranks
from thalweg_embedding.pairs import all_pairs_loops
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.pair_sum import PairSum, SecondOrder
from thalweg_embedding.pairs.specialize import specialize


class AllPairs(PairSum):
    """Exact sum over all pairs, O(N^2 d) work and O(N d) memory.

    Each rank's block of points passes every rank.  A row's terms are added in the order
    of the ranks, so that a result does not depend on the number of threads.  ``weights`` are this
    rank's rows of c, shape (local_rows, rows), or None for c = 1.
    """

    def __init__(
        self, layout: Layout, function: PairFunction, weights: np.ndarray | None = None
    ) -> None:
        self.layout = layout
        self.function = function
        self._ring = Ring(layout)
        self._weights = np.empty((0, 0)) if weights is None else np.ascontiguousarray(weights)

    def first_order(self, rows: Array, shift: float, slopes: bool) -> tuple[float, Array]:
        run = specialize(all_pairs_loops.first_order, self.function)
        gradient_rows = np.zeros((len(rows) if slopes else 0, rows.shape[1]))
        totals = np.zeros(len(rows))
        for block in self._ring.blocks(rows):
            columns = block.arrays[0].T.copy()
            me = self.layout.start - block.start
            run(rows, columns, me, self._weights, block.start, shift, totals, gradient_rows)
        return float(sum_over_ranks(self.layout.comm, float(totals.sum()))), gradient_rows

    def second_order(self, kind: SecondOrder, rows: Array, direction: Array, shift: float) -> Array:
        run = specialize(all_pairs_loops.second_order, self.function)
        derivatives = np.zeros(rows.shape)
        for block in self._ring.blocks(rows, direction):
            points, moves = (array.T.copy() for array in block.arrays)
            me = self.layout.start - block.start
            own = (rows, direction, points, moves, me, self._weights, block.start)
            run(*own, shift, int(kind), derivatives)
        return derivatives
