"""A sum of two sums over pairs, each with a factor."""

from __future__ import annotations

import math

import numpy as np

from thalweg_embedding.pairs.pair_sum import PairSum, Rows, SecondOrder


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

    def refined_total(self, rows: np.ndarray, shift: float = 0.0) -> float:  # noqa: D102
        total = self.factors[0] * self._first.refined_total(rows, shift)
        if self.factors[1]:
            total += self.factors[1] * self._second.refined_total(rows, shift)
        return total

    def first_order(self, rows: Rows, slopes: Rows | None, shift: float) -> float:  # noqa: D102
        total, other_total = self._first.first_order(rows, slopes, shift), math.nan
        other = None if slopes is None else np.empty_like(slopes)
        if self.factors[1]:
            other_total = self._second.first_order(rows, other, shift)
        self.totals = total, other_total
        total *= self.factors[0]
        if self.factors[1]:
            total += self.factors[1] * other_total
        if slopes is not None:
            self._add(slopes, other)
        return total

    def second_order(  # noqa: D102
        self, kind: SecondOrder, rows: Rows, direction: Rows, out: Rows, shift: float
    ) -> None:
        other = np.empty_like(out)
        self._first.second_order(kind, rows, direction, out, shift)
        if self.factors[1]:
            self._second.second_order(kind, rows, direction, other, shift)
        self._add(out, other)
        if kind is SecondOrder.CONVEX_DIAGONAL:
            np.maximum(out, 0.0, out=out)

    def _add(self, out: Rows, other: Rows | None) -> None:
        """Scale ``out``, and add the second sum's share where it has one."""
        out *= self.factors[0]
        if self.factors[1] and other is not None:
            other *= self.factors[1]
            out += other
