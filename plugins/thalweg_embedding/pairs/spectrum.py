"""Fourier modes of a radial function on a periodic box."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np
import scipy.fft
import scipy.special

from thalweg.parallel import MPI
from thalweg_embedding.pairs.mesh import Transposition

#: Squared distances to values, any shape, as NumPy arrays.
Radial = Callable[[np.ndarray], np.ndarray]


def bandwidth(
    radial: Radial, tolerance: float, steepest: float | None = None, largest: float = math.inf
) -> float:
    """Wave number, in radians per map unit, beyond which a radial function has almost nothing.

    The function, of the squared distance, is seen along a line.  ``tolerance`` is the error allowed
    in its slope, relative to ``steepest``, by default its own; of the value ``largest`` the same
    share may be lost, and by default values do not count.
    """
    samples, spacing = 2**14, 1.0 / 64.0
    side = samples * spacing
    r = (np.arange(samples) - samples // 2) * spacing
    values = radial(r * r) * _fading(np.abs(r) - 0.4 * side, 0.08 * side, 4.0)
    modes = np.fft.rfft(np.fft.ifftshift(values))
    wave_numbers = 2.0 * math.pi * np.fft.rfftfreq(samples, spacing)
    if steepest is None:
        steepest = float(np.abs(np.fft.irfft(1j * wave_numbers * modes)).max())
    values_lost = np.cumsum(np.abs(modes)[::-1])[::-1] * 2.0 / samples
    slopes_lost = np.cumsum((wave_numbers * np.abs(modes))[::-1])[::-1] * 2.0 / samples
    lost = (slopes_lost > tolerance * steepest) | (values_lost > tolerance * largest)
    beyond = np.flatnonzero(lost)
    return float(wave_numbers[min(beyond[-1] + 1, len(slopes_lost) - 1)]) if len(beyond) else 1.0


def _fading(places: np.ndarray, width: float, decades: float) -> np.ndarray:
    """From 1 to 0 over an interval round 0, but for exp(-decades) at its ends."""
    return np.asarray(0.5 * scipy.special.erfc(places * (2.0 * math.sqrt(decades) / width)))


@dataclass(frozen=True)
class Spectrum:
    """A periodic box in which radial functions are exact for differences of points up to a reach.

    A function is faded out between ``reach`` and ``period - reach`` by an error function, as wide
    as the band allows, and added up periodically: what differs from the function itself lies where
    no difference of points does.
    """

    dimensions: int
    period: float  # its side, in map units
    count: int  # modes in each dimension, even
    #: Width of the fading, and the exponent of what is left at its ends.
    fade: float
    decades: float

    @classmethod
    def of(cls, dimensions: int, reach: float, band: float, tolerance: float) -> "Spectrum":
        """The box for functions of bandwidth ``band``."""
        decades = math.log(10.0 / tolerance)
        fade = 4.0 * decades / band
        period = 2.0 * reach + fade
        count = scipy.fft.next_fast_len(max(32, math.ceil(band * period / math.pi)))
        return cls(dimensions, period, count + count % 2, fade, decades)

    def modes(self, radial: Radial, comm: MPI.Comm) -> np.ndarray:
        """Modes of a radial function, divided by count^d, in slabs on these ranks.  Collective.

        Real, of three axes, those that there are not of length 1, for wave numbers 0 ... count/2 in
        each dimension, but 0 ... count/2 - 1 in the last.  The second axis, in two dimensions the
        last, has this rank's part.
        """
        half = self.count // 2
        lengths = [1] * (3 - self.dimensions) + [half + 1] * self.dimensions
        row_axis = min(1, 3 - self.dimensions)
        columns = half if row_axis == 1 else half + 1
        slabs = Transposition(comm, lengths[row_axis], columns, (row_axis, row_axis + 1))
        places = np.arange(half + 1) * (self.period / self.count)
        images = np.stack([places, self.period - places])
        windows = _fading(images - 0.5 * self.period, self.fade, self.decades)
        parts = [slice(None)] * 3
        parts[row_axis] = slice(slabs.rows.start, slabs.rows.stop)
        lengths[row_axis] = slabs.rows.local_rows
        parts, values = parts[3 - self.dimensions :], np.zeros(lengths)
        for image in np.ndindex(*(2,) * self.dimensions):
            squared, window = np.zeros(()), np.ones(())
            for axis, side in enumerate(image):
                squared = np.add.outer(squared, images[side, parts[axis]] ** 2)
                window = np.multiply.outer(window, windows[side, parts[axis]])
            values += radial(squared) * window
        values = _cosines(values, 2)[..., :half]
        for axis in range(1, 2 - self.dimensions, -1):
            if axis == row_axis:
                values = slabs.to_columns(values)
            values = _cosines(values, axis)
        return values / float(self.count) ** self.dimensions


def _cosines(values: np.ndarray, axis: int) -> np.ndarray:
    """Sums of cosines along an axis; of nothing where a rank has nothing."""
    if not values.size:
        return values
    return np.asarray(scipy.fft.dct(values, type=1, axis=axis, workers=numba.get_num_threads()))
