"""A sum over all pairs less a weighted one over the edges of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg_embedding.pairs.interface import PairSum


class ComplementPairs(PairSum):
    """Sum over all pairs with weights 1 - mu, mu the weights of a sparse graph, at most 1.

    Parameters
    ----------
    every
        The sum over all pairs, of weights one.
    edges
        The sum of the same function over the graph's edges, with weights mu.
    """

    def __init__(self, every: PairSum, edges: PairSum) -> None:
        self._every, self._edges = every, edges
        self.function = every.function
        self.relative_error = every.relative_error + edges.relative_error

    @property
    def note(self):  # type: ignore[no-untyped-def, override]
        """Called with a sentence on what a sum fell back to."""
        return self._every.note

    @note.setter
    def note(self, note) -> None:  # type: ignore[no-untyped-def]
        self._every.note = note

    def total(self, rows: np.ndarray, shift: float = 0.0) -> float:  # noqa: D102
        return self._every.total(rows, shift) - self._edges.total(rows, shift)

    def refined_total(self, rows: np.ndarray, shift: float = 0.0) -> float:  # noqa: D102
        return self._every.refined_total(rows, shift) - self._edges.refined_total(rows, shift)

    def total_and_slopes(  # noqa: D102
        self, rows: np.ndarray, slopes: np.ndarray, shift: float = 0.0
    ) -> float:
        total = self._every.total_and_slopes(rows, slopes, shift)
        fewer = np.empty_like(slopes)
        total -= self._edges.total_and_slopes(rows, fewer, shift)
        slopes -= fewer
        return total

    def product(  # noqa: D102
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        self._difference("product", product, rows, direction, product, shift)

    def diagonal(  # noqa: D102
        self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0
    ) -> None:
        self._difference("diagonal", diagonal, rows, diagonal, shift)

    def convex_product(  # noqa: D102
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        self._difference("convex_product", product, rows, direction, product, shift)

    def convex_diagonal(  # noqa: D102
        self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0
    ) -> None:
        self._difference("convex_diagonal", diagonal, rows, diagonal, shift)
        np.maximum(diagonal, 0.0, out=diagonal)

    def _difference(self, method: str, out: np.ndarray, *arguments: Any) -> None:
        """Call the method of both sums; ``out`` is where it writes."""
        getattr(self._every, method)(*arguments)
        fewer = np.empty_like(out)
        getattr(self._edges, method)(*(fewer if a is out else a for a in arguments))
        out -= fewer

    def destroy(self) -> None:
        """Free both.  Collective."""
        self._every.destroy()
        self._edges.destroy()
