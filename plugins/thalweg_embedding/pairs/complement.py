"""A sum over all pairs less a weighted one over the edges of a graph."""

from __future__ import annotations

import numpy as np

from thalweg_embedding.pairs.pair_sum import PairSum, Rows, SecondOrder


class ComplementPairs(PairSum):
    """Sum over all pairs with weights 1 - mu, mu the weights of a sparse graph, at most 1.

    Parameters
    ----------
    all_pairs
        The sum over all pairs, of weights one.
    edges
        The sum of the same function over the graph's edges, with weights mu.
    """

    def __init__(self, all_pairs: PairSum, edges: PairSum) -> None:
        self._all, self._edges = all_pairs, edges
        self.function = all_pairs.function
        self.relative_error = all_pairs.relative_error + edges.relative_error

    @property
    def note(self):  # type: ignore[no-untyped-def, override]
        """Called with a sentence on what a sum fell back to."""
        return self._all.note

    @note.setter
    def note(self, note) -> None:  # type: ignore[no-untyped-def]
        self._all.note = note

    def refined_total(self, rows: np.ndarray, shift: float = 0.0) -> float:  # noqa: D102
        return self._all.refined_total(rows, shift) - self._edges.refined_total(rows, shift)

    def first_order(  # noqa: D102
        self, rows: Rows, slopes: Rows | None, shift: float
    ) -> float:
        fewer = None if slopes is None else np.empty_like(slopes)
        total = self._all.first_order(rows, slopes, shift)
        total -= self._edges.first_order(rows, fewer, shift)
        if slopes is not None:
            slopes -= fewer
        return total

    def second_order(  # noqa: D102
        self, kind: SecondOrder, rows: Rows, direction: Rows, out: Rows, shift: float
    ) -> None:
        fewer = np.empty_like(out)
        self._all.second_order(kind, rows, direction, out, shift)
        self._edges.second_order(kind, rows, direction, fewer, shift)
        out -= fewer
        if kind is SecondOrder.CONVEX_DIAGONAL:
            np.maximum(out, 0.0, out=out)

    def destroy(self) -> None:
        """Free both.  Collective."""
        self._all.destroy()
        self._edges.destroy()
