"""Sums over the pairs of a sparse graph."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import scipy.sparse

from thalweg.parallel import Layout, Relocation, RowExchange, RowPlan, sum_over_ranks
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
    places
        Where the rows of ``weights`` lie, if not where the map's do.
    """

    def __init__(
        self,
        layout: Layout,
        function: PairFunction,
        weights: scipy.sparse.csr_matrix,
        single: bool = False,
        places: Relocation | None = None,
    ) -> None:
        self.layout = layout
        self._places = places
        inner = layout if places is None else places.layout
        self.function = function
        self.relative_error = SINGLE_ERROR if single else 0.0
        self._single = None
        if single and layout.columns == 2 and function.single is not None:
            self._single = CompiledFunction.of(function.single)
        plan = RowPlan.of(inner, weights.indices)
        self._exchange = RowExchange(plan)
        points = inner.local_rows + len(plan.ghosts)
        # Of an unsigned index the compiled code need not ask whether it counts from the end.
        ends = plan.positions(weights.indices).astype(np.uint32 if points < 2**32 else np.uint64)
        held = np.asarray(weights.data, dtype=np.float32 if single else np.float64)
        self._graph = (weights.indptr.astype(np.int64, copy=False), ends, held)

    def first_order(  # noqa: D102
        self, rows: Rows, slopes: Rows | None, shift: float
    ) -> float:
        if self._single is not None and shift == 0.0:
            center, extent = bounding_box(self.layout, rows)
            if extent <= WIDEST_SINGLE:
                points = self._points((rows - center).astype(np.float32))
                run = specialize(neighbors_loops.first_order_single, self._single, "single")
                return self._summed(functools.partial(run, points.T.copy()), slopes)
        points = self._points(rows)
        run = specialize(neighbors_loops.first_order, self.function)
        run = functools.partial(run, points[: len(self._graph[0]) - 1], points.T.copy())
        return self._summed(run, slopes, shift)

    def _points(self, rows: Rows) -> Rows:
        """Rows of the map where the graph's are, and the ghost rows.  Collective."""
        here = rows if self._places is None else self._places.forward(rows)
        return self._exchange.with_ghosts(here)

    def _summed(self, loop: Callable[..., None], slopes: Rows | None, *further: float) -> float:
        """The total over the edges, and slopes for rows of the map.  Collective."""
        totals = np.zeros(len(self._graph[0]) - 1)
        found = np.empty((0 if slopes is None else len(totals), self.layout.columns))
        if slopes is not None and self._places is None:
            found = slopes
        loop(*self._graph, *further, totals, found)
        if slopes is not None and self._places is not None:
            slopes[...] = self._places.backward(found)
        return float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def second_order(  # noqa: D102
        self, kind: SecondOrder, rows: Rows, direction: Rows, out: Rows, shift: float
    ) -> None:
        run = specialize(neighbors_loops.second_order, self.function)
        points = self._points(rows)
        moves = points if direction is rows else self._points(direction)
        own = slice(len(self._graph[0]) - 1)
        found = out if self._places is None else np.empty(points[own].shape)
        run(points[own], moves[own], points, moves, *self._graph, shift, int(kind), found)
        if self._places is not None:
            out[...] = self._places.backward(found)

    def destroy(self) -> None:
        """Free the exchange.  Collective."""
        self._exchange.destroy()
