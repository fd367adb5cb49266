"""The product of a density's and a function's Fourier modes, in one pass."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import prange

from thalweg.parallel import kernel


def convolve(density: np.ndarray, modes: np.ndarray, wave: float, gradient: np.ndarray) -> float:
    """Sum over the points of the potential, and modes of half its gradient.

    Parameters
    ----------
    density
        Modes of the points, shape (count, ...), wave numbers -count/2 ... count/2 - 1.
    modes
        Modes of the function, wave numbers 0 ... count/2 in each dimension.
    wave
        Radians a map unit of wave number 1.
    gradient
        Overwritten, shape (ceil(d/2), count, ...), or (0, ...) if it is not wanted: two real
        components make one complex series.

    Returns
    -------
    float
        sum_k modes_k |density_k|^2 (Parseval).
    """
    d, count = density.ndim, density.shape[0]
    # Up to two leading axes are made up, so that one loop serves all dimensions.
    box = (1,) * (3 - d) + density.shape
    half = (1,) * (3 - d) + modes.shape
    sums = np.zeros(box[0] * box[1])
    _convolve(
        density.reshape(box),
        modes.reshape(half),
        wave,
        gradient.reshape(len(gradient), *box),
        d,
        count // 2,
        sums,
    )
    return float(sums.sum())


@kernel(parallel=True, fastmath={"reassoc", "contract", "nsz"})
def _convolve(density, modes, wave, gradient, d, half, sums):
    for row in prange(sums.size):
        a = row // density.shape[1]
        b = row % density.shape[1]
        ka = a - half if d == 3 else 0
        kb = b - half if d >= 2 else 0
        # The unpaired mode -count/2 has no real derivative.
        wa = wave * ka if -ka != half else 0.0
        wb = wave * kb if -kb != half else 0.0
        power = 0.0
        for c in range(density.shape[2]):
            kc = c - half
            wc = wave * kc if c > 0 else 0.0
            weight = modes[abs(ka), abs(kb), abs(kc)]
            here = density[a, b, c]
            power += weight * (np.float64(here.real) ** 2 + np.float64(here.imag) ** 2)
            if gradient.shape[0] > 0:
                # i (first) - (second): the real part of the series is the slope along the
                # first axis, the imaginary part that along the second.
                if d == 1:
                    first, second, third = wc, 0.0, 0.0
                elif d == 2:
                    first, second, third = wb, wc, 0.0
                else:
                    first, second, third = wa, wb, wc
                scale = 0.5 * weight
                gradient[0, a, b, c] = here * complex(-scale * second, scale * first)
                if gradient.shape[0] > 1:
                    gradient[1, a, b, c] = here * complex(0.0, scale * third)
        sums[row] = power
