"""Sums over the pairs of a sparse graph."""

import functools
from collections.abc import Callable

import numpy as np
import scipy.sparse

from thalweg.parallel import Array, Layout, RowExchange, RowPlan, sum_over_ranks
from thalweg_embedding.pairs import neighbor_loops
from thalweg_embedding.pairs.cells import bounding_box
from thalweg_embedding.pairs.functions import CompiledFunction, PairFunction
from thalweg_embedding.pairs.pair_sum import PairSum, SecondOrder
from thalweg_embedding.pairs.specialize import specialize
from thalweg_embedding.relocation import Relocation

#: Relative error of a total in single precision.
SINGLE_ERROR = 2e-7

#: Side of the widest map whose differences single precision gives to a ten-thousandth of a unit.
WIDEST_SINGLE = 1_000.0

#: Parts of the rows that threads sum side by side where each edge is stored once: as many as there
#: are, and no fewer with fewer threads, so that sums do not depend on their number.
PARTS = 8

#: Starts of rows, places of the points that edges end at, and weights.
Graph = tuple[np.ndarray, np.ndarray, np.ndarray]


class NeighborPairs(PairSum):
    """Sum over the edges of a graph, O(edges) work.

    A rank reads its own points, and those of other ranks that its edges end at.  ``weights`` are
    its rows of c, CSR, shape (local_rows, rows), where ``places`` tells if not where the map's are.
    ``single`` keeps them in single precision: half the memory, and less to read.  First derivatives
    of maps of two dimensions that are not too wide are then computed in it too, from each edge
    between rows of this rank once.
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
        self._real = np.float32 if single else np.float64
        self._single = None
        if single and layout.columns == 2 and function.single is not None:
            self._single = CompiledFunction.of(function.single)
        self._weights = weights
        self._exchange = RowExchange(RowPlan.of(inner, weights.indices))

    @functools.cached_property
    def _graph(self) -> Graph:
        """All edges of this rank's rows."""
        plan, weights = self._exchange.plan, self._weights
        points = plan.layout.local_rows + len(plan.ghosts)
        starts = weights.indptr.astype(np.int64, copy=False)
        # Of an unsigned index the compiled code need not ask whether it counts from the end.
        ends = plan.positions(weights.indices).astype(np.uint32 if points < 2**32 else np.uint64)
        return starts, ends, np.asarray(weights.data, dtype=self._real)

    @functools.cached_property
    def _once(self) -> tuple[Graph, np.ndarray, Graph | None]:
        """Edges between rows of this rank, each in one direction; parts of the rows; the others."""
        every_edge = self._graph
        del self.__dict__["_graph"]  # made again where second derivatives are wanted
        once = _edges(every_edge, False)
        parts = np.searchsorted(once[0], np.linspace(0, once[0][-1], PARTS + 1)).astype(np.int64)
        parts[0], parts[-1] = 0, len(once[0]) - 1
        return once, parts, _edges(every_edge, True) if len(self._exchange.plan.ghosts) else None

    def first_order(self, rows: Array, shift: float, slopes: bool) -> tuple[float, Array]:
        if self._single is not None and shift == 0.0:
            center, extent = bounding_box(self.layout, rows)
            if extent <= WIDEST_SINGLE:
                here = self._here((rows - center).astype(np.float32))
                return self._summed(functools.partial(self._in_single, here), slopes)
        points = self._points(rows)
        run = specialize(neighbor_loops.first_order, self.function)
        own = points[: len(self._graph[0]) - 1]
        run = functools.partial(run, own, points.T.copy(), *self._graph, shift)
        return self._summed(run, slopes)

    def _in_single(self, here: np.ndarray, totals: Array, slopes: Array) -> None:
        """Totals and, unless they are empty, slopes of this rank's rows in single precision.

        Rows of other ranks are on their way while edges between rows of this rank are summed.
        """
        end = self._exchange.begin_fetch(here)
        graph, parts, others = self._once
        count = len(here)
        points = np.empty((2, count + len(self._exchange.plan.ghosts)), np.float32)
        points[:, :count] = here.T
        out = np.empty((PARTS if slopes.size else 0, len(totals), 2), np.float32)
        run = specialize(neighbor_loops.first_order_once, self._single)
        run(points, *graph, parts, totals, out)
        slopes[...] = 0.0
        points[:, count:] = end().T
        if others is not None:
            totals_abroad = np.empty_like(totals)
            run = specialize(neighbor_loops.first_order, self._single)
            run(here, points, *others, 0.0, totals_abroad, slopes)
            totals += totals_abroad
        if slopes.size:
            neighbor_loops.add_parts(parts, out, slopes)

    def _points(self, rows: Array) -> Array:
        """Rows of the map where the graph's are, and the ghost rows.  Collective."""
        return self._exchange.with_ghosts(self._here(rows))

    def _here(self, rows: Array) -> Array:
        """Rows of the map where the graph's are.  Collective."""
        return rows if self._places is None else self._places.forward(rows)

    def _summed(self, loop: Callable[..., None], slopes: bool) -> tuple[float, Array]:
        """The total over the edges, and slopes for rows of the map if wanted.  Collective."""
        totals = np.zeros(self._weights.shape[0])
        gradient_rows = np.empty((len(totals) if slopes else 0, self.layout.columns))
        loop(totals, gradient_rows)
        if slopes and self._places is not None:
            gradient_rows = self._places.backward(gradient_rows)
        return float(sum_over_ranks(self.layout.comm, float(totals.sum()))), gradient_rows

    def second_order(self, kind: SecondOrder, rows: Array, direction: Array, shift: float) -> Array:
        run = specialize(neighbor_loops.second_order, self.function)
        points = self._points(rows)
        moves = points if direction is rows else self._points(direction)
        own = slice(len(self._graph[0]) - 1)
        derivatives = np.empty(points[own].shape)
        run(points[own], moves[own], points, moves, *self._graph, shift, int(kind), derivatives)
        return derivatives if self._places is None else self._places.backward(derivatives)


def _edges(graph: Graph, abroad: bool) -> Graph:
    """Edges to points of other ranks, or those to points of this rank in one direction."""
    starts, ends, weights = graph
    count = len(starts) - 1
    rows = np.repeat(np.arange(count, dtype=ends.dtype), np.diff(starts))
    chosen = ends >= count if abroad else (rows < ends) & (ends < count)
    return np.concatenate([[0], np.cumsum(chosen)])[starts], ends[chosen], weights[chosen]
