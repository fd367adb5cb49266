"""Where a map lies, how its pair function is split, and the mesh that serves: a rule of x alone.

Nothing is remembered from one map to the next but what the rule would make again, so that a
map has one value, whatever was evaluated before it.
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from thalweg.parallel import Layout, sum_over_ranks
from thalweg_embedding.pairs import near
from thalweg_embedding.pairs.cells import Cells, bounding_box, crowding
from thalweg_embedding.pairs.functions import STUDENT, PairFunction
from thalweg_embedding.pairs.mesh import Mesh, Window
from thalweg_embedding.pairs.specialize import specialize
from thalweg_embedding.pairs.spectrum import Spectrum
from thalweg_embedding.pairs.split import CUTS, Split, near_function, split_at

#: Most modes of a box; a map that needs more is not summed by a mesh.
MOST_MODES = 2**24

#: Nanoseconds for a mode and for a near pair: a model of the cost, good enough to choose by.
MODE_COST, PAIR_COST = 20.0, 1.0

#: The same for a near pair of second derivatives, and for a pair of an exact sum.
CURVATURE_PAIR_COST, EXACT_COST = 6.0, 1.5

#: Boxes come from a ladder of sides, each this much larger than the last.
GROWTH = 1.12

#: Densities of points are told apart by this factor.
DENSITY_STEP = 2.0**0.25

#: Below this tolerance sums are taken in double precision.
FINE_TOLERANCE = 3e-5

#: Meshes kept for maps to come.
KEPT = 4


@dataclass(frozen=True)
class Placement:
    """This rank's points on a mesh.

    Attributes
    ----------
    box
        Mesh and modes.
    cells, center, extent
        The points in order, the middle of the map and the side of the box.
    cost
        Estimated nanoseconds of a sum.
    """

    box: Box
    cells: Cells
    center: np.ndarray
    extent: float
    cost: float


class Box:
    """A split of a pair function and the mesh for its far part in a box of side ``reach``."""

    def __init__(self, layout: Layout, split: Split, reach: float, tolerance: float) -> None:
        self.split = split
        self._reach, self._tolerance, self._dimensions = reach, tolerance, layout.columns
        self.values = self._spectrum(0)
        # Coordinates of a wide map need more digits than single precision has.
        fine = tolerance < FINE_TOLERANCE or reach * 2.0**-24 > 0.01 * tolerance
        self.real = np.dtype(np.float64 if fine else np.float32)
        self.mesh = Mesh(
            layout.comm,
            layout.columns,
            reach,
            self.values.period,
            self.values.count,
            Window.of(tolerance),
            self.real,
        )
        self.influence = self.mesh.influence(self.values.modes)

    @functools.cached_property
    def slopes_influence(self) -> np.ndarray:
        """The same as ``influence`` of the far part's first derivative."""
        return self.mesh.influence(self._spectrum(1).modes)

    def _spectrum(self, derivative: int) -> Spectrum:
        radial, band = self.split.far(derivative), self.split.band
        return Spectrum.of(radial, self._dimensions, self._reach, band, self._tolerance)


class Boxes:
    """Finds the box for a map.

    Parameters
    ----------
    layout, function, tolerance
        As in :class:`~thalweg_embedding.pairs.grid.GridPairs`.
    pair_cost
        Nanoseconds of a near pair.
    """

    def __init__(
        self, layout: Layout, function: PairFunction, tolerance: float, pair_cost: float
    ) -> None:
        self.layout, self.function, self.tolerance = layout, function, tolerance
        self._pair_cost = pair_cost
        self._kept: OrderedDict[tuple[float, float], Box] = OrderedDict()

    def place(self, rows: np.ndarray) -> Placement | None:
        """Where these points lie; None if no mesh serves.  Collective."""
        center, extent = bounding_box(self.layout, rows)
        if not math.isfinite(extent):
            return None
        reach = rung(extent)
        layout = self.layout
        whole = layout.gather_rows(rows)
        crowd = rounded(crowding(whole, center, reach))
        size = layout.rows, layout.columns, reach, crowd
        split = cheapest_split(self.function, *size, self.tolerance, self._pair_cost, CUTS)
        if split is None:
            return None
        box = self._box(split, reach)
        side = split.radius if split.radius > 0.0 else 8.0 * box.mesh.spacing
        cells = Cells.of(rows, center, reach, side, box.real)
        return Placement(box, cells, center, reach, cost(split, *size, self._pair_cost))

    def total(
        self, placed: Placement, rows: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, float | None]:
        """Modes of the density, and the sum over all pairs.  Collective.

        ``slopes`` receives the near part's.  The sum is None where the points lie so far apart
        that it drowns in what a point has to do with itself, or in what is cut off.
        """
        box, rows_of_all = placed.box, self.layout.rows
        density = box.mesh.modes(placed.cells)
        own = rows_of_all * box.split.own
        total = box.mesh.energy(density, box.influence) - own
        least = abs(own)
        if box.split.radius > 0.0:
            near = self._add_near(placed, rows, slopes)
            total += float(sum_over_ranks(self.layout.comm, near))
            if self.function is not STUDENT:
                least = rows_of_all * abs(self.function(0.0)[0])
        enough = total >= math.sqrt(self.tolerance) * least
        return density, total if enough else None

    def near_points(self, placed: Placement, rows: np.ndarray) -> tuple[Cells, np.ndarray, int]:
        """All ranks' points in cells, the places of this rank's among them, and its first row."""
        layout, box = self.layout, placed.box
        if layout.comm.size == 1:
            return placed.cells, np.arange(len(rows), dtype=np.int32), 0
        whole = layout.gather_rows(rows)
        cells = Cells.of(whole, placed.center, placed.extent, box.split.radius, box.real)
        inside = (cells.order >= layout.start) & (cells.order < layout.stop)
        return cells, np.flatnonzero(inside).astype(np.int32), layout.start

    def _add_near(self, placed: Placement, rows: np.ndarray, slopes: np.ndarray) -> float:
        """Near part of the sum over this rank's rows, of a point with itself left out."""
        split, real = placed.box.split, placed.box.real
        cells, own, first = self.near_points(placed, rows)
        function = near_function(self.function, real == np.float32)
        cut = real.type(split.cut)
        totals = np.zeros(-(-own.size // near.BLOCK))
        run = specialize(near.first_order, function, "near")
        where = (cells.points, cells.order, cells.starts, cells.along, cells.low, 1.0 / cells.side)
        run(*where, own, first, cut, real.type(split.radius**2), totals, slopes)
        itself = float(function.compiled(real.type(0.0), cut)[0])
        return float(totals.sum()) - len(rows) * itself

    def _box(self, split: Split, reach: float) -> Box:
        key = (split.cut, reach)
        if key not in self._kept:
            while len(self._kept) >= KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = Box(self.layout, split, reach, self.tolerance)
        self._kept.move_to_end(key)
        return self._kept[key]


def rung(extent: float) -> float:
    """Side of the box for a map of that extent."""
    return GROWTH ** math.ceil(math.log(max(extent, 1.0)) / math.log(GROWTH))


def modes_of(band: float, extent: float, dimensions: int) -> float:
    """About how many modes a box needs."""
    return float((band * (2.0 * extent / math.pi + 16.0)) ** dimensions)


def cost(
    split: Split, rows: int, dimensions: int, extent: float, crowd: float, pair: float
) -> float:
    """Estimated nanoseconds of a sum over so many points in a box of that side.

    ``crowd`` is what :func:`~thalweg_embedding.pairs.cells.crowding` says of the points, and
    ``pair`` the cost of a near pair.
    """
    ball = (1.0, 2.0, math.pi, 4.18879)[dimensions] * split.radius**dimensions
    near = pair * rows * min(float(rows), 3.0 * ball * crowd)
    return MODE_COST * modes_of(split.band, extent, dimensions) + near


def rounded(crowd: float) -> float:
    """A density of points on a ladder of few values."""
    return DENSITY_STEP ** round(math.log(crowd, DENSITY_STEP)) if crowd > 0.0 else 0.0


@functools.lru_cache(4096)
def cheapest_split(
    function: PairFunction,
    rows: int,
    dimensions: int,
    extent: float,
    crowd: float,
    tolerance: float,
    pair: float,
    cuts: tuple[float, ...] = CUTS,
) -> Split | None:
    """The split that the cost model prefers; None if every box is too large.

    Parameters are those of :func:`cost`; ``cuts`` are tried.
    """
    splits = [split_at(function, cut, tolerance) for cut in cuts]
    fitting = [s for s in splits if modes_of(s.band, extent, dimensions) <= MOST_MODES]
    if not fitting:
        return None
    costs = [cost(s, rows, dimensions, extent, crowd, pair) for s in fitting]
    return fitting[int(np.argmin(costs))]
