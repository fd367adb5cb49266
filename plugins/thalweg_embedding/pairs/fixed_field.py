"""Field of fixed points: a sum over them as a function of position, stored on a mesh."""

import functools
import math

import numpy as np

from thalweg.parallel import MPI, Layout
from thalweg_embedding.defaults import FIXED_ROWS
from thalweg_embedding.pairs import all_pairs_loops
from thalweg_embedding.pairs.boxes import Box, modes_of, side_for
from thalweg_embedding.pairs.cells import Cells, bounding_box
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.mesh import Reached
from thalweg_embedding.pairs.near_far_split import Split
from thalweg_embedding.pairs.specialize import specialize

#: Most modes of a mesh, some 20 bytes each; and of one whose tolerance lets it have half of that.
MAX_MODES, MAX_COARSE_MODES, COARSE = 2**23, 2**25, 5e-3

#: Side of the mesh over that of the box of the fixed points.
MARGIN = 1.1


class FixedField:
    """S(y) = sum over fixed points of phi(||y - x_m||^2), and half its gradient.

    ``function`` is phi, ``points`` are the fixed points, shape (N, d), the same on all ranks, and
    ``tolerance`` is the error of a pair's slope by the modes, relative to the steepest slope.
    For many points in 1 to 3 dimensions S is interpolated from a mesh, at a cost that does not grow
    with N; where a place lies beyond the mesh, points are few, or phi needs a mesh that is too
    fine, all terms are summed.
    """

    def __init__(self, function: PairFunction, points: np.ndarray, tolerance: float = 1e-4) -> None:
        self._function, self._points = function, np.ascontiguousarray(points, dtype=float)
        self._tolerance = tolerance

    def __getstate__(self) -> dict[str, object]:
        # The mesh is made again where it is wanted: it is large, and has a communicator.
        return {name: vars(self)[name] for name in ("_function", "_points", "_tolerance")}

    @functools.cached_property
    def _box(self) -> Box | None:
        rows, d = self._points.shape
        if rows < FIXED_ROWS or not 1 <= d <= 3:
            return None
        reach = side_for(MARGIN * self._middle[1])
        split = Split.at(self._function, math.inf, self._tolerance)
        most = MAX_COARSE_MODES if self._tolerance >= COARSE else MAX_MODES
        if not modes_of(split.band, reach, d) <= most:
            return None
        return Box(Layout(MPI.COMM_SELF, rows, d), split, reach, self._tolerance, False)

    @functools.cached_property
    def _middle(self) -> tuple[np.ndarray, float]:
        return bounding_box(Layout(MPI.COMM_SELF, *self._points.shape), self._points)

    @functools.cached_property
    def _mesh(self) -> np.ndarray:
        """S, and half its derivatives, at the points of the mesh."""
        assert self._box is not None
        mesh, influence = self._box.mesh, self._box.influence
        reached = self._reached(self._points)
        density = mesh.modes(reached)
        slopes = [mesh.slope(density, influence, axis) for axis in range(mesh.dimensions)]
        return mesh.fields((density * influence, *slopes), reached)

    def _reached(self, places: np.ndarray) -> Reached:
        assert self._box is not None
        side = 8.0 * self._box.mesh.spacing
        return self._box.mesh.reached(Cells.of(places, self._middle[0], side, self._box.real))

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """S, shape (M,), and half its gradient, shape (M, d), at places of shape (M, d)."""
        values, slopes = np.zeros(len(places)), np.zeros(places.shape)
        beyond = np.ones(len(places), dtype=bool)
        if self._box is not None:
            center, extent = self._middle
            beyond = ~(np.abs(places - center) <= 0.5 * MARGIN * extent).all(axis=1)
            within = np.flatnonzero(~beyond)
            reached = self._reached(places[within])
            rows = within[reached.cells.order]
            fields = self._box.mesh.interpolated(self._mesh, reached)
            values[rows], slopes[rows] = fields[:, 0], fields[:, 1:]
        if beyond.any():
            rows = np.flatnonzero(beyond)
            totals, pulls = np.zeros(len(rows)), np.zeros((len(rows), places.shape[1]))
            nobody = -len(rows) - 1  # no fixed point is one of the places
            columns, alike = self._points.T.copy(), np.empty((0, 0))
            loop = specialize(all_pairs_loops.first_order, self._function)
            loop(places[rows], columns, nobody, alike, 0, 0.0, totals, pulls)
            values[rows], slopes[rows] = totals, pulls
        return values, slopes
