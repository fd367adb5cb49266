"""Points sorted into square cells, so that those close to each other lie close in memory."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thalweg.parallel import Layout, kernel

#: Coordinates are padded by so many zeros: vector code reads beyond the last point.
PADDING = 32


@dataclass(frozen=True)
class Cells:
    """Points in the order of the cells that they lie in, row after row of cells.

    Attributes
    ----------
    points
        Coordinates from the middle of the box, one row per axis, shape (d, count + PADDING).
    order
        Place of each of them in the array that was given, shape (count,).
    low, side
        Lowest coordinate of the box, the same in each dimension, and side of a cell.
    along
        Number of cells along each axis.
    starts
        First point of each cell, and the number of points: shape (along^d + 1,).
    """

    points: np.ndarray
    order: np.ndarray
    low: float
    side: float
    along: int
    starts: np.ndarray

    @classmethod
    def of(
        cls, rows: np.ndarray, center: np.ndarray, extent: float, side: float, real: np.dtype
    ) -> Cells:
        """Sort ``rows``, which lie in a box of side ``extent`` around ``center``.

        Cells are at least ``side`` wide, and not many more than the points.
        """
        count, d = rows.shape
        low = -0.5 * extent
        most = max(16, math.ceil((4.0 * count) ** (1.0 / d)))
        along = max(1, min(most, int(extent / max(side, 1e-300))))
        side = max(extent / along, 1e-300)
        numbers = np.empty(count, dtype=np.int32)
        starts = np.zeros(along**d + 1, dtype=np.int32)
        order = np.empty(count, dtype=np.int32)
        points = np.zeros((d, count + PADDING), dtype=real)
        _sort(rows, center, low, 1.0 / side, along, numbers, starts, order, points)
        return cls(points, order, low, side, along, starts)

    @property
    def row_starts(self) -> np.ndarray:
        """First point of each row of cells along the first axis, and the number of points."""
        return self.starts[:: self.along ** (len(self.points) - 1)]


def bounding_box(layout: Layout, rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Middle and widest side of the box that holds all ranks' points.  Collective."""
    corners = np.full((2, rows.shape[1]), -math.inf)
    if len(rows):
        corners = np.stack([rows.max(axis=0), -rows.min(axis=0)])
    high, low = np.max(layout.comm.allgather(corners), axis=0)
    return 0.5 * (high - low), float((high + low).max())


def crowding(rows: np.ndarray, center: np.ndarray, extent: float) -> float:
    """Other points in a unit volume around a point, on average over the points."""
    count, d = rows.shape
    cells = Cells.of(rows, center, extent, 0.0, np.dtype(np.float32))
    counts = np.diff(cells.starts).astype(float)
    return float(counts @ (counts - 1.0)) / (max(count, 1) * cells.side**d)


@kernel()
def _sort(rows, center, low, scale, along, numbers, starts, order, points):
    n, d = rows.shape
    for i in range(n):
        number = 0
        for axis in range(d):
            cell = int((rows[i, axis] - center[axis] - low) * scale)
            number = number * along + min(max(cell, 0), along - 1)
        numbers[i] = number
        starts[number + 1] += 1
    for cell in range(starts.size - 1):
        starts[cell + 1] += starts[cell]
    place = starts[:-1].copy()
    for i in range(n):
        p = place[numbers[i]]
        place[numbers[i]] += 1
        order[p] = i
        for axis in range(d):
            points[axis, p] = rows[i, axis] - center[axis]
