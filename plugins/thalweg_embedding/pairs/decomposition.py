"""Decomposition of a map: each rank sums over its own rows, or over a slab of the map.

With slabs, a rank holds about N/P points wherever they are rows, and of the other points those
within the near part's radius of its slab: the particle-mesh decomposition of molecular dynamics
(Hockney and Eastwood 1988, "Computer simulation using particles").
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from thalweg.parallel import MPI, Layout, Relocation, RowRoutes, kernel, sum_over_ranks

#: Rows of a map from which several ranks take a slab each; below, all points go to all ranks,
#: and a dozen exchanges are spared.
SLAB_ROWS = 20_000

#: Share of the ranks' load that counts by width of their slabs, which is the mesh's, the rest by
#: points: a rank has at most 4/3 of its share of the points, and four times that of the mesh.
SHARE_OF_MESH = 0.25

#: Shortest side of a map whose density is measured.
MIN_SIDE = 1e-6


class Decomposition(Protocol):
    """Points that this rank sums over, and the ways from the map's rows to them and back."""

    #: Coordinates of this rank's points, shape (points, d).
    points: np.ndarray
    #: Whether each rank has a slab of the map, and of the mesh.
    slabs: bool

    def from_rows(self, block: np.ndarray) -> np.ndarray:
        """Values of this rank's points, from those of its rows of the map.  Collective."""

    def to_rows(self, values: np.ndarray) -> np.ndarray:
        """Inverse of :meth:`from_rows`.  Collective."""

    def density(self) -> float:
        """Other points in a unit volume around a point, on average over the points.  Collective."""

    def halo(self, radius: float) -> Callable[[np.ndarray], np.ndarray]:
        """A function that appends the values of all other points within a radius to this rank's.

        Making it is collective, and so is calling it.
        """


def decompose(layout: Layout, rows: np.ndarray, center: np.ndarray, extent: float) -> Decomposition:
    """Slabs for large maps on several ranks.  Collective.

    Parameters
    ----------
    layout, rows
        The map, and this rank's rows of it.
    center, extent
        Middle and side of the box that holds all points.
    """
    if layout.comm.size > 1 and layout.columns > 1 and layout.rows >= SLAB_ROWS:
        return SlabDecomposition(layout, rows, center, extent)
    return RowDecomposition(layout, rows, center, extent)


class RowDecomposition:
    """Each rank sums over its own rows of the map, and gathers all others where it needs them."""

    slabs = False

    def __init__(self, layout: Layout, rows: np.ndarray, center: np.ndarray, extent: float) -> None:
        self.points = rows
        self._layout, self._grid = layout, _Grid(layout, center, extent)

    def from_rows(self, block: np.ndarray) -> np.ndarray:  # noqa: D102
        return block

    def to_rows(self, values: np.ndarray) -> np.ndarray:  # noqa: D102
        return values

    def density(self) -> float:  # noqa: D102
        pairs = self._grid.pairs(self._layout.gather_rows(self.points), 0, self._grid.along)
        return self._grid.density(pairs)

    def halo(self, radius: float) -> Callable[[np.ndarray], np.ndarray]:  # noqa: D102
        def with_others(block: np.ndarray) -> np.ndarray:
            if self._layout.comm.size == 1:
                return block
            whole = self._layout.gather_rows(block)
            before, after = whole[: self._layout.start], whole[self._layout.stop :]
            return np.concatenate([block, before, after])

        return with_others


class SlabDecomposition:
    """Each rank sums over the points of a slab, cut so that all ranks have about as many.

    Slabs lie across the first axis.  They end where rows of the grid end on which the density is
    measured, so that it is the same at any number of ranks; a row that holds more than its share of
    the points makes the ranks uneven.
    """

    slabs = True

    def __init__(self, layout: Layout, rows: np.ndarray, center: np.ndarray, extent: float) -> None:
        self._comm = comm = layout.comm
        self._center = center[0]
        self._grid = grid = _Grid(layout, center, extent)
        row = grid.rows_of(rows)
        counts = np.bincount(row, minlength=grid.along)
        comm.Allreduce(MPI.IN_PLACE, counts)
        # Integers: the same cuts on all ranks.
        load = (1.0 - SHARE_OF_MESH) * np.cumsum(counts) / max(layout.rows, 1)
        load += SHARE_OF_MESH * np.arange(1, grid.along + 1) / grid.along
        shares = np.arange(1, comm.size) / comm.size
        self._cuts = np.concatenate([[0], np.searchsorted(load, shares) + 1, [grid.along]])
        self._cuts = np.minimum(self._cuts, grid.along)
        before = np.concatenate([[0], np.cumsum(counts)])[self._cuts]
        self._occupied = np.diff(before) > 0
        places = Relocation(layout, np.searchsorted(self._cuts[1:-1], row, side="right"))
        self.from_rows, self.to_rows = places.forward, places.backward
        self.points = places.forward(rows)

    def density(self) -> float:  # noqa: D102
        first, last = self._cuts[self._comm.rank : self._comm.rank + 2]
        pairs = self._grid.pairs(self.points, int(first), int(last))
        return self._grid.density(float(sum_over_ranks(self._comm, pairs)))

    def halo(self, radius: float) -> Callable[[np.ndarray], np.ndarray]:  # noqa: D102
        inner = self._grid.low + self._cuts[1:-1] * self._grid.side
        radius = radius * (1.0 + 1e-6) + 1e-6 * self._grid.side
        places = self.points[:, 0] - self._center
        first = np.searchsorted(inner, places - radius, side="left")
        last = np.searchsorted(inner, places + radius, side="right")
        reached = last - first + 1
        rows = np.repeat(np.arange(len(places)), reached)
        ranks = np.arange(len(rows)) - np.repeat(np.cumsum(reached) - reached - first, reached)
        wanted = self._occupied[ranks] & (ranks != self._comm.rank)
        routes = RowRoutes(self._comm, ranks[wanted], rows[wanted])
        return lambda block: np.concatenate([block, routes.deliver(block)])


class _Grid:
    """Square cells over the map, about four for each point."""

    def __init__(self, layout: Layout, center: np.ndarray, extent: float) -> None:
        extent = max(extent, MIN_SIDE)
        self._rows, self._dimensions, self._center = layout.rows, layout.columns, center
        self.along = max(16, math.ceil((4.0 * layout.rows) ** (1.0 / layout.columns)))
        self.low, self.side = -0.5 * extent, extent / self.along

    def rows_of(self, points: np.ndarray) -> np.ndarray:
        """Row of cells of each point, along the first axis."""
        places = (points[:, 0] - self._center[0] - self.low) * (1.0 / self.side)
        return np.clip(places.astype(np.int64), 0, self.along - 1)

    def pairs(self, points: np.ndarray, first: int, last: int) -> float:
        """Ordered pairs of points with a cell in common, where all lie in rows first to last."""
        counts = np.zeros((last - first) * self.along ** (self._dimensions - 1), dtype=np.int32)
        if len(points):
            _count(points, self._center, self.low, 1.0 / self.side, self.along, first, counts)
        found = counts.astype(float)
        return float(found @ (found - 1.0))

    def density(self, pairs: float) -> float:
        """Other points in a unit volume around a point."""
        return pairs / (max(self._rows, 1) * self.side**self._dimensions)


@kernel()
def _count(points, center, low, scale, along, first, counts):
    for n in range(points.shape[0]):
        number = 0
        for axis in range(points.shape[1]):
            cell = min(max(int((points[n, axis] - center[axis] - low) * scale), 0), along - 1)
            number = number * along + cell - (first if axis == 0 else 0)
        counts[min(max(number, 0), counts.size - 1)] += 1
