"""The exponential as a polynomial, of which the compiler makes vector code in loops."""

import math

import numpy as np
from numba.extending import register_jitable

#: 1/11! to 1/0!.
INVERSE_FACTORIALS = tuple(1.0 / math.factorial(n) for n in range(11, -1, -1))


@register_jitable
def exponential(x):  # type: ignore[no-untyped-def]
    """``exp(x)`` to two units in the last place; beyond -700 and 700 it stays as it is there."""
    x = min(max(x, -700.0), 700.0)
    n = np.floor(x * 1.4426950408889634 + 0.5)
    # ln 2 in two parts, so that the remainder, |r| <= ln(2)/2, keeps every bit.
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    p = 1.0 / 479001600.0
    for coefficient in INVERSE_FACTORIALS:
        p = p * r + coefficient
    return p * np.int64((np.int64(n) + 1023) << 52).view(np.float64)
