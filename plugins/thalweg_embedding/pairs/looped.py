"""What sums by compiled loops over pairs share."""

from __future__ import annotations

from abc import abstractmethod
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from thalweg_embedding.pairs.interface import PairSum


class LoopedPairs(PairSum):
    """Sum whose methods differ in the loop that they run.

    Attributes
    ----------
    loops
        Module of the loop templates: ``first_order``, ``product``, ``diagonal``,
        ``convex_product``, ``convex_diagonal``.
    """

    loops: ClassVar[ModuleType]

    @abstractmethod
    def _first_order(self, rows: np.ndarray, slopes: np.ndarray, shift: float) -> float:
        """Run the loop of the total, and of the slopes unless these have no rows."""

    @abstractmethod
    def _second_order(
        self, loop: Any, rows: np.ndarray, direction: np.ndarray, out: np.ndarray, shift: float
    ) -> None:
        """Run a loop of second derivatives."""

    def total(self, rows: np.ndarray, shift: float = 0.0) -> float:  # noqa: D102
        return self._first_order(rows, np.empty((0, rows.shape[1])), shift)

    def total_and_slopes(  # noqa: D102
        self, rows: np.ndarray, slopes: np.ndarray, shift: float = 0.0
    ) -> float:
        return self._first_order(rows, slopes, shift)

    def product(  # noqa: D102
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        self._second_order(self.loops.product, rows, direction, product, shift)

    def diagonal(  # noqa: D102
        self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0
    ) -> None:
        self._second_order(self.loops.diagonal, rows, rows, diagonal, shift)

    def convex_product(  # noqa: D102
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        self._second_order(self.loops.convex_product, rows, direction, product, shift)

    def convex_diagonal(  # noqa: D102
        self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0
    ) -> None:
        self._second_order(self.loops.convex_diagonal, rows, rows, diagonal, shift)
