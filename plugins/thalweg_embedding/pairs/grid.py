"""Sums over all pairs by a regular grid: cost N log N, error chosen.

A smooth function of the difference of two points is a short Fourier series on a box
that holds all differences.  The sum over pairs is then a convolution: strengths are
spread to the modes of the box by a non-uniform FFT, multiplied by the function's
modes, and evaluated at the points by another one.  Derivatives multiply the modes by
their wave numbers, and the total follows from Parseval's identity.
"""

from __future__ import annotations

import math

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import Layout, max_over_ranks, sum_over_ranks
from thalweg_embedding.pairs.convolution import convolve
from thalweg_embedding.pairs.curvature import GridCurvature, rung
from thalweg_embedding.pairs.every import EveryPair
from thalweg_embedding.pairs.functions import STUDENT, PairFunction
from thalweg_embedding.pairs.interface import PairSum
from thalweg_embedding.pairs.radial import radial_values
from thalweg_embedding.pairs.spectrum import Spectrum, bandwidth
from thalweg_embedding.pairs.split import MOST_MODES, Split, cheapest_split, crowding, modes_of
from thalweg_embedding.pairs.transforms import Transforms, require_finufft

#: Dimensions that non-uniform FFTs come in.
MOST_DIMENSIONS = 3


class GridPairs(PairSum):
    """Sum of phi over all pairs of points, through Fourier modes.

    Parameters
    ----------
    layout
        Rows of the map, and its dimension, 1 to 3.
    function
        phi, smooth as a function of the difference of two points.
    tolerance
        What the modes may lose of a pair's slope, relative to the steepest slope.

    Raises
    ------
    InputError
        More than 3 dimensions, or finufft is missing.

    Notes
    -----
    t-SNE's 1/(1 + d) is cut in two where the map is wide, so that the cost does not grow with
    the map's extent (see :mod:`~thalweg_embedding.pairs.split`).

    Ranks spread their own points, sum the modes, and evaluate at their own points.
    Second derivatives are taken through modes too, where that is quicker than all pairs (see
    :mod:`~thalweg_embedding.pairs.curvature`).
    """

    def __init__(self, layout: Layout, function: PairFunction, tolerance: float = 1e-3) -> None:
        require_finufft()
        if layout.columns > MOST_DIMENSIONS:
            raise InputError(
                f"repulsion by a grid serves maps of 1 to {MOST_DIMENSIONS} dimensions, not "
                f"{layout.columns}; use repulsion = 'exact'"
            )
        self.layout = layout
        self.function = function
        self.tolerance = tolerance
        self._exact = EveryPair(layout, function)
        self._curvature = GridCurvature(layout, function, tolerance)
        self._values = radial_values(function)
        self._whole = bandwidth(self._values, tolerance)
        self._split: Split | None = None
        self._cut_for = 0.0
        self._spectrum: Spectrum | None = None
        self._transforms: Transforms | None = None

    def total(self, rows: np.ndarray, shift: float = 0.0) -> float:  # noqa: D102
        return self._first_order(rows, None, shift)

    def total_and_slopes(  # noqa: D102
        self, rows: np.ndarray, slopes: np.ndarray, shift: float = 0.0
    ) -> float:
        return self._first_order(rows, slopes, shift)

    def _first_order(self, rows: np.ndarray, slopes: np.ndarray | None, shift: float) -> float:
        centre, extent = self._box(rows)
        if shift != 0.0 or not self._fits(rows, extent):
            return self._by_pairs(rows, slopes, shift)
        spectrum, transforms = self._modes(extent)
        transforms.place((rows - centre) * (2.0 * math.pi / spectrum.period))
        density = transforms.to_modes(np.ones((1, len(rows))))[0]
        d = self.layout.columns
        gradient = np.empty(
            ((d + 1) // 2 if slopes is not None else 0, *density.shape), density.dtype
        )
        total = convolve(density, spectrum.modes, 2.0 * math.pi / spectrum.period, gradient)
        own = self.function(0.0)[0] if self._split is None else self._split.far(np.zeros(1))[0]
        self_pairs = self.layout.rows * own
        total -= self_pairs
        if total < math.sqrt(self.tolerance) * self_pairs:
            return self._by_pairs(rows, slopes, shift)  # points so far apart: self-pairs drown it
        if slopes is not None:
            for pair_of_axes, series in enumerate(gradient):
                slope = transforms.at_points(series[None])[0]
                slopes[:, 2 * pair_of_axes] = slope.real
                if 2 * pair_of_axes + 1 < d:
                    slopes[:, 2 * pair_of_axes + 1] = slope.imag
        if self._split is not None and self._split.radius > 0.0:
            whole = self.layout.gather_rows(rows)
            near = self._split.add_near(rows, whole, self.layout.start, slopes)
            total += float(sum_over_ranks(self.layout.comm, near))
        return total

    def _by_pairs(self, rows: np.ndarray, slopes: np.ndarray | None, shift: float) -> float:
        if slopes is None:
            return self._exact.total(rows, shift)
        return self._exact.total_and_slopes(rows, slopes, shift)

    def _box(self, rows: np.ndarray) -> tuple[np.ndarray, float]:
        comm = self.layout.comm
        high = [max_over_ranks(comm, float(c.max(initial=-math.inf))) for c in rows.T]
        low = [-max_over_ranks(comm, float((-c).max(initial=-math.inf))) for c in rows.T]
        centre = 0.5 * (np.array(high) + np.array(low))
        return centre, float(np.max(np.array(high) - np.array(low)))

    def _fits(self, rows: np.ndarray, extent: float) -> bool:
        if not math.isfinite(extent):
            return False
        reach = rung(extent)
        band = self._whole
        if self.function is STUDENT:
            if self._split is None or self._cut_for != reach:
                crowd = crowding(self.layout.gather_rows(rows))
                self._split = cheapest_split(
                    self.layout.rows, self.layout.columns, reach, crowd, self.tolerance
                )
                self._cut_for = reach
            band = self._split.band
        return modes_of(band, reach, self.layout.columns) <= MOST_MODES

    def _modes(self, extent: float) -> tuple[Spectrum, Transforms]:
        reach = rung(extent)
        values = self._values if self._split is None else self._split.far
        band = self._whole if self._split is None else self._split.band
        if self._spectrum is None or self._spectrum.reach != reach:
            self._spectrum = Spectrum.of(values, self.layout.columns, reach, band, self.tolerance)
            self._transforms = Transforms(
                self.layout.comm,
                self.layout.columns,
                self._spectrum.count,
                max(1e-12, 0.1 * self.tolerance),
            )
        assert self._transforms is not None
        return self._spectrum, self._transforms

    def product(  # noqa: D102
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        curvature = self._second_order(rows, shift)
        if curvature is None:
            self._exact.product(rows, direction, product, shift)
        else:
            curvature.product(direction, product)

    def diagonal(  # noqa: D102
        self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0
    ) -> None:
        curvature = self._second_order(rows, shift)
        if curvature is None:
            self._exact.diagonal(rows, diagonal, shift)
        else:
            curvature.diagonal(diagonal)

    def convex_product(  # noqa: D102
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        curvature = self._second_order(rows, shift)
        if curvature is None or not curvature.convex:
            self._exact.convex_product(rows, direction, product, shift)
        else:
            curvature.convex_product(direction, product)

    def convex_diagonal(  # noqa: D102
        self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0
    ) -> None:
        curvature = self._second_order(rows, shift)
        if curvature is None or not curvature.convex:
            self._exact.convex_diagonal(rows, diagonal, shift)
        else:
            curvature.convex_diagonal(diagonal)

    def _second_order(self, rows: np.ndarray, shift: float) -> GridCurvature | None:
        """Where the grid serves for second derivatives.  Collective."""
        if shift != 0.0:
            return None
        serves = self._curvature.serves(rows, lambda: self._box(rows))
        return self._curvature if serves else None
