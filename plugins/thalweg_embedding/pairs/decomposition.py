"""Decomposition of a map: each rank sums over its own rows, or over a slab of the map.

With slabs, a rank holds about N/P points wherever they are rows, and of the other points those
within the near part's radius of its slab: the particle-mesh decomposition of molecular dynamics
(Hockney and Eastwood 1988, "Computer simulation using particles").
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from thalweg.parallel import MPI, Layout, RowRoutes, kernel, sum_over_ranks
from thalweg_embedding.defaults import SLAB_ROWS
from thalweg_embedding.relocation import Relocation

#: Share of the ranks' load that counts by width of their slabs, which is the mesh's, the rest by
#: points: a rank has at most 4/3 of its share of the points, and four times that of the mesh.
SHARE_OF_MESH = 0.25

#: Shortest side of a map whose density is measured.
MIN_SIDE = 1e-6


class RowDecomposition:
    """Each rank sums over its own rows of the map, and gathers all others where it needs them."""

    #: Whether each rank has a slab of the map, and of the mesh.
    slabs = False
    points: np.ndarray  # coordinates of the points that this rank sums over, shape (points, d)

    def __init__(self, layout: Layout, rows: np.ndarray, center: np.ndarray, extent: float) -> None:
        self.points = rows
        self._layout, self._grid = layout, _Grid(layout, center, extent)

    def from_rows(self, block: np.ndarray) -> np.ndarray:
        """Values of this rank's points, from those of its rows of the map.  Collective."""
        return block

    def to_rows(self, values: np.ndarray) -> np.ndarray:
        """Inverse of :meth:`from_rows`.  Collective."""
        return values

    def density(self) -> float:
        """Other points in a unit volume around a point, on average over the points.  Collective."""
        return self._grid.density(self._grid.pairs(self._layout.gather_rows(self.points)))

    def halo(self, radius: float) -> Callable[[np.ndarray], np.ndarray]:
        """A function that appends the values of all other points within a radius to this rank's.

        Making it is collective, and so is calling it.
        """

        def with_others(block: np.ndarray) -> np.ndarray:
            whole, layout = self._layout.gather_rows(block), self._layout
            return np.concatenate([block, whole[: layout.start], whole[layout.stop :]])

        return with_others


class SlabDecomposition(RowDecomposition):
    """Each rank sums over the points of a slab, cut so that all ranks have about as many.

    Slabs lie across the first axis.  They end where rows of the grid end on which the density is
    measured, so that it is the same at any number of ranks; a row that holds more than its share of
    the points makes the ranks uneven.
    """

    slabs = True

    def __init__(self, layout: Layout, rows: np.ndarray, center: np.ndarray, extent: float) -> None:
        self._comm = comm = layout.comm
        self._grid = grid = _Grid(layout, center, extent)
        row = np.clip(grid.places(rows).astype(np.int64), 0, grid.along - 1)
        counts = np.bincount(row, minlength=grid.along)
        comm.Allreduce(MPI.IN_PLACE, counts)
        load = (1.0 - SHARE_OF_MESH) * np.cumsum(counts) / max(int(counts.sum()), 1)
        load += SHARE_OF_MESH * np.arange(1, grid.along + 1) / grid.along
        # First row of cells of each slab, and their number; integers: the same on all ranks.
        inner = np.searchsorted(load, np.arange(1, comm.size) / comm.size) + 1
        self._edges = np.concatenate([[0], np.minimum(inner, grid.along), [grid.along]])
        self._occupied = np.diff(np.concatenate([[0], np.cumsum(counts)])[self._edges]) > 0
        self._places = Relocation(layout, self._slabs_at(row))
        self.points = self.from_rows(rows)

    def from_rows(self, block: np.ndarray) -> np.ndarray:
        return self._places.forward(block)

    def to_rows(self, values: np.ndarray) -> np.ndarray:
        return self._places.backward(values)

    def density(self) -> float:
        first, end = self._edges[self._comm.rank : self._comm.rank + 2]
        pairs = self._grid.pairs(self.points, int(first), int(end))
        return self._grid.density(float(sum_over_ranks(self._comm, pairs)))

    def _slabs_at(self, places: np.ndarray, side: Literal["left", "right"] = "right") -> np.ndarray:
        """Slab of each place along the first axis, in rows of cells."""
        return np.searchsorted(self._edges[1:-1], places, side=side)

    def halo(self, radius: float) -> Callable[[np.ndarray], np.ndarray]:
        radius = radius * (1.0 + 1e-6) / self._grid.side + 1e-6
        places = self._grid.places(self.points)
        first = self._slabs_at(places - radius, "left")
        reached = self._slabs_at(places + radius) - first + 1
        rows = np.repeat(np.arange(len(self.points)), reached)
        ranks = np.arange(len(rows)) - np.repeat(np.cumsum(reached) - reached - first, reached)
        others = self._occupied[ranks] & (ranks != self._comm.rank)
        routes = RowRoutes(self._comm, ranks[others], rows[others])
        return lambda block: np.concatenate([block, routes.deliver(block)])


def decompose(
    layout: Layout, rows: np.ndarray, center: np.ndarray, extent: float
) -> RowDecomposition:
    """Slabs for large maps on several ranks, in a box of a middle and a side.  Collective."""
    if layout.comm.size > 1 and layout.columns > 1 and layout.rows >= SLAB_ROWS:
        return SlabDecomposition(layout, rows, center, extent)
    return RowDecomposition(layout, rows, center, extent)


class _Grid:
    """Square cells over the map, about four for each point."""

    def __init__(self, layout: Layout, center: np.ndarray, extent: float) -> None:
        extent = max(extent, MIN_SIDE)
        self._rows, self._dimensions, self._center = layout.rows, layout.columns, center
        self.along = max(16, math.ceil((4.0 * layout.rows) ** (1.0 / layout.columns)))
        self.low, self.side = -0.5 * extent, extent / self.along

    def places(self, points: np.ndarray) -> np.ndarray:
        """Coordinates of points along the first axis, in rows of cells from the first."""
        return np.asarray((points[:, 0] - self._center[0] - self.low) * (1.0 / self.side))

    def pairs(self, points: np.ndarray, first: int = 0, end: int | None = None) -> float:
        """Ordered pairs of points with a cell in common; all lie in this range of rows of cells."""
        width = self.along ** (self._dimensions - 1)
        counts = np.zeros(((self.along if end is None else end) - first) * width, dtype=np.int32)
        if len(points):
            scale = 1.0 / self.side
            _count(points, self._center, self.low, scale, self.along, first * width, counts)
        points_of_cells = counts.astype(float)
        return float(points_of_cells @ (points_of_cells - 1.0))

    def density(self, pairs: float) -> float:
        """Other points in a unit volume around a point."""
        return pairs / (max(self._rows, 1) * self.side**self._dimensions)


@kernel()
def _count(points, center, low, scale, along, first, counts):
    for n in range(points.shape[0]):
        number = 0
        for axis in range(points.shape[1]):
            cell = int((points[n, axis] - center[axis] - low) * scale)
            number = number * along + min(max(cell, 0), along - 1)
        number = min(max(number - first, 0), counts.size - 1)
        counts[number] += 1
