"""Second derivatives of a sum over all pairs by a regular grid.

With Phi(u) = phi(||u||^2), row n of a quarter of the Hessian times v is

    sum_m H(x_n - x_m) (v_n - v_m),   H = half the Hessian of Phi,

a convolution of v with H, whose modes are those of Phi times wave numbers.  The convex
part that is block diagonal over columns, 2 phi'' u_i^2, is half of Phi's i-th second
derivative less phi': its modes follow from those of two radial functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from thalweg.parallel import Layout, max_over_ranks
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.radial import radial_slopes, radial_values
from thalweg_embedding.pairs.spectrum import Spectrum, bandwidth
from thalweg_embedding.pairs.transforms import Transforms

#: Second derivatives lose this much more to the modes than first ones.
STRICTER = 0.1

#: Nanoseconds for a mode and for a pair: a model of the cost, good enough to choose by.
MODE_COST, PAIR_COST = 200.0, 6.0


#: Boxes come from a ladder of sides, each this much larger than the last.
GROWTH = 1.12


def rung(extent: float) -> float:
    """Side of the box for a map of that extent."""
    return GROWTH ** math.ceil(math.log(max(extent, 1.0)) / math.log(GROWTH))


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
        self._band: float | None = None
        self._spectra: tuple[Spectrum, Spectrum] | None = None
        self._transforms: Transforms | None = None
        self._points: np.ndarray | None = None
        self._serves = False
        #: Whether phi'' is nowhere negative, so that its convex part is all of it.
        self.convex = all(function(d)[2] >= 0.0 for d in (0.0, *np.logspace(-4, 4, 400)))

    def serves(self, rows: np.ndarray, box: Callable[[], tuple[np.ndarray, float]]) -> bool:
        """Whether the grid is exact enough and quicker than all pairs at these points.

        Collective.  ``box`` gives the centre and the largest side of the map.  The other
        methods may be called when the answer is yes, and are about these points.
        """
        same = self._points is not None and np.array_equal(self._points, rows)
        if max_over_ranks(self.layout.comm, 0.0 if same else 1.0) == 0.0:
            return self._serves
        centre, extent = box()
        self._points = rows.copy()
        self._serves = math.isfinite(extent) and self._place(rows, centre, rung(extent))
        return self._serves

    def product(self, direction: np.ndarray, product: np.ndarray) -> None:
        """As ``PairSum.product``."""
        self._apply(direction, product, self._hessian_modes(), self._hessian_fields())

    def diagonal(self, diagonal: np.ndarray) -> None:
        """As ``PairSum.diagonal``."""
        own = self.function(0.0)[1]  # of a point with itself
        fields = self._hessian_fields()
        for i in range(self.layout.columns):
            diagonal[:, i] = fields[i, i] - own

    def convex_product(self, direction: np.ndarray, product: np.ndarray) -> None:
        """As ``PairSum.convex_product``, where phi'' is nowhere negative."""
        self._apply(direction, product, self._convex_modes(), self._convex_fields())

    def convex_diagonal(self, diagonal: np.ndarray) -> None:
        """As ``PairSum.convex_diagonal``, where phi'' is nowhere negative."""
        fields = self._convex_fields()
        for i in range(self.layout.columns):
            diagonal[:, i] = np.maximum(fields[i, i], 0.0)

    # -- what depends on the points --------------------------------------------------------

    def _place(self, rows: np.ndarray, centre: np.ndarray, reach: float) -> bool:
        layout = self.layout
        if self._band is None:
            finer = STRICTER * self.tolerance
            self._band = bandwidth(radial_values(self.function), finer)
        modes = (self._band * (2.0 * reach / math.pi + 16.0)) ** layout.columns
        if modes * MODE_COST > PAIR_COST * layout.rows * float(layout.rows):
            return False
        self._take_spectra(reach)
        assert self._spectra is not None
        assert self._transforms is not None
        values = self._spectra[0]
        self._wave = 2.0 * math.pi / values.period
        self._transforms.place((rows - centre) * self._wave)
        self._density = self._transforms.to_modes(np.ones((1, len(rows))))[0]
        self._fields: dict[str, dict[tuple[int, int], np.ndarray]] = {}
        own = layout.rows * self.function(0.0)[0]
        power = self._density.real.astype(float) ** 2 + self._density.imag.astype(float) ** 2
        total = float(np.sum(self._whole(values) * power)) - own
        # Points so far apart that their pairs drown in what a point has to do with itself.
        return total >= math.sqrt(self.tolerance) * own

    def _take_spectra(self, reach: float) -> None:
        if self._spectra is not None and self._spectra[0].reach == reach:
            return
        assert self._band is not None
        d, finer = self.layout.columns, STRICTER * self.tolerance
        values, slopes = (
            Spectrum.of(radial(self.function), d, reach, self._band, finer)
            for radial in (radial_values, radial_slopes)
        )
        self._spectra = values, slopes
        self._transforms = Transforms(self.layout.comm, d, values.count, max(1e-12, 0.1 * finer))
        half = values.count // 2
        self._numbers = np.arange(-half, half)

    def _whole(self, spectrum: Spectrum) -> np.ndarray:
        """A function's modes for wave numbers of both signs, shape (count, ...)."""
        places = np.abs(self._numbers)
        return spectrum.modes[np.ix_(*(places,) * self.layout.columns)]

    def _waves(self, axis: int) -> np.ndarray:
        """Wave numbers along an axis, in radians a map unit; 0 for the unpaired one."""
        waves = self._wave * np.where(-self._numbers == self._numbers.size // 2, 0, self._numbers)
        shape = [1] * self.layout.columns
        shape[axis] = -1
        return waves.reshape(shape)

    # -- convolutions ----------------------------------------------------------------------

    def _hessian_modes(self) -> dict[tuple[int, int], np.ndarray]:
        """Modes of half the Hessian of Phi, entries i <= j."""
        assert self._spectra is not None
        values, d = self._whole(self._spectra[0]), self.layout.columns
        return {
            (i, j): -0.5 * self._waves(i) * self._waves(j) * values
            for i in range(d)
            for j in range(i, d)
        }

    def _convex_modes(self) -> dict[tuple[int, int], np.ndarray]:
        """Modes of 2 phi'' u_i^2."""
        assert self._spectra is not None
        values, slopes = (self._whole(spectrum) for spectrum in self._spectra)
        return {
            (i, i): -0.5 * self._waves(i) ** 2 * values - slopes for i in range(self.layout.columns)
        }

    def _hessian_fields(self) -> dict[tuple[int, int], np.ndarray]:
        if "hessian" not in self._fields:
            self._fields["hessian"] = self._summed(self._hessian_modes())
        return self._fields["hessian"]

    def _convex_fields(self) -> dict[tuple[int, int], np.ndarray]:
        if "convex" not in self._fields:
            self._fields["convex"] = self._summed(self._convex_modes())
        return self._fields["convex"]

    def _summed(
        self, modes: dict[tuple[int, int], np.ndarray]
    ) -> dict[tuple[int, int], np.ndarray]:
        """Sums of kernels over all points, at this rank's points."""
        found = self._evaluated([self._density * kernel for kernel in modes.values()])
        return dict(zip(modes, found, strict=True))

    def _evaluated(self, series: list[np.ndarray]) -> list[np.ndarray]:
        """Real Fourier series at this rank's points, two in each transform."""
        assert self._transforms is not None
        found: list[np.ndarray] = []
        for k in range(0, len(series), 2):
            pair = series[k] + 1j * series[k + 1] if k + 1 < len(series) else series[k]
            values = self._transforms.at_points(pair[None])[0]
            found += [values.real.astype(float), values.imag.astype(float)]
        return found[: len(series)]

    def _apply(
        self,
        direction: np.ndarray,
        product: np.ndarray,
        modes: dict[tuple[int, int], np.ndarray],
        fields: dict[tuple[int, int], np.ndarray],
    ) -> None:
        assert self._transforms is not None
        d = self.layout.columns
        moved = self._transforms.to_modes(np.ascontiguousarray(direction.T))
        series = [np.zeros(moved.shape[1:], dtype=moved.dtype) for _ in range(d)]
        product[...] = 0.0
        for (i, j), kernel in modes.items():
            series[i] += kernel * moved[j]
            product[:, i] += fields[i, j] * direction[:, j]
            if i != j:
                series[j] += kernel * moved[i]
                product[:, j] += fields[i, j] * direction[:, i]
        for i, values in enumerate(self._evaluated(series)):
            product[:, i] -= values
