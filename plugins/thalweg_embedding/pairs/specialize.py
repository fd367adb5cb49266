"""Loops over pairs, compiled anew for each pair function."""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from numba import prange

from thalweg.parallel import kernel
from thalweg_embedding.pairs.functions import FASTMATH

#: What the loops write to.
OUTPUTS = frozenset({"totals", "slopes", "out", "values"})


@functools.cache
def specialize(template: Any, function: Any, name: str = "pair") -> Any:
    """Kernel made of ``template`` with its global ``name`` standing for a compiled function.

    ``function`` is a :class:`~thalweg_embedding.pairs.functions.PairFunction`, or whatever else has
    its attributes ``compiled`` and ``key``.  Numba finds compiled code in its cache by a function's
    file, line and qualified name, and does not look at globals; so the name says which function is
    meant.
    """
    globals_ = dict(template.__globals__, **{name: function.compiled})
    made = FunctionType(template.__code__, globals_, template.__name__)
    made.__qualname__ = f"{template.__qualname__}_{function.key[:32]}"
    made.__module__ = template.__module__
    return kernel(writes=OUTPUTS, parallel=True, fastmath=set(FASTMATH))(made)


def radial(
    function: Any, derivative: int, *parameters: float
) -> Callable[[np.ndarray], np.ndarray]:
    """A compiled function's value (0) or first derivative (1) on arrays of squared distances."""
    template = _fill_with_parameter if parameters else _fill

    def values(squared: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(squared, dtype=float).ravel()
        out = np.empty((2, flat.size))
        specialize(template, function)(flat, *parameters, out)
        return out[derivative].reshape(squared.shape)

    return values


@functools.lru_cache(256)
def at_zero(function: Any, parameter: float, single: bool) -> float:
    """A compiled function's value at distance 0, to the bit as loops in that precision find it."""
    real, out = np.float32 if single else np.float64, np.empty((2, 1))
    specialize(_fill_with_parameter, function)(np.zeros(1, real), real(parameter), out)
    return float(out[0, 0])


def pair(d, parameter=0.0):  # pragma: no cover
    """Stand-in, in loops that :func:`specialize` takes, for the compiled function."""
    return d, 1.0, 0.0


def _fill(squared, values):
    for n in prange(squared.size):
        values[0, n], values[1, n], _ = pair(squared[n])


def _fill_with_parameter(squared, parameter, values):
    for n in prange(squared.size):
        values[0, n], values[1, n], _ = pair(squared[n], parameter)
