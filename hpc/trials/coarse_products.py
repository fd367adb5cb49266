"""Products of fewer bits than single precision, emulated by NumPy, for trials and tests."""

import numpy as np

from thalweg_isometry.pair_changes import scaled


def rounded(bits):
    """Products whose factors are rounded to so many bits, and added in single precision."""

    def multiply(a, b):
        parts = (np.frexp(factor) for factor in (a, b))
        near = (np.ldexp(np.rint(np.ldexp(part, bits)), more - bits) for part, more in parts)
        return np.matmul(*(factor.astype(np.float32) for factor in near))

    return scaled(multiply, 2.0**-bits, 2.0**-24)
