"""Sums over all pairs of points, streamed round the ranks and never stored; and SNE's."""

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from thalweg.parallel import Array, Layout, Ring, sum_over_ranks
from thalweg_embedding.pairs import all_pairs_loops
from thalweg_embedding.pairs.functions import GAUSSIAN, PairFunction
from thalweg_embedding.pairs.pair_sum import PairSum, SecondOrder
from thalweg_embedding.pairs.specialize import specialize

#: Pairs of points that are summed at one time.
PAIRS_AT_ONCE = 2**20


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


class PointwiseLogarithms(PairSum):
    """T(X) = sum_n log Z_n, Z_n = sum_(m != n) exp(-d_nm), of Hinton and Roweis (2003).

    With q_nm = exp(-d_nm) / Z_n, which is not symmetric, the weights of T's derivatives are
    c_nm = (q_nm + q_mn) / 2, and each point's Z_n adds a term of rank one to the Hessian.
    """

    function = GAUSSIAN

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def first_order(self, rows: Array, shift: float, slopes: bool) -> tuple[float, Array]:
        points = self.layout.gather_rows(rows)
        logarithms = self._logarithms(rows, points)
        gradient_rows = np.zeros((len(rows) if slopes else 0, rows.shape[1]))
        if slopes:
            for part, there, back in self._shares(rows, points, logarithms):
                gradient_rows[part] = _laplacian(-0.5 * (there + back), rows[part], points)
        return float(sum_over_ranks(self.layout.comm, float(logarithms.sum()))), gradient_rows

    def second_order(self, kind: SecondOrder, rows: Array, direction: Array, shift: float) -> Array:
        points, moves = self.layout.gather_rows(rows), self.layout.gather_rows(direction)
        logarithms, derivatives = self._logarithms(rows, points), np.empty(rows.shape)
        changes, all_changes = np.zeros(len(rows)), np.zeros(len(points))
        if kind is SecondOrder.PRODUCT:  # of each log Z_n along the direction
            for part, there, _ in self._shares(rows, points, logarithms):
                turned = _turned(rows[part], direction[part], points, moves)
                changes[part] = -2.0 * (there * turned).sum(axis=1)
            all_changes = self.layout.gather_rows(changes)
        for part, there, back in self._shares(rows, points, logarithms):
            both, x, v = 0.5 * (there + back), rows[part], direction[part]
            if kind is SecondOrder.PRODUCT:
                weights = 2.0 * both * _turned(x, v, points, moves)
                weights += 0.5 * (changes[part, None] * there + all_changes * back)
                derivatives[part] = _laplacian(weights, x, points) - _laplacian(both, v, moves)
                continue
            for column in range(rows.shape[1]):
                u = x[:, column, None] - points[:, column]
                curved = 2.0 * both * u**2
                if kind is SecondOrder.CONVEX_PRODUCT:
                    curved *= v[:, column, None] - moves[:, column]
                derivatives[part, column] = curved.sum(axis=1)
                if kind is SecondOrder.DIAGONAL:
                    flat = both + (back * u) ** 2
                    derivatives[part, column] -= flat.sum(axis=1) + (there * u).sum(axis=1) ** 2
        return derivatives

    def _logarithms(self, rows: Array, points: Array) -> np.ndarray:
        """log Z_n of this rank's points."""
        logarithms = np.empty(len(rows))
        for part, squared in self._squared(rows, points):
            logarithms[part] = logsumexp(-squared, axis=1)
        return logarithms

    def _shares(
        self, rows: Array, points: Array, logarithms: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Some of this rank's points n, and q_nm and q_mn for all m."""
        every = self.layout.gather_rows(logarithms)
        for part, squared in self._squared(rows, points):
            yield part, np.exp(-squared - logarithms[part, None]), np.exp(-squared - every)

    def _squared(self, rows: Array, points: Array) -> Iterator[tuple[slice, np.ndarray]]:
        """Some of this rank's points, and their squared distances; infinite from themselves."""
        step = max(1, PAIRS_AT_ONCE // len(points))
        for first in range(0, len(rows), step):
            part = slice(first, min(first + step, len(rows)))
            squared = cdist(rows[part], points, "sqeuclidean")
            own = np.arange(part.stop - first)
            squared[own, self.layout.start + first + own] = np.inf
            yield part, squared


def _laplacian(weights: np.ndarray, own: Array, every: Array) -> np.ndarray:
    """sum_m w_nm (x_n - x_m)."""
    return np.asarray(weights.sum(axis=1)[:, None] * own - weights @ every)


def _turned(x: Array, v: Array, points: Array, moves: Array) -> np.ndarray:
    """(x_n - x_m) . (v_n - v_m)."""
    own, every = (x * v).sum(axis=1)[:, None], (points * moves).sum(axis=1)
    return np.asarray(own + every - x @ moves.T - v @ points.T)
