"""Products of rows in coarse arithmetic, on a GPU where JAX has one, and bounds of their error.

Rows are scaled by powers of two, which is exact, to components below 1: nothing overflows, and what
underflows is next to nothing beside the norms.  A certificate by such products holds as well; more
pairs are left to be measured in double precision.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.engines.secants import gamma
from thalweg.errors import InputError

#: Matrix product of float64 arrays, and a bound of its error for so many terms, relative to the
#: norms of the factors.
Products = tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Callable[[int], float]]
DOUBLE: Products = (np.matmul, gamma)

#: Largest relative error of a factor that is rounded; cut off, as tensor cores may, in tf32.
ROUNDING = {"float64": 0.0, "float32": 2.0**-24, "tf32": 2.0**-10, "bfloat16": 2.0**-8}


def products_in(arithmetic: str) -> Products:
    """Products in an arithmetic, those below double precision by JAX."""
    if arithmetic not in ROUNDING:
        raise InputError(
            f"no arithmetic is named {arithmetic!r}; give one of {', '.join(ROUNDING)}"
        )
    if arithmetic == "float64":
        return DOUBLE
    if importlib.util.find_spec("jax") is None:
        raise InputError(f"products in {arithmetic} need JAX: pip install 'thalweg[jax]'")
    import jax

    single = jax.numpy.float32
    number = jax.numpy.bfloat16 if arithmetic == "bfloat16" else single
    # Other devices than GPUs may round to bfloat16 by default.
    how = "default" if arithmetic == "tf32" and jax.default_backend() == "gpu" else "highest"

    @jax.jit
    def multiply(a: Any, b: Any) -> Any:
        a, b = a.astype(number), b.astype(number)
        return jax.numpy.matmul(a, b, precision=how, preferred_element_type=single)

    # Sums on tensor cores are cut off, not rounded, and of a few bits fewer.
    return scaled(multiply, ROUNDING[arithmetic], 2.0**-22)


def scaled(multiply: Callable[[Any, Any], Any], rounding: float, unit: float) -> Products:
    """Products by ``multiply`` of float32 arrays, which rounds factors, and sums to a unit."""

    def product(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        sides = [np.abs(rows).max(axis=1, initial=0.0), np.abs(columns).max(axis=0, initial=0.0)]
        up, left = (np.frexp(side)[1] for side in sides)
        factors = np.ldexp(rows, -up[:, None]), np.ldexp(columns, -left)
        found = np.asarray(multiply(*(factor.astype(np.float32) for factor in factors)))
        return np.ldexp(found.astype(float), up[:, None] + left)

    def error(terms: int) -> float:
        rounded = (1.0 + 2.0**-24) * (1.0 + rounding)
        return rounded**2 * (1.0 + gamma(terms, unit)) - 1.0 + terms * 2.0**-120

    return product, error
