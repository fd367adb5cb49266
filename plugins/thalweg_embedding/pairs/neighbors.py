"""Sums over the pairs of a sparse graph."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from thalweg.parallel import Layout, RowExchange, RowPlan, sum_over_ranks
from thalweg_embedding.pairs import neighbors_loops
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.looped import LoopedPairs
from thalweg_embedding.pairs.specialize import specialize


class NeighborPairs(LoopedPairs):
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
        Keep the weights in single precision: half the memory, and less to read.
    """

    loops: ClassVar[ModuleType] = neighbors_loops

    def __init__(
        self,
        layout: Layout,
        function: PairFunction,
        weights: scipy.sparse.csr_matrix,
        single: bool = False,
    ) -> None:
        self.layout = layout
        self.function = function
        self.relative_error = 1e-8 if single else 0.0
        plan = RowPlan.of(layout, weights.indices)
        self._exchange = RowExchange(plan)
        places = layout.local_rows + len(plan.ghosts)
        self._graph = (
            weights.indptr.astype(np.int64, copy=False),
            plan.positions(weights.indices).astype(np.int32 if places < 2**31 else np.int64),
            np.asarray(weights.data, dtype=np.float32 if single else np.float64),
        )

    def _first_order(self, rows: np.ndarray, slopes: np.ndarray, shift: float) -> float:
        run = specialize(self.loops.first_order, self.function)
        totals = np.zeros(len(rows))
        points = self._exchange.with_ghosts(rows).T.copy()
        run(rows, points, *self._graph, shift, totals, slopes)
        return float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def _second_order(
        self, loop: Any, rows: np.ndarray, direction: np.ndarray, out: np.ndarray, shift: float
    ) -> None:
        run = specialize(loop, self.function)
        points = self._exchange.with_ghosts(rows)
        moves = points if direction is rows else self._exchange.with_ghosts(direction)
        run(rows, direction, points, moves, *self._graph, shift, out)

    def destroy(self) -> None:
        """Free the exchange.  Collective."""
        self._exchange.destroy()
