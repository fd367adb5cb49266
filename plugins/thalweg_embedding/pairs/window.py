"""The window that spreads points to a mesh: an exponential of a semicircle."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

#: Mesh points of a window's innermost axis are padded to this many: full vector registers.
PAD = 8


@dataclass(frozen=True)
class Window:
    """Window that spreads a point over mesh points along one axis."""

    taps: int  # mesh points that a point reaches
    oversampling: float  # mesh points per Fourier mode that is kept
    #: Polynomials of the taps' weights, highest power first, shape (degree + 1, padded taps).
    coefficients: np.ndarray

    @classmethod
    @cache
    def of(cls, tolerance: float) -> "Window":
        """The narrowest window whose errors stay below a tenth of ``tolerance``."""
        decades = -math.log10(tolerance)
        taps = int(min(16, max(4, math.ceil(1.35 * decades + 2.0))))
        oversampling = 1.5 if decades < 4.5 else 2.0
        return cls.with_taps(taps, oversampling)

    @classmethod
    def with_taps(cls, taps: int, oversampling: float) -> "Window":
        """A window of so many mesh points."""
        padded = PAD * -(-taps // PAD)
        degree = min(taps + 4, 16)
        nodes = np.cos(np.pi * (np.arange(64) + 0.5) / 64)
        coefficients = np.zeros((degree + 1, padded))
        for tap in range(taps):
            z = 2.0 * (0.5 * (nodes + 1.0) + tap) / taps - 1.0
            fitted = np.polynomial.Chebyshev.fit(
                nodes, _semicircle(z, taps, oversampling), degree, domain=[-1, 1]
            )
            powers = fitted.convert(kind=np.polynomial.Polynomial).coef
            coefficients[degree + 1 - len(powers) :, tap] = powers[::-1]
        return cls(taps, oversampling, coefficients)

    def transform(self, angles: np.ndarray) -> np.ndarray:
        """Fourier transform of the window at wave numbers in radians per mesh point."""
        nodes, weights = np.polynomial.legendre.leggauss(4 * self.taps + 20)
        values = _semicircle(nodes, self.taps, self.oversampling) * weights
        half = 0.5 * self.taps
        return np.asarray(half * np.cos(np.multiply.outer(angles * half, nodes)) @ values)


def _semicircle(z: np.ndarray, taps: int, oversampling: float) -> np.ndarray:
    beta = 0.97 * math.pi * taps * (1.0 - 0.5 / oversampling)
    inside = np.sqrt(np.maximum(1.0 - z * z, 0.0))
    return np.where(np.abs(z) <= 1.0, np.exp(beta * (inside - 1.0)), 0.0)
