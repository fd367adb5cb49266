"""t-SNE's repulsion in two parts, so that a wide map needs no fine grid: an Ewald split.

With S = 1 + d, 1/S is the integral of exp(-t S) over all t > 0.  Cut at t = T:

    far   (1 - exp(-T S))/S   smooth over 1/sqrt(T), on a coarse grid,
    near  exp(-T S)/S         nothing beyond a radius R, by neighbouring cells.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import prange

from thalweg.parallel import kernel
from thalweg_embedding.pairs.functions import FASTMATH, exp_minus
from thalweg_embedding.pairs.spectrum import bandwidth

#: Cuts to choose from; infinity leaves all to the grid.
CUTS = (math.inf, *(2.0**-power for power in range(-2, 19)))

#: Most modes of a box; a map that needs more is not summed by a grid.
MOST_MODES = 2**25

#: Nanoseconds for a grid point and for a near pair: a model of the cost, good enough to choose by.
GRID_COST, PAIR_COST = 60.0, 4.0

#: Most cells along each axis.
MOST_CELLS = 512


@dataclass(frozen=True)
class Split:
    """A cut of 1/(1 + d) at T.

    Attributes
    ----------
    cut
        T.
    radius
        R, where the near part has fallen to the tolerance.
    band
        Wave number up to which the far part is needed.
    """

    cut: float
    radius: float
    band: float

    @classmethod
    def at(cls, cut: float, tolerance: float) -> Split:
        """The cut at T = ``cut``."""
        if math.isinf(cut):
            return cls(cut, 0.0, bandwidth(lambda d: 1.0 / (1.0 + d), tolerance))
        squared = math.log(10.0 / tolerance) / cut - 1.0
        # The wider the far part, the more points share in what its modes lose.
        lost = tolerance * min(1.0, cut)
        # In units of 1/sqrt(T), where the far part always looks alike, divided by T.
        band = bandwidth(
            lambda d: -np.expm1(-cut - d) / (cut + d),
            lost,
            STEEPEST / cut**1.5,
            LEVEL / min(1.0, cut),
        )
        return cls(cut, math.sqrt(max(squared, 0.0)), band * math.sqrt(cut))

    def far(self, squared: np.ndarray) -> np.ndarray:
        """Values of the far part at squared distances."""
        if math.isinf(self.cut):
            return np.asarray(1.0 / (1.0 + squared))
        return np.asarray(-np.expm1(-self.cut * (1.0 + squared)) / (1.0 + squared))

    def cost(self, rows: int, dimensions: int, extent: float, crowding: float) -> float:
        """Estimated nanoseconds of a sum over so many points in a box of that side.

        ``crowding`` is what :func:`crowding` says of the points.
        """
        grid = modes_of(self.band, extent, dimensions)
        ball = (1.0, 2.0, math.pi, 4.18879)[dimensions] * self.radius**dimensions
        return GRID_COST * grid + PAIR_COST * rows * min(float(rows), ball * crowding)

    def add_near(
        self, rows: np.ndarray, points: np.ndarray, first: int, slopes: np.ndarray | None
    ) -> float:
        """Near part of the sum over this rank's rows; its slopes are added to ``slopes``.

        Parameters
        ----------
        rows, first
            This rank's rows, and the place of the first of them among all.
        points
            All points, shape (N, d).
        """
        if self.radius == 0.0 or not len(rows):
            return 0.0
        low = points.min(axis=0)
        side = max(self.radius, float(np.ptp(points, axis=0).max()) / MOST_CELLS)
        cells = np.floor((points - low) / side).astype(np.int64)
        shape = cells.max(axis=0) + 1
        # Up to two leading axes are made up, so that one loop serves all dimensions.
        d = points.shape[1]
        full = np.ones(3, dtype=np.int64)
        full[3 - d :] = shape
        flat = np.zeros(len(points), dtype=np.int64)
        for axis in range(d):
            flat = flat * shape[axis] + cells[:, axis]
        order = np.argsort(flat, kind="stable")
        starts = np.searchsorted(flat[order], np.arange(full.prod() + 1))
        place = np.zeros((len(rows), 3), dtype=np.int64)
        place[:, 3 - d :] = cells[first : first + len(rows)]
        # Rows cell by cell: one's neighbours are still in the cache when the next one comes.
        mine = order[(order >= first) & (order < first + len(rows))] - first
        totals = np.empty(len(rows))
        wanted = np.empty((0, d)) if slopes is None else slopes
        _near(
            np.ascontiguousarray(rows),
            place,
            mine,
            first,
            points[order],
            order,
            starts,
            full,
            self.cut,
            self.radius**2,
            totals,
            wanted,
        )
        return float(totals.sum())


#: The steepest slope of 1/(1 + r^2), at r^2 = 1/3.
STEEPEST = 2.0 * math.sqrt(1.0 / 3.0) / (4.0 / 3.0) ** 2


#: Of the far part's value at 0, T, this share counts as large: in a wide map most pairs have less.
LEVEL = 0.1


def crowding(points: np.ndarray) -> float:
    """Other points in a unit volume round a point, on average over the points."""
    rows, d = points.shape
    low = points.min(axis=0)
    side = max(float(np.ptp(points, axis=0).max()), 1e-9) / {1: 4096, 2: 256, 3: 48}[d]
    cells = np.floor((points - low) / side).astype(np.int64)
    flat = np.zeros(rows, dtype=np.int64)
    for axis in range(d):
        flat = flat * 4097 + cells[:, axis]
    counts = np.unique(flat, return_counts=True)[1].astype(float)
    return float(counts @ (counts - 1.0)) / (rows * side**d)


def modes_of(band: float, extent: float, dimensions: int) -> float:
    """About how many modes a box needs."""
    return float((band * (2.0 * extent / math.pi + 16.0)) ** dimensions)


def cheapest_split(
    rows: int, dimensions: int, extent: float, crowding: float, tolerance: float
) -> Split:
    """The cut that the cost model prefers, of those whose box is not too large if there are any."""
    splits = [_at(cut, tolerance) for cut in CUTS]
    fitting = [s for s in splits if modes_of(s.band, extent, dimensions) <= MOST_MODES]
    return min(
        fitting or splits[-1:], key=lambda split: split.cost(rows, dimensions, extent, crowding)
    )


_known: dict[tuple[float, float], Split] = {}


def _at(cut: float, tolerance: float) -> Split:
    if (cut, tolerance) not in _known:
        _known[cut, tolerance] = Split.at(cut, tolerance)
    return _known[cut, tolerance]


@kernel(parallel=True, fastmath=set(FASTMATH))
def _near(rows, place, mine, first, points, order, starts, shape, cut, reach, totals, slopes):
    d = rows.shape[1]
    for turn in prange(mine.size):
        n = mine[turn]
        total = 0.0
        for a in range(max(place[n, 0] - 1, 0), min(place[n, 0] + 2, shape[0])):
            for b in range(max(place[n, 1] - 1, 0), min(place[n, 1] + 2, shape[1])):
                # Cells along the last axis follow each other.
                line = (a * shape[1] + b) * shape[2]
                left = starts[line + max(place[n, 2] - 1, 0)]
                right = starts[line + min(place[n, 2] + 2, shape[2])]
                for m in range(left, right):
                    distance = 0.0
                    for i in range(d):
                        u = rows[n, i] - points[m, i]
                        distance += u * u
                    if distance >= reach or order[m] == first + n:
                        continue
                    inverse = 1.0 / (1.0 + distance)
                    value = exp_minus(cut * (1.0 + distance)) * inverse
                    total += value
                    if slopes.size > 0:
                        slope = -value * (cut + inverse)
                        for i in range(d):
                            slopes[n, i] += slope * (rows[n, i] - points[m, i])
        totals[n] = total
