"""Second derivatives of a sum over all pairs by a regular mesh.

With Phi(u) = phi(||u||^2), row n of a quarter of the Hessian times v is

    sum_m H(x_n - x_m) (v_n - v_m),   H = half the Hessian of Phi,

a convolution of v with H, whose modes are those of Phi times wave numbers.  The convex part,
2 phi'' u_i^2, is half of Phi's i-th second derivative less phi'.
"""

import itertools

import numpy as np

from thalweg.parallel import Array, Layout, max_over_ranks
from thalweg_embedding.defaults import CURVATURE_PAIR_COST, EXACT_COST
from thalweg_embedding.pairs import near_loops
from thalweg_embedding.pairs.boxes import Boxes, Placement
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.near_far_split import near_function
from thalweg_embedding.pairs.pair_sum import SecondOrder
from thalweg_embedding.pairs.specialize import specialize

#: Second derivatives lose this much more to the modes than first ones.
STRICTER = 0.1

#: Entries (i, j) of a symmetric matrix of convolutions, as modes.
Matrix = dict[tuple[int, int], np.ndarray]


class GridCurvature:
    """Hessian products and diagonals of a sum over all pairs, through Fourier modes.

    The tolerance is relative to the largest entry of a product or diagonal.  The convex part
    vanishes where all points coincide, and errs there by what is lost of phi', its rival in the
    Hessian.  What depends on the points alone is kept until they move: a product then costs one
    transform of each column and one back.
    """

    def __init__(self, layout: Layout, function: PairFunction, tolerance: float) -> None:
        self.layout = layout
        self.function = function
        self.tolerance = tolerance
        self._boxes = Boxes(layout, function, STRICTER * tolerance, CURVATURE_PAIR_COST)
        self._rows: np.ndarray | None = None
        self._placed: Placement | None = None
        #: Whether phi'' is nowhere negative, so that its convex part is all of it.
        self.convex = all(function(d)[2] >= 0.0 for d in (0.0, *np.logspace(-4, 4, 400)))

    def serves(self, rows: np.ndarray) -> bool:
        """Whether the mesh is exact enough and quicker than all pairs at these points.

        Collective.  The other methods may be called when the answer is yes, and are about
        these points.
        """
        same = self._rows is not None and np.array_equal(self._rows, rows)
        if max_over_ranks(self.layout.comm, 0.0 if same else 1.0) == 1.0:
            self._rows, self._placed = rows.copy(), None
            n, placed = self.layout.rows, self._boxes.place(rows)
            if placed is None or placed.cost > EXACT_COST * n * float(n):
                return False
            self._box, self._decomposition = placed.box, placed.decomposition
            self._reached = placed.reached
            self._fields: dict[bool, Matrix] = {}
            slopes = np.zeros_like(placed.decomposition.points)
            self._density, total = self._boxes.total(placed, slopes)
            if total is None:
                return False
            if placed.box.split.radius > 0.0:
                self._near, self._extended = self._boxes.near_points(placed)
            self._placed = placed
        return self._placed is not None

    def second_order(self, kind: SecondOrder, direction: Array) -> Array:
        """As :meth:`PairSum.second_order`; convex parts where phi'' is nowhere negative."""
        if kind.convex not in self._fields:  # sums of the kernels over all points
            self._fields[kind.convex] = {
                entry: self._at_points(self._density * kernel)
                for entry, kernel in self._modes(kind.convex).items()
            }
        fields = self._fields[kind.convex]
        if kind in (SecondOrder.PRODUCT, SecondOrder.CONVEX_PRODUCT):
            return self._product(kind, fields, direction)
        sums = np.stack([fields[i, i] for i in range(self.layout.columns)], axis=1)
        self._add_near(kind, np.empty((0, 0)), sums)
        rows = self._decomposition.to_rows(sums)
        if kind.convex:
            return np.maximum(rows, 0.0)
        return rows - self._box.split.far(1)(np.zeros(1))[0]  # of a point with itself

    def _modes(self, convex: bool) -> Matrix:
        """Modes of half the Hessian of Phi, entries i <= j, or of 2 phi'' u_i^2."""
        box, d = self._box, self.layout.columns
        k = [box.mesh.waves(axis) for axis in range(d)]
        if convex:
            return {
                (i, i): -0.5 * k[i] ** 2 * box.influence - box.slopes_influence for i in range(d)
            }
        pairs = itertools.combinations_with_replacement(range(d), 2)
        return {(i, j): -0.5 * k[i] * k[j] * box.influence for i, j in pairs}

    def _at_points(self, modes: np.ndarray) -> np.ndarray:
        """A series at the points that this rank holds."""
        values = np.empty(len(self._decomposition.points))
        values[self._reached.cells.order] = self._box.mesh.at_points([modes], self._reached)[:, 0]
        return values

    def _product(self, kind: SecondOrder, fields: Matrix, direction: Array) -> Array:
        mesh, d = self._box.mesh, self.layout.columns
        moves = self._decomposition.from_rows(direction)
        moved = [mesh.modes(self._reached, moves[self._reached.cells.order, j]) for j in range(d)]
        series = [np.zeros_like(moved[0]) for _ in range(d)]
        product = np.zeros_like(moves)
        for (i, j), kernel in self._modes(kind.convex).items():
            series[i] += kernel * moved[j]
            product[:, i] += fields[i, j] * moves[:, j]
            if i != j:
                series[j] += kernel * moved[i]
                product[:, j] += fields[i, j] * moves[:, i]
        for i in range(d):
            product[:, i] -= self._at_points(series[i])
        self._add_near(kind, moves, product)
        return self._decomposition.to_rows(product)

    def _add_near(self, kind: SecondOrder, moves: np.ndarray, out: np.ndarray) -> None:
        split = self._box.split
        if split.radius == 0.0:
            return
        if kind in (SecondOrder.PRODUCT, SecondOrder.CONVEX_PRODUCT):
            moves = self._extended(moves)
        run = specialize(near_loops.second_order, near_function(self.function, False), "near")
        run(*self._near, split.cut, split.radius**2, int(kind), moves, out)
