"""Interface of sums over pairs, and a sum of two of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from thalweg.parallel import Array, Identified
from thalweg_embedding.pairs.functions import PairFunction


class SecondOrder(IntEnum):
    """Quarters of second derivatives of a sum, as the loops over pairs number them.

    Row n of a product with the Hessian is sum_m c_nm (phi' v + 2 phi'' (u . v) u), with
    u = x_n - x_m and v the difference of directions.  Of the convex part that is block diagonal
    over columns, entry i of it is sum_m c_nm 2 max(phi'', 0) u_i^2 v_i: a graph Laplacian for each
    column, with positive weights only.
    """

    PRODUCT = 0
    DIAGONAL = 1
    CONVEX_PRODUCT = 2
    CONVEX_DIAGONAL = 3

    @property
    def convex(self) -> bool:
        """Whether only the convex part counts."""
        return self >= SecondOrder.CONVEX_PRODUCT


class PairSum(Identified, ABC):
    """T(X) = sum over ordered pairs n != m of c_nm phi(d_nm), d_nm = ||x_n - x_m||^2.

    ``c`` are fixed symmetric weights, phi a :class:`PairFunction`.  Every method takes
    this rank's rows of X, shape (local_rows, d), and is collective; with a ``shift``
    phi(d - shift) stands in place of phi(d).
    """

    function: PairFunction

    #: Called on all ranks with a sentence on what a sum fell back to.
    note: Callable[[str], None] = staticmethod(lambda sentence: None)

    #: Relative error of a total that goes beyond rounding, as an estimate.
    relative_error: float = 0.0

    def identity(self) -> Any:
        """phi: ways to sum it are approximations of one sum."""
        return self.function

    @abstractmethod
    def first_order(self, rows: Array, shift: float, slopes: bool) -> tuple[float, Array]:
        """T and its slopes; an array without rows where these are not wanted."""

    @abstractmethod
    def second_order(self, kind: SecondOrder, rows: Array, direction: Array, shift: float) -> Array:
        """Second derivatives; diagonals have no use for ``direction``."""

    def total(self, rows: Array) -> float:
        """T, the same number on every rank."""
        return self.first_order(rows, 0.0, False)[0]

    def refined_total(self, rows: Array) -> float:
        """T with a hundredth of :attr:`relative_error`."""
        return self.total(rows)

    def total_and_slopes(self, rows: Array) -> tuple[float, Array]:
        """T, and its slopes G_n = sum_m c_nm phi'(d_nm) (x_n - x_m): dT/dx_n = 4 G_n."""
        return self.first_order(rows, 0.0, True)


class CombinedPairs(PairSum):
    """Factors times two sums, of which the first says how the whole is noted and named.

    A sum over all pairs less one over the edges of a graph, weighted by mu <= 1, has weights 1 -
    mu.  The factors may change; a second sum with factor 0 costs nothing.  ``totals`` are those of
    both where they were computed last, without the factors; NaN: not computed there.
    """

    def __init__(self, first: PairSum, second: PairSum, factors: tuple[float, float]) -> None:
        self.parts = self._first, self._second = first, second
        self.factors = factors
        self.totals = (math.nan, math.nan)
        self.function = first.function
        self.relative_error = first.relative_error + second.relative_error

    def identity(self) -> tuple[PairSum, PairSum]:
        return self._first, self._second

    def refined_total(self, rows: Array) -> float:
        first, second = self.factors
        total = first * self._first.refined_total(rows)
        return total + second * self._second.refined_total(rows) if second else total

    def first_order(self, rows: Array, shift: float, slopes: bool) -> tuple[float, Array]:
        total, slopes_of_both = self._first.first_order(rows, shift, slopes)
        first, second = self.factors
        self.totals = total, math.nan
        total, slopes_of_both = first * total, first * slopes_of_both
        if second:
            other_total, other = self._second.first_order(rows, shift, slopes)
            self.totals = self.totals[0], other_total
            total, slopes_of_both = total + second * other_total, slopes_of_both + second * other
        return total, slopes_of_both

    def second_order(self, kind: SecondOrder, rows: Array, direction: Array, shift: float) -> Array:
        first, second = self.factors
        derivatives = first * self._first.second_order(kind, rows, direction, shift)
        if second:
            derivatives += second * self._second.second_order(kind, rows, direction, shift)
        return np.maximum(derivatives, 0.0) if kind is SecondOrder.CONVEX_DIAGONAL else derivatives
