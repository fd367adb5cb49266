"""A pair function's values on whole arrays."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import prange

from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.specialise import specialise
from thalweg_embedding.pairs.spectrum import Radial


def radial_values(function: PairFunction) -> Radial:
    """The function's value at each squared distance of an array of any shape."""

    def values(squared: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(squared, dtype=float).ravel()
        out = np.empty(flat.size)
        specialise(_fill, function)(flat, out)
        return out.reshape(squared.shape)

    return values


def pair(d):  # pragma: no cover
    """Stand-in for the pair function."""
    return d, 1.0, 0.0


def _fill(squared, values):
    for n in prange(squared.size):
        values[n] = pair(squared[n])[0]
