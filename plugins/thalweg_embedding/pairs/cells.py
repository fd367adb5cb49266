"""Points sorted into square cells, so that those close to each other lie close in memory."""

import math
from dataclasses import dataclass

import numpy as np

from thalweg.parallel import Layout, kernel, values_of_all_ranks

#: Coordinates are padded by so many zeros: vector code reads beyond the last point.
PADDING = 32


@dataclass(frozen=True)
class Cells:
    """Points in the order of the cells that they lie in, row after row of cells."""

    #: Coordinates from the middle of the map, one row per axis, shape (d, count + PADDING).
    points: np.ndarray
    order: np.ndarray  # place of each of them in the array that was given, shape (count,)
    #: Lowest coordinate in each dimension, shape (d,), and side of a cell.
    low: np.ndarray
    side: float
    along: np.ndarray  # number of cells along each axis, shape (d,)
    #: First point of each cell, and the number of points: shape (prod(along) + 1,).
    starts: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, center: np.ndarray, side: float, real: np.dtype) -> "Cells":
        """Sort ``rows`` into cells over the box that holds them.

        Cells are at least ``side`` wide, and not many more than the points.
        """
        count, d = rows.shape
        low, spans = np.zeros(d), np.zeros(d)
        if count:
            low, high = corners(rows)
            low -= center
            spans = high - center - low
        most = max(16.0**d, 4.0 * count)
        side = max(side, 1e-300)
        while np.prod(along := np.floor(spans / side) + 1.0) > most:
            side *= max(1.1, (float(np.prod(along)) / most) ** (0.9 / d))
        along = along.astype(np.int64)
        numbers = np.empty(count, dtype=np.int32)
        starts = np.zeros(int(np.prod(along)) + 1, dtype=np.int32)
        order = np.empty(count, dtype=np.int32)
        points = np.zeros((d, count + PADDING), dtype=real)
        _sort(rows, center, low, 1.0 / side, along, numbers, starts, order, points)
        return cls(points, order, low, side, along, starts)


def corners(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest coordinates of one point or more."""
    # Column by column: NumPy is far slower along the long axis of a narrow array.
    return np.array([c.min() for c in rows.T]), np.array([c.max() for c in rows.T])


def bounding_box(layout: Layout, rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Middle and widest side of the box that holds all ranks' points.  Collective."""
    mine = np.full((2, rows.shape[1]), -math.inf)
    if len(rows):
        low, high = corners(rows)
        mine = np.stack([high, -low])
    high, low = values_of_all_ranks(layout.comm, mine).max(axis=0)
    return 0.5 * (high - low), float((high + low).max())


@kernel(writes=("numbers", "starts", "order", "points"))
def _sort(rows, center, low, scale, along, numbers, starts, order, points):
    n, d = rows.shape
    for i in range(n):
        number = 0
        for axis in range(d):
            cell = int((rows[i, axis] - center[axis] - low[axis]) * scale)
            number = number * along[axis] + min(max(cell, 0), along[axis] - 1)
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
