"""Sums over the pairs of a sparse graph."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from thalweg.parallel import Layout, RowExchange, RowPlan, sum_over_ranks
from thalweg_embedding.pairs import neighbors_loops
from thalweg_embedding.pairs.cells import bounding_box
from thalweg_embedding.pairs.functions import CompiledFunction, PairFunction
from thalweg_embedding.pairs.pair_sum import PairSum, Rows, SecondOrder
from thalweg_embedding.pairs.specialize import specialize

#: Relative error of a total in single precision.
SINGLE_ERROR = 2e-7

#: Side of the widest map whose differences single precision gives to a ten-thousandth of a unit.
WIDEST_SINGLE = 1_000.0


class NeighborPairs(PairSum):
    """Sum over the edges of a graph, O(edges) work.

    A rank reads its own points, and those of other ranks that its edges end at.

    Parameters
    ----------
    layout
        Rows of the map, and its dimension.
    function
        phi.
    weights
        This rank's rows of c, shape (local_rows, rows), CSR.
    single
        Keep the weights in single precision: half the memory, and less to read.  First
        derivatives of maps of two dimensions that are not too wide are then computed in it too.
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
        self.relative_error = SINGLE_ERROR if single else 0.0
        self._single = None
        if single and layout.columns == 2 and function.single is not None:
            self._single = CompiledFunction.of(function.single)
        plan = RowPlan.of(layout, weights.indices)
        self._exchange = RowExchange(plan)
        places = layout.local_rows + len(plan.ghosts)
        # Of an unsigned index the compiled code need not ask whether it counts from the end.
        ends = plan.positions(weights.indices).astype(np.uint32 if places < 2**32 else np.uint64)
        held = np.asarray(weights.data, dtype=np.float32 if single else np.float64)
        self._graph = (weights.indptr.astype(np.int64, copy=False), ends, held)

    def first_order(  # noqa: D102
        self, rows: Rows, slopes: Rows | None, shift: float
    ) -> float:
        slopes = np.empty((0, rows.shape[1])) if slopes is None else slopes
        totals = np.zeros(len(rows))
        points = self._exchange.with_ghosts(rows)
        if self._single is not None and shift == 0.0:
            center, extent = bounding_box(self.layout, rows)
            if extent <= WIDEST_SINGLE:
                run = specialize(neighbors_loops.first_order_single, self._single, "single")
                columns = np.ascontiguousarray((points - center).T, dtype=np.float32)
                run(columns, *self._graph, totals, slopes)
                return float(sum_over_ranks(self.layout.comm, float(totals.sum())))
        run = specialize(neighbors_loops.first_order, self.function)
        run(rows, points.T.copy(), *self._graph, shift, totals, slopes)
        return float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def second_order(  # noqa: D102
        self, kind: SecondOrder, rows: Rows, direction: Rows, out: Rows, shift: float
    ) -> None:
        run = specialize(neighbors_loops.second_order, self.function)
        points = self._exchange.with_ghosts(rows)
        moves = points if direction is rows else self._exchange.with_ghosts(direction)
        run(rows, direction, points, moves, *self._graph, shift, int(kind), out)

    def destroy(self) -> None:
        """Free the exchange.  Collective."""
        self._exchange.destroy()
