"""Sums over all pairs by a regular mesh: cost N log N, error chosen.

MATHEMATICS.md tells how, under "How all pairs are summed".  Derivatives multiply the modes by
their wave numbers.
"""

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import Array, Layout, min_over_ranks
from thalweg_embedding.defaults import EXACT_COST, PAIR_COST
from thalweg_embedding.pairs.all_pairs import AllPairs
from thalweg_embedding.pairs.boxes import FINE_TOLERANCE, Boxes
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.grid_curvature import GridCurvature
from thalweg_embedding.pairs.mesh_loops import add_in_order
from thalweg_embedding.pairs.pair_sum import PairSum, SecondOrder

#: Dimensions that meshes serve.
MAX_DIMENSIONS = 3

#: The relative error of a total is this share of the tolerance, or half the tolerance's root if
#: that is more: what was seen of normal, clustered, straight and collapsed maps, rounded up.
ERROR_OF_TOTAL = 0.015

#: Error added by single precision, where the tolerance allows it and points are not crowded.
ERROR_OF_SINGLE = 8e-6

#: A value reported at the end is computed with this share of the tolerance.
REFINEMENT = 0.01


class GridPairs(PairSum):
    """Sum of phi over all pairs of points in 1 to 3 dimensions, through Fourier modes.

    phi is smooth as a function of the difference of two points, and ``tolerance`` the error of a
    pair's slope by the modes, relative to the steepest slope.  Mesh and split are chosen from the
    map alone: a map has one total, to the bit, whatever was summed before it.

    On several ranks a large map is summed by slabs: points go to the rank that has their slab, no
    rank has all points or the whole mesh, and what a rank sends falls with their number (see
    :mod:`~thalweg_embedding.pairs.decomposition`).  For small maps ranks spread their own points,
    sum the meshes, and evaluate at their own points.  Second derivatives are taken through modes
    too, where that is quicker than all pairs (see :mod:`~thalweg_embedding.pairs.grid_curvature`).
    """

    def __init__(self, layout: Layout, function: PairFunction, tolerance: float = 1e-3) -> None:
        if layout.columns > MAX_DIMENSIONS:
            raise InputError(
                f"repulsion by a grid serves maps of 1 to {MAX_DIMENSIONS} dimensions, not "
                f"{layout.columns}; use repulsion = 'exact'"
            )
        self.layout = layout
        self.function = function
        self.tolerance = tolerance
        self.relative_error = tolerance * max(ERROR_OF_TOTAL, 0.5 * tolerance**0.5)
        if tolerance >= FINE_TOLERANCE:
            self.relative_error = max(self.relative_error, ERROR_OF_SINGLE)
        self._exact = AllPairs(layout, function)
        self._boxes = Boxes(layout, function, tolerance, PAIR_COST)
        self._curvature = GridCurvature(layout, function, tolerance)

    def refined_total(self, rows: Array) -> float:
        finer = GridPairs(self.layout, self.function, max(REFINEMENT * self.tolerance, 1e-10))
        finer.note = self.note
        return finer.total(rows)

    def first_order(self, rows: Array, shift: float, slopes: bool) -> tuple[float, Array]:
        placed = self._boxes.place(rows) if shift == 0.0 else None
        if placed is None:
            self._announce("no mesh serves for its width", rows)
            return self._exact.first_order(rows, shift, slopes)
        gradient_rows = np.zeros_like(placed.decomposition.points)
        density, total = self._boxes.total(placed, gradient_rows)
        if total is None:
            self._announce("its points lie too far apart for a mesh", rows)
            return self._exact.first_order(rows, shift, slopes)
        if not slopes:
            return total, gradient_rows[:0]
        mesh, reached = placed.box.mesh, placed.reached
        series = (mesh.slope(density, placed.box.influence, i) for i in range(self.layout.columns))
        add_in_order(reached.cells.order, mesh.at_points(series, reached), gradient_rows)
        return total, placed.decomposition.to_rows(gradient_rows)

    def _announce(self, reason: str, rows: Array) -> None:
        """Say that all pairs are summed, unless the map is not finite.  Collective."""
        if min_over_ranks(self.layout.comm, float(np.isfinite(rows).all())) == 0.0:
            return
        seconds = 1e-9 * EXACT_COST * self.layout.rows * float(self.layout.rows)
        self.note(
            f"the repulsion of some maps is summed over all pairs, since {reason}: about "
            f"{seconds / self.layout.comm.size:.2g} s each time"
        )

    def second_order(self, kind: SecondOrder, rows: Array, direction: Array, shift: float) -> Array:
        curvature = self._curvature
        if shift == 0.0 and curvature.serves(rows) and (curvature.convex or not kind.convex):
            return curvature.second_order(kind, direction)
        return self._exact.second_order(kind, rows, direction, shift)
