"""Vectors: this rank's rows of a variable, a gradient or a direction, with their layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from thalweg.parallel.blas import add_multiples

if TYPE_CHECKING:
    from thalweg.parallel.layout import Layout


class Vector:
    """A distributed array of ``layout.rows x layout.columns``; its memory is Python's to free.

    Attributes
    ----------
    layout : Layout
    rows : ndarray of float64, shape ``layout.shape``
        This rank's rows, C-contiguous.
    """

    __slots__ = ("layout", "rows")

    def __init__(self, layout: Layout, rows: np.ndarray) -> None:
        if rows.shape != layout.shape or rows.dtype != float or not rows.flags.c_contiguous:
            raise ValueError(f"the rows must be C-contiguous float64 of shape {layout.shape}")
        self.layout, self.rows = layout, rows

    def __repr__(self) -> str:
        return f"Vector({self.layout!r})"

    def duplicate(self) -> Vector:
        """A vector of zeros of the same layout."""
        return self.layout.create_vec()

    def copy(self, result: Vector | None = None) -> Vector:
        """A copy, in ``result`` if one is given."""
        if result is None:
            return Vector(self.layout, self.rows.copy())
        result.rows[...] = self.rows
        return result

    def getArray(self, readonly: bool = False) -> np.ndarray:
        """This rank's numbers as a flat view."""
        view = self.rows.reshape(-1)
        if readonly:
            view.flags.writeable = False
        return view

    def getSize(self) -> int:
        """Numbers of all ranks together."""
        return self.layout.rows * self.layout.columns

    # -- what needs the other ranks ------------------------------------------------------------

    def dot(self, other: Vector) -> float:
        """Inner product.  Collective."""
        return self.layout.dot(self.rows, other.rows)

    def norm(self) -> float:
        """Euclidean norm.  Collective."""
        return self.layout.norm(self.rows)

    def equal(self, other: Vector) -> bool:
        """Whether all numbers are the same.  Collective."""
        same = bool(np.array_equal(self.rows, other.rows))
        return same if self.layout.comm.size == 1 else all(self.layout.comm.allgather(same))

    # -- what does not -------------------------------------------------------------------------

    def set(self, value: float) -> None:
        """Make all numbers ``value``."""
        self.rows.fill(value)

    def scale(self, factor: float) -> None:
        """``self *= factor``."""
        self.rows *= factor

    def axpy(self, factor: float, other: Vector) -> None:
        """``self += factor * other``."""
        add_multiples(self.rows, (factor,), (other.rows,))

    def maxpy(self, factors: Sequence[float] | np.ndarray, others: Sequence[Vector]) -> None:
        """``self += sum of factors * others``."""
        add_multiples(self.rows, factors, [other.rows for other in others])

    def aypx(self, factor: float, other: Vector) -> None:
        """``self = factor * self + other``, which is another vector."""
        assert other is not self
        self.rows *= factor
        self.rows += other.rows

    def waxpy(self, factor: float, other: Vector, start: Vector) -> None:
        """``self = start + factor * other``; ``start`` is another vector."""
        assert start is not self
        np.multiply(other.rows, factor, out=self.rows)
        self.rows += start.rows
