"""Second derivatives of a sum over all pairs by a regular mesh.

With Phi(u) = phi(||u||^2), row n of a quarter of the Hessian times v is

    sum_m H(x_n - x_m) (v_n - v_m),   H = half the Hessian of Phi,

a convolution of v with H, whose modes are those of Phi times wave numbers.  The convex
part that is block diagonal over columns, 2 phi'' u_i^2, is half of Phi's i-th second
derivative less phi': its modes follow from those of two radial functions.  The near part of a
split function is added over the points of neighboring cells.
"""

from __future__ import annotations

import numpy as np

from thalweg.parallel import Layout, max_over_ranks
from thalweg_embedding.pairs import near
from thalweg_embedding.pairs.boxes import (
    CURVATURE_PAIR_COST,
    EXACT_COST,
    Boxes,
    Placement,
)
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.specialize import specialize
from thalweg_embedding.pairs.split import near_function

#: Second derivatives lose this much more to the modes than first ones.
STRICTER = 0.1

#: What ``near.second_order`` is asked for.
PRODUCT, DIAGONAL, CONVEX_PRODUCT, CONVEX_DIAGONAL = range(4)

#: Entries (i, j) of a symmetric matrix of convolutions, as modes.
Matrix = dict[tuple[int, int], np.ndarray]


class GridCurvature:
    """Hessian products and diagonals of a sum over all pairs, through Fourier modes.

    Parameters
    ----------
    layout, function, tolerance
        As in :class:`~thalweg_embedding.pairs.grid.GridPairs`; the tolerance is relative
        to the largest entry of a product or diagonal.  The convex part vanishes where all
        points coincide, and errs there by what is lost of phi', its rival in the Hessian.

    Notes
    -----
    What depends on the points alone is kept until they move: a product then costs
    one transform of each column and one back.
    """

    def __init__(self, layout: Layout, function: PairFunction, tolerance: float) -> None:
        self.layout = layout
        self.function = function
        self.tolerance = tolerance
        self._boxes = Boxes(layout, function, STRICTER * tolerance, CURVATURE_PAIR_COST)
        self._points: np.ndarray | None = None
        self._placed: Placement | None = None
        #: Whether phi'' is nowhere negative, so that its convex part is all of it.
        self.convex = all(function(d)[2] >= 0.0 for d in (0.0, *np.logspace(-4, 4, 400)))

    def serves(self, rows: np.ndarray) -> bool:
        """Whether the mesh is exact enough and quicker than all pairs at these points.

        Collective.  The other methods may be called when the answer is yes, and are about
        these points.
        """
        same = self._points is not None and np.array_equal(self._points, rows)
        if max_over_ranks(self.layout.comm, 0.0 if same else 1.0) == 1.0:
            self._points = rows.copy()
            self._placed = self._place(rows)
        return self._placed is not None

    def product(self, direction: np.ndarray, product: np.ndarray) -> None:
        """As ``PairSum.product``."""
        self._apply(direction, product, self._hessian_modes(), self._hessian_fields(), PRODUCT)

    def diagonal(self, diagonal: np.ndarray) -> None:
        """As ``PairSum.diagonal``."""
        self._diagonal(self._hessian_fields(), DIAGONAL, diagonal)
        diagonal -= self._box.split.far(1)(np.zeros(1))[0]  # of a point with itself

    def convex_product(self, direction: np.ndarray, product: np.ndarray) -> None:
        """As ``PairSum.convex_product``, where phi'' is nowhere negative."""
        modes, fields = self._convex_modes(), self._convex_fields()
        self._apply(direction, product, modes, fields, CONVEX_PRODUCT)

    def convex_diagonal(self, diagonal: np.ndarray) -> None:
        """As ``PairSum.convex_diagonal``, where phi'' is nowhere negative."""
        self._diagonal(self._convex_fields(), CONVEX_DIAGONAL, diagonal)
        np.maximum(diagonal, 0.0, out=diagonal)

    # -- what depends on the points --------------------------------------------------------

    def _place(self, rows: np.ndarray) -> Placement | None:
        layout = self.layout
        placed = self._boxes.place(rows)
        if placed is None:
            return None
        self._box, self._held, self._reached = placed.box, placed.held, placed.reached
        if placed.cost > EXACT_COST * layout.rows * float(layout.rows):
            return None
        self._fields: dict[str, Matrix] = {}
        self._density, total = self._boxes.total(placed, np.zeros_like(placed.held.points))
        if total is None:
            return None
        if placed.box.split.radius > 0.0:
            self._near = self._boxes.near_points(placed)
        return placed

    # -- convolutions ----------------------------------------------------------------------

    def _hessian_modes(self) -> Matrix:
        """Modes of half the Hessian of Phi, entries i <= j."""
        box, d = self._box, self.layout.columns
        waves = [box.mesh.waves(axis) for axis in range(d)]
        return {
            (i, j): -0.5 * waves[i] * waves[j] * box.influence
            for i in range(d)
            for j in range(i, d)
        }

    def _convex_modes(self) -> Matrix:
        """Modes of 2 phi'' u_i^2."""
        box = self._box
        return {
            (i, i): -0.5 * box.mesh.waves(i) ** 2 * box.influence - box.slopes_influence
            for i in range(self.layout.columns)
        }

    def _hessian_fields(self) -> Matrix:
        if "hessian" not in self._fields:
            self._fields["hessian"] = self._summed(self._hessian_modes())
        return self._fields["hessian"]

    def _convex_fields(self) -> Matrix:
        if "convex" not in self._fields:
            self._fields["convex"] = self._summed(self._convex_modes())
        return self._fields["convex"]

    def _summed(self, modes: Matrix) -> Matrix:
        """Sums of kernels over all points, at the points that this rank holds."""
        return {entry: self._at_points(self._density * kernel) for entry, kernel in modes.items()}

    def _at_points(self, modes: np.ndarray) -> np.ndarray:
        """A series at the points that this rank holds."""
        values = np.empty(len(self._held.points))
        values[self._reached.cells.order] = self._box.mesh.at_points(modes, self._reached)
        return values

    def _diagonal(self, fields: Matrix, kind: int, diagonal: np.ndarray) -> None:
        found = np.stack([fields[i, i] for i in range(self.layout.columns)], axis=1)
        self._add_near(kind, np.empty((0, 0)), found)
        diagonal[...] = self._held.home(found)

    def _apply(
        self, direction: np.ndarray, product: np.ndarray, modes: Matrix, fields: Matrix, kind: int
    ) -> None:
        mesh, d = self._box.mesh, self.layout.columns
        moves = self._held.bring(direction)
        order = self._reached.cells.order
        moved = [mesh.modes(self._reached, moves[order, j]) for j in range(d)]
        series = [np.zeros_like(moved[0]) for _ in range(d)]
        found = np.zeros_like(moves)
        for (i, j), kernel in modes.items():
            series[i] += kernel * moved[j]
            found[:, i] += fields[i, j] * moves[:, j]
            if i != j:
                series[j] += kernel * moved[i]
                found[:, j] += fields[i, j] * moves[:, i]
        for i in range(d):
            found[:, i] -= self._at_points(series[i])
        self._add_near(kind, moves, found)
        product[...] = self._held.home(found)

    def _add_near(self, kind: int, moves: np.ndarray, out: np.ndarray) -> None:
        split = self._box.split
        if split.radius == 0.0:
            return
        if kind % 2 == 0:
            moves = self._near.extended(moves)
        run = specialize(near.second_order, near_function(self.function, False), "near")
        run(*self._near.arguments, split.cut, split.radius**2, kind, moves, out)
