"""A sum of two sums over pairs, each with a factor."""

from __future__ import annotations

import math

import numpy as np

from thalweg.parallel import Array
from thalweg_embedding.pairs.pair_sum import PairSum, SecondOrder


class CombinedPairs(PairSum):
    """Factors times two sums, of which the first says how the whole is noted and named.

    A sum over all pairs less one over the edges of a graph, weighted by mu <= 1, has weights 1 -
    mu.  The factors may change; a second sum with factor 0 costs nothing.  ``totals`` are those of
    both where they were computed last, without the factors; NaN: not computed there.
    """

    def __init__(self, first: PairSum, second: PairSum, factors: tuple[float, float]) -> None:
        self._first, self._second = first, second
        self.factors = factors
        self.totals = (math.nan, math.nan)
        self.function = first.function
        self.relative_error = first.relative_error + second.relative_error

    def identity(self) -> tuple[PairSum, PairSum]:  # noqa: D102
        return self._first, self._second

    @property
    def note(self):  # type: ignore[no-untyped-def, override]
        """Called with a sentence on what a sum fell back to."""
        return self._first.note

    @note.setter
    def note(self, note) -> None:  # type: ignore[no-untyped-def]
        self._first.note = note

    def refined_total(self, rows: Array) -> float:  # noqa: D102
        first, second = self.factors
        total = first * self._first.refined_total(rows)
        return total + second * self._second.refined_total(rows) if second else total

    def first_order(self, rows: Array, shift: float, slopes: bool) -> tuple[float, Array]:  # noqa: D102
        total, slopes_of_both = self._first.first_order(rows, shift, slopes)
        first, second = self.factors
        self.totals = total, math.nan
        total, slopes_of_both = first * total, first * slopes_of_both
        if second:
            other_total, other = self._second.first_order(rows, shift, slopes)
            self.totals = self.totals[0], other_total
            total, slopes_of_both = total + second * other_total, slopes_of_both + second * other
        return total, slopes_of_both

    def second_order(  # noqa: D102
        self, kind: SecondOrder, rows: Array, direction: Array, shift: float
    ) -> Array:
        first, second = self.factors
        derivatives = first * self._first.second_order(kind, rows, direction, shift)
        if second:
            derivatives += second * self._second.second_order(kind, rows, direction, shift)
        return np.maximum(derivatives, 0.0) if kind is SecondOrder.CONVEX_DIAGONAL else derivatives
