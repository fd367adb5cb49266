"""A pair function in two parts, so that a wide map needs no fine mesh.

The far part is smooth, and left to a mesh; the near part is nothing beyond a radius R, and
summed over the points of neighboring cells: for t-SNE's kernel, with S = 1 + d, exp(-T S)/S, for
any other function phi exp(-(T d)^2).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.extending import register_jitable

from thalweg.numerics import exponential
from thalweg_embedding.pairs.functions import STUDENT, CompiledFunction, PairFunction
from thalweg_embedding.pairs.specialize import radial
from thalweg_embedding.pairs.spectrum import bandwidth

#: Cuts to choose from; infinity leaves all to the mesh.
CUTS = (math.inf, *(2.0**-power for power in range(-2, 19)))

#: Share of the far part's largest value that counts as large: most pairs of a wide map have less.
LARGE_SHARE = 0.1

#: Where nothing is cut off, values lose this share of what slopes may lose: in a collapsed map all
#: pairs lose the same.
VALUE_LOSS = 0.003


@register_jitable
def _exponential_single(x: Any) -> Any:
    """exp(x) for x <= 0 in single precision, as vector code; beyond -79 it stays as it is there."""
    y = max(x, np.float32(-79.0)) * np.float32(1.44269504)
    # Truncation rounds to the nearest, since y <= 0; a floor would go through 64-bit integers.
    k = np.int32(y - np.float32(0.5))
    r = y - np.float32(k)
    p = np.float32(1.33335581e-3)
    p = p * r + np.float32(9.61812911e-3)
    p = p * r + np.float32(5.55041087e-2)
    p = p * r + np.float32(0.240226507)
    p = p * r + np.float32(0.693147182)
    p = p * r + np.float32(1.0)
    power: Any = np.int32((k + np.int32(127)) << np.int32(23)).view(np.float32)
    return p * power


def _student(real: Any) -> Callable[..., Any]:
    one, power = real(1.0), exponential if real is float else _exponential_single

    def near(d: Any, cut: Any) -> Any:
        inverse = one / (one + d)
        value = power(-cut * (one + d)) * inverse
        slope = -value * (cut + inverse)
        return value, slope, -slope * (cut + inverse) + value * inverse * inverse

    return near


def _windowed(pair: PairFunction) -> Callable[[float, float], tuple[float, float, float]]:
    whole = pair.compiled

    def near(d: float, cut: float) -> tuple[float, float, float]:
        value, slope, curvature = whole(d)
        t = cut * d
        window = exponential(-t * t)
        first = -2.0 * cut * t
        second = curvature + 2.0 * slope * first + value * (first * first - 2.0 * cut * cut)
        return value * window, (slope + value * first) * window, second * window

    return near


@functools.cache
def near_function(function: PairFunction, single: bool) -> CompiledFunction:
    """The near part of a function: of the squared distance and the cut, with two derivatives.

    In single precision if its split comes in it.
    """
    if function is STUDENT:
        return CompiledFunction.of(_student(np.float32 if single else float))
    return CompiledFunction.of(_windowed(function))


@dataclass(frozen=True)
class Split:
    """A cut of a pair function at T."""

    function: PairFunction
    cut: float  # T; infinity leaves all to the far part
    radius: float  # R, where the near part has fallen to the tolerance
    band: float  # wave number up to which the far part is needed

    @classmethod
    @functools.cache
    def at(cls, function: PairFunction, cut: float, tolerance: float) -> "Split":
        """The cut at T = ``cut``, of errors below ``tolerance``."""
        if math.isinf(cut):
            lost = VALUE_LOSS * abs(function(0.0)[0])
            band = bandwidth(radial(function, 0), tolerance, largest=lost)
            return cls(function, cut, 0.0, band)
        decades = math.log(10.0 / tolerance)
        if function is STUDENT:
            squared = max(decades / cut - 1.0, 0.0)
        else:
            # Beyond this squared distance an even density of points gives next to nothing: a
            # hundredth of the tolerance of the function's integral over the plane.
            d = np.concatenate([[0.0], np.logspace(-2, 8, 2000)])
            values = np.abs(radial(function, 0)(d))
            shares = 0.5 * (values[1:] + values[:-1]) * np.diff(d)
            beyond = np.cumsum(shares[::-1])[::-1] + values[-1] * d[-1]
            small = np.flatnonzero(beyond <= 0.01 * tolerance * beyond[0])
            squared = min(math.sqrt(decades) / cut, float(d[small[0]]) if small.size else math.inf)
        unfinished = cls(function, cut, math.sqrt(squared), 0.0)
        # In units of 1/sqrt(T), where far parts look much alike.
        far = unfinished.far(0)
        largest = float(np.abs(far(np.logspace(-4, 4, 200) / cut)).max())
        # The wider the far part, the more points share in what its modes lose.
        lost = tolerance * min(1.0, cut)
        r = np.concatenate([np.logspace(-3, 0, 200), np.linspace(1.0, 30.0, 1000)])
        r = r[r >= function.core_radius]
        # The steepest slope of the function along a line.
        steepest = float(np.abs(2.0 * r * radial(function, 1)(r * r)).max()) / math.sqrt(cut)
        large = LARGE_SHARE * largest / min(1.0, cut)
        band = bandwidth(lambda d: far(d / cut), lost, steepest, large)
        return cls(function, cut, unfinished.radius, band * math.sqrt(cut))

    def far(self, derivative: int) -> Callable[[np.ndarray], np.ndarray]:
        """The far part's value (0) or derivative in d (1) at squared distances."""
        whole = radial(self.function, derivative)
        if math.isinf(self.cut):
            return whole
        near = radial(near_function(self.function, False), derivative, self.cut)
        return lambda squared: whole(squared) - near(squared)

    @functools.cached_property
    def own(self) -> float:
        """The far part of a point with itself."""
        return float(self.far(0)(np.zeros(1))[0])
