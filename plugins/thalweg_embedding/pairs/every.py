"""Sums over all pairs of points, streamed round the ranks and never stored."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from thalweg.parallel import Layout, sum_over_ranks
from thalweg.parallel.pairs import Ring
from thalweg_embedding.pairs import every_loops
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.looped import LoopedPairs
from thalweg_embedding.pairs.specialize import specialize


class EveryPair(LoopedPairs):
    """Exact sum over all pairs, O(N^2 d) work and O(N d) memory.

    Each rank's block of points passes every rank.  A row's terms are added in the order
    of the ranks, so that a result does not depend on the number of threads.

    Parameters
    ----------
    layout
        Rows of the map, and its dimension.
    function
        phi.
    weights
        This rank's rows of c, shape (local_rows, rows), or None for c = 1.
    """

    loops: ClassVar[ModuleType] = every_loops

    def __init__(
        self, layout: Layout, function: PairFunction, weights: np.ndarray | None = None
    ) -> None:
        self.layout = layout
        self.function = function
        self._ring = Ring(layout)
        self._weights = np.empty((0, 0)) if weights is None else np.ascontiguousarray(weights)

    def _first_order(self, rows: np.ndarray, slopes: np.ndarray, shift: float) -> float:
        run = specialize(self.loops.first_order, self.function)
        slopes[...] = 0.0
        totals = np.zeros(len(rows))
        for block in self._ring.blocks(rows):
            columns = block.arrays[0].T.copy()
            me = self.layout.start - block.start
            run(rows, columns, me, self._weights, block.start, shift, totals, slopes)
        return float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def _second_order(
        self, loop: Any, rows: np.ndarray, direction: np.ndarray, out: np.ndarray, shift: float
    ) -> None:
        run = specialize(loop, self.function)
        out[...] = 0.0
        for block in self._ring.blocks(rows, direction):
            points = block.arrays[0].T.copy()
            moves = block.arrays[1].T.copy()
            me = self.layout.start - block.start
            run(rows, direction, points, moves, me, self._weights, block.start, shift, out)
