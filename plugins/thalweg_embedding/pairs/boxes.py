"""The box of a map, the split of its pair function, and the mesh: functions of x alone.

Nothing is remembered from one map to the next but what the rule would make again, so that a
map has one value, whatever was evaluated before it.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.parallel import Layout, sum_over_ranks
from thalweg_embedding.defaults import MODE_COST
from thalweg_embedding.pairs import near_loops
from thalweg_embedding.pairs.cells import Cells, bounding_box
from thalweg_embedding.pairs.decomposition import RowDecomposition, decompose
from thalweg_embedding.pairs.functions import STUDENT, PairFunction
from thalweg_embedding.pairs.mesh import Mesh, Reached, Window
from thalweg_embedding.pairs.near_far_split import CUTS, Split, near_function
from thalweg_embedding.pairs.specialize import at_zero, specialize
from thalweg_embedding.pairs.spectrum import Spectrum

#: Largest number of modes of a box; a map that needs more is not summed by a mesh.
MAX_MODES = 2**24

#: Ratio of consecutive sides of boxes.
GROWTH = 1.12

#: Densities of points are rounded to powers of this factor.
DENSITY_STEP = 2.0**0.25

#: Below this tolerance sums are taken in double precision.
FINE_TOLERANCE = 3e-5

#: Points per cube of the mesh's band from which its sums need double precision: of 1,000 to
#: 1,000,000 points single precision erred by up to 0.7 of what is allowed with 50, by 4 with 570.
CROWDED = 50.0

#: Number of meshes that are kept for later maps.
KEPT = 4


@dataclass(frozen=True)
class Placement:
    """Points of a map on a mesh: those that this rank sums over, in cells, and what they reach."""

    box: "Box"
    decomposition: RowDecomposition
    reached: Reached
    center: np.ndarray  # the middle of the map
    cost: float  # estimated nanoseconds of a sum


class Box:
    """A split of a pair function and the mesh for its far part in a box of side ``reach``.

    Making it is collective where the mesh lies in slabs.
    """

    def __init__(
        self, layout: Layout, split: Split, reach: float, tolerance: float, slabs: bool,
        crowded: bool = False,
    ) -> None:  # fmt: skip
        self.split = split
        self._spectrum = Spectrum.of(layout.columns, reach, split.band, tolerance)
        # Coordinates of a wide map need more digits than single precision has.
        fine = crowded or tolerance < FINE_TOLERANCE or reach * 2.0**-24 > 0.01 * tolerance
        self.real = np.dtype(np.float64 if fine else np.float32)
        period, count = self._spectrum.period, self._spectrum.count
        how = Window.of(tolerance), self.real, slabs
        self.mesh = Mesh(layout.comm, layout.columns, reach, period, count, *how)
        self.influence = self._influence(0)

    @functools.cached_property
    def slopes_influence(self) -> np.ndarray:
        """The same as ``influence`` of the far part's first derivative.  Collective at first."""
        return self._influence(1)

    def _influence(self, derivative: int) -> np.ndarray:
        return self.mesh.influence(self._spectrum.modes(self.split.far(derivative), self.mesh.comm))


class Boxes:
    """Finds the box for a map; ``pair_cost`` are the nanoseconds of a near pair."""

    def __init__(
        self, layout: Layout, function: PairFunction, tolerance: float, pair_cost: float
    ) -> None:
        self.layout, self.function, self.tolerance = layout, function, tolerance
        self._pair_cost = pair_cost
        self._box = functools.lru_cache(KEPT)(
            lambda split, reach, *how: Box(layout, split, reach, tolerance, *how)
        )

    def place(self, rows: np.ndarray) -> Placement | None:
        """Placement of these points on a mesh; None if no mesh serves.  Collective."""
        center, extent = bounding_box(self.layout, rows)
        if not math.isfinite(extent):
            return None
        decomposition = decompose(self.layout, rows, center, extent)
        reach, density = side_for(extent), decomposition.density()
        if density > 0.0:
            density = DENSITY_STEP ** round(math.log(density, DENSITY_STEP))
        size = self.layout.rows, self.layout.columns, reach, density
        split = cheapest_split(self.function, *size, self.tolerance, self._pair_cost, CUTS)
        if split is None:
            return None
        crowded = split.radius == 0.0 and density > CROWDED * split.band**self.layout.columns
        box = self._box(split, reach, decomposition.slabs, crowded)
        side = split.radius if split.radius > 0.0 else 8.0 * box.mesh.spacing
        reached = box.mesh.reached(Cells.of(decomposition.points, center, side, box.real))
        return Placement(box, decomposition, reached, center, cost(split, *size, self._pair_cost))

    def total(self, placed: Placement, slopes: np.ndarray) -> tuple[np.ndarray, float | None]:
        """Modes of the density, and the sum over all pairs.  Collective.

        ``slopes`` of the points held receives the near part's.  The sum is None where the points
        lie so far apart that it drowns in what a point has to do with itself, or in what is cut
        off.
        """
        box, rows_of_all = placed.box, self.layout.rows
        density = box.mesh.modes(placed.reached)
        own = rows_of_all * box.split.own
        total = box.mesh.energy(density, box.influence) - own
        least = abs(own)
        if box.split.radius > 0.0:
            split, real = box.split, box.real
            points, _ = self.near_points(placed)
            single, count = bool(real == np.float32), points[-1].size
            function = near_function(self.function, single)
            totals = np.zeros(-(-count // near_loops.BLOCK))
            run = specialize(near_loops.first_order, function, "near")
            run(*points, real.type(split.cut), real.type(split.radius**2), totals, slopes)
            near = float(totals.sum()) - count * at_zero(function, split.cut, single)
            total += float(sum_over_ranks(self.layout.comm, near))
            if self.function is not STUDENT:
                least = rows_of_all * abs(self.function(0.0)[0])
        return density, total if total >= math.sqrt(self.tolerance) * least else None

    def near_points(
        self, placed: Placement
    ) -> tuple[tuple[Any, ...], Callable[[np.ndarray], np.ndarray]]:
        """First arguments of :mod:`~thalweg_embedding.pairs.near_loops`, and a halo.  Collective.

        The points are those that this rank holds, and after them others within the split's radius,
        whose values the halo appends; the last argument has the places of those held.
        """
        box, decomposition = placed.box, placed.decomposition
        cells, radius = placed.reached.cells, box.split.radius
        extended = decomposition.halo(radius)
        if self.layout.comm.size > 1:
            cells = Cells.of(extended(decomposition.points), placed.center, radius, box.real)
        own = np.flatnonzero(cells.order < len(decomposition.points)).astype(np.int32)
        where = (cells.points, cells.order, cells.starts, cells.along, cells.low, 1.0 / cells.side)
        return (*where, own), extended


def side_for(extent: float) -> float:
    """Side of the box for a map of this width: a power of :data:`GROWTH`."""
    return GROWTH ** math.ceil(math.log(max(extent, 1.0)) / math.log(GROWTH))


def modes_of(band: float, extent: float, dimensions: int) -> float:
    """Approximate number of modes of a box."""
    return float((band * (2.0 * extent / math.pi + 16.0)) ** dimensions)


def cost(
    split: Split, rows: int, dimensions: int, extent: float, density: float, pair: float
) -> float:
    """Estimated nanoseconds of a sum over so many points in a box of that side.

    ``density`` is what :meth:`~thalweg_embedding.pairs.decomposition.Decomposition.density` says,
    and ``pair`` the cost of a near pair.
    """
    ball = (1.0, 2.0, math.pi, 4.18879)[dimensions] * split.radius**dimensions
    near = pair * rows * min(float(rows), 3.0 * ball * density)
    return MODE_COST * modes_of(split.band, extent, dimensions) + near


@functools.lru_cache(4096)
def cheapest_split(
    function: PairFunction, rows: int, dimensions: int, extent: float, density: float,
    tolerance: float, pair: float, cuts: tuple[float, ...],
) -> Split | None:  # fmt: skip
    """The split that the cost model prefers; None if every box is too large.

    Parameters are those of :func:`cost`; ``cuts`` are tried.
    """
    splits = [Split.at(function, cut, tolerance) for cut in cuts]
    fitting = [s for s in splits if modes_of(s.band, extent, dimensions) <= MAX_MODES]
    if not fitting:
        return None
    costs = [cost(s, rows, dimensions, extent, density, pair) for s in fitting]
    return fitting[int(np.argmin(costs))]
