"""A pair function's values and slopes on whole arrays."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import prange

from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.specialise import specialise
from thalweg_embedding.pairs.spectrum import Radial


def radial_values(function: PairFunction) -> Radial:
    """The function's value at each squared distance of an array of any shape."""
    return _on_arrays(_fill, function)


def radial_slopes(function: PairFunction) -> Radial:
    """The function's first derivative at each squared distance of an array."""
    return _on_arrays(_fill_slopes, function)


def _on_arrays(template: Callable[..., None], function: PairFunction) -> Radial:
    def values(squared: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(squared, dtype=float).ravel()
        out = np.empty(flat.size)
        specialise(template, function)(flat, out)
        return out.reshape(squared.shape)

    return values


def pair(d):  # pragma: no cover
    """Stand-in for the pair function."""
    return d, 1.0, 0.0


def _fill(squared, values):
    for n in prange(squared.size):
        values[n] = pair(squared[n])[0]


def _fill_slopes(squared, values):
    for n in prange(squared.size):
        values[n] = pair(squared[n])[1]
