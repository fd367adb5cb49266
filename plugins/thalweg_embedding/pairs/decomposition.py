"""Decomposition of a map: each rank sums over its own rows, or over a slab of the map.

With slabs, a rank holds about N/P points wherever they are rows, and of the other points those
within the near part's radius of its slab: the particle-mesh decomposition of molecular dynamics
(Hockney and Eastwood 1988, "Computer simulation using particles").  Slabs of three dimensions are
cut once more, into pencils, where there would be many more ranks than rows to cut between.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from thalweg.parallel import MPI, Layout, RowRoutes, kernel, sum_over_ranks
from thalweg_embedding.defaults import SLAB_ROWS
from thalweg_embedding.pairs.pencils import grid_shape
from thalweg_embedding.relocation import Relocation

#: Share of the ranks' load that counts by width of their slabs, which is the mesh's, the rest by
#: points: a rank has at most 4/3 of its share of the points, and four times that of the mesh.
SHARE_OF_MESH = 0.25

#: Fewest rows of a slab, of the grid between whose rows maps of three dimensions are cut.
ROWS_OF_SLAB = 4

#: Shortest side of a map whose density is measured.
MIN_SIDE = 1e-6


def decompose(
    layout: Layout, rows: np.ndarray, center: np.ndarray, extent: float
) -> RowDecomposition:
    """Slabs for large maps on several ranks, in a box of a middle and a side.  Collective."""
    if layout.comm.size > 1 and layout.columns > 1 and layout.rows >= SLAB_ROWS:
        return SlabDecomposition(layout, rows, center, extent)
    return RowDecomposition(layout, rows, center, extent)


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
            if self._layout.comm.size == 1:
                return block
            whole = self._layout.gather_rows(block)
            before, after = whole[: self._layout.start], whole[self._layout.stop :]
            return np.concatenate([block, before, after])

        return with_others


class SlabDecomposition(RowDecomposition):
    """Each rank sums over the points of a slab, cut so that all ranks have about as many.

    Slabs lie across the first axis, and pencils, of which a slab of three dimensions may have
    several, along the last.  They end where rows of the grid end on which the density is measured,
    so that it is the same at any number of ranks; a row that holds more than its share of the
    points makes the ranks uneven.
    """

    slabs = True

    def __init__(self, layout: Layout, rows: np.ndarray, center: np.ndarray, extent: float) -> None:
        self._comm = comm = layout.comm
        self._center = center
        self._grid = grid = _Grid(layout, center, extent)
        slabs, pencils = slabs_and_pencils(comm.size, layout.columns, grid.along)
        row = grid.cells(rows, 0)
        counts = np.bincount(row, minlength=grid.along)
        comm.Allreduce(MPI.IN_PLACE, counts)
        # Integers: the same cuts on all ranks.
        self._cuts = _Cuts.of(counts[None], slabs)
        part, counts = self._cuts.part_of(0, row), counts[None]
        self._inner = None
        if pencils > 1:
            column = grid.cells(rows, 1)
            counts = np.bincount(part * grid.along + column, minlength=slabs * grid.along)
            counts = counts.reshape(slabs, grid.along)
            comm.Allreduce(MPI.IN_PLACE, counts)
            self._inner = _Cuts.of(counts, pencils)
            part = part * pencils + self._inner.part_of(part, column)
        self._occupied = (self._inner or self._cuts).sums(counts) > 0
        self._places = Relocation(layout, part)
        self.points = self.from_rows(rows)

    def from_rows(self, block: np.ndarray) -> np.ndarray:
        return self._places.forward(block)

    def to_rows(self, values: np.ndarray) -> np.ndarray:
        return self._places.backward(values)

    def density(self) -> float:
        parts = 1 if self._inner is None else self._inner.parts
        slab, pencil = divmod(self._comm.rank, parts)
        ranges = [(0, 0)]
        if slab < self._cuts.parts:
            ranges = [self._cuts.range_of(0, slab)]
            ranges += [] if self._inner is None else [self._inner.range_of(slab, pencil)]
        pairs = self._grid.pairs(self.points, *ranges)
        return self._grid.density(float(sum_over_ranks(self._comm, pairs)))

    def halo(self, radius: float) -> Callable[[np.ndarray], np.ndarray]:
        radius = radius * (1.0 + 1e-6) / self._grid.side + 1e-6
        rows, ranks = np.arange(len(self.points)), np.zeros(len(self.points), dtype=np.int64)
        for axis, cuts in enumerate((self._cuts, self._inner)):
            if cuts is not None:
                places = self._grid.places(self.points[rows], axis)
                first = cuts.part_of(ranks, places - radius, "left")
                reached = cuts.part_of(ranks, places + radius) - first + 1
                before = np.cumsum(reached) - reached
                rows, ranks = np.repeat(rows, reached), np.repeat(ranks, reached)
                ranks = (
                    ranks * cuts.parts + np.arange(len(rows)) - np.repeat(before - first, reached)
                )
        reached_ranks = self._occupied[ranks] & (ranks != self._comm.rank)
        routes = RowRoutes(self._comm, ranks[reached_ranks], rows[reached_ranks])
        return lambda block: np.concatenate([block, routes.deliver(block)])


def slabs_and_pencils(ranks: int, dimensions: int, rows: int) -> tuple[int, int]:
    """Slabs of a map, and pencils of each; ``rows`` of the grid lie along each axis."""
    if dimensions < 3:
        return ranks, 1
    return grid_shape(ranks, rows // ROWS_OF_SLAB, rows // ROWS_OF_SLAB)


class _Cuts:
    """Rows of cells of one or more slabs, each cut into parts; ``edges`` has a row for a slab."""

    def __init__(self, edges: np.ndarray, length: int) -> None:
        self.edges, self.parts, self._length = edges, edges.shape[1] - 1, length
        # One ascending list of all slabs' inner edges: places lie between -1 and length + 1.
        self._keys = (edges[:, 1:-1] + (length + 4.0) * np.arange(len(edges))[:, None]).ravel()

    @classmethod
    def of(cls, counts: np.ndarray, parts: int) -> _Cuts:
        """Cuts of even load, where ``counts`` are the points by slab and row of cells."""
        length = counts.shape[1]
        shares = np.arange(1, parts) / parts
        edges = np.zeros((len(counts), parts + 1), dtype=np.int64)
        for slab, points in enumerate(counts):
            load = (1.0 - SHARE_OF_MESH) * np.cumsum(points) / max(int(points.sum()), 1)
            load += SHARE_OF_MESH * np.arange(1, length + 1) / length
            edges[slab, 1:-1] = np.minimum(np.searchsorted(load, shares) + 1, length)
        edges[:, -1] = length
        return cls(edges, length)

    def part_of(
        self, slab: np.ndarray | int, places: np.ndarray, side: str = "right"
    ) -> np.ndarray:
        """Part of each place, in rows of cells from the slab's first, of the slab that it is in."""
        keys = np.clip(places, -1.0, self._length + 1.0) + (self._length + 4.0) * slab
        places_in_keys = np.searchsorted(self._keys, keys, side=side)  # type: ignore[call-overload]
        return np.asarray(places_in_keys - slab * (self.parts - 1), dtype=np.int64)

    def range_of(self, slab: int, part: int) -> tuple[int, int]:
        """First row of cells of a part, and one past the last."""
        return int(self.edges[slab, part]), int(self.edges[slab, part + 1])

    def sums(self, counts: np.ndarray) -> np.ndarray:
        """Points of all parts, slab by slab."""
        before = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0)))
        return np.diff(np.take_along_axis(before, self.edges, axis=1), axis=1).ravel()


class _Grid:
    """Square cells over the map, about four for each point."""

    def __init__(self, layout: Layout, center: np.ndarray, extent: float) -> None:
        extent = max(extent, MIN_SIDE)
        self._rows, self._dimensions, self._center = layout.rows, layout.columns, center
        self.along = max(16, math.ceil((4.0 * layout.rows) ** (1.0 / layout.columns)))
        self.low, self.side = -0.5 * extent, extent / self.along

    def places(self, points: np.ndarray, axis: int) -> np.ndarray:
        """Coordinates of points along an axis, in cells from the first."""
        return np.asarray((points[:, axis] - self._center[axis] - self.low) * (1.0 / self.side))

    def cells(self, points: np.ndarray, axis: int) -> np.ndarray:
        """Row of cells of each point, along an axis."""
        return np.clip(self.places(points, axis).astype(np.int64), 0, self.along - 1)

    def pairs(self, points: np.ndarray, *ranges: tuple[int, int]) -> float:
        """Ordered pairs of points with a cell in common.

        All lie in these ranges of cells along the first axes.
        """
        whole = (0, self.along)
        lows, highs = np.array([*ranges, *[whole] * (self._dimensions - len(ranges))]).T
        counts = np.zeros(int(np.prod(highs - lows)), dtype=np.int32)
        if len(points):
            _count(points, self._center, self.low, 1.0 / self.side, lows, highs, counts)
        points_of_cells = counts.astype(float)
        return float(points_of_cells @ (points_of_cells - 1.0))

    def density(self, pairs: float) -> float:
        """Other points in a unit volume around a point."""
        return pairs / (max(self._rows, 1) * self.side**self._dimensions)


@kernel()
def _count(points, center, low, scale, lows, highs, counts):
    for n in range(points.shape[0]):
        number = 0
        for axis in range(points.shape[1]):
            cell = int((points[n, axis] - center[axis] - low) * scale)
            cell = min(max(cell, lows[axis]), highs[axis] - 1)
            number = number * (highs[axis] - lows[axis]) + cell - lows[axis]
        counts[number] += 1
