"""The Kronecker factors of one layer: sums over rows, moving averages, damped inverses.

With inputs a and sampled derivatives g by the pre-activations they are ``A = E[a a']`` and
``G = E[g g']`` (MATHEMATICS.md).  With weights that serve at several places of a row (positions of
a convolution, steps of a recurrence) ``A = E[sum_t a_t a_t']`` and ``G = E[mean_t g_t g_t']``
(Grosse and Martens 2016, equation 30).  Everything here is local to a rank.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from thalweg.errors import NumericalError
from thalweg_saddlefree.capabilities import LayerBlock, LayerSample


class Moments(NamedTuple):
    """Sums over rows, which the ranks add up: upper triangles, column-major."""

    inputs: np.ndarray  # sum of ``a a'``
    derivatives: np.ndarray  # sum of ``g g'`` over rows, mean over places

    @classmethod
    def zero(cls, block: LayerBlock, dtype: np.dtype) -> "Moments":
        """Sums over no rows."""
        sizes = (block.inputs, block.outputs)
        return cls(*(np.zeros((size, size), dtype, order="F") for size in sizes))

    def add(self, sample: LayerSample, block: LayerBlock) -> None:
        """Add the rows of a sample."""
        rows, places, _ = sample.inputs.shape
        a = sample.inputs.reshape(rows * places, -1)
        g = sample.derivatives.reshape(rows * places, -1)
        if block.bias:
            a = np.concatenate([a, np.ones((len(a), 1), a.dtype)], axis=1)
        _add_squares(np.ascontiguousarray(a), 1.0, self.inputs)
        _add_squares(np.ascontiguousarray(g), 1.0 / places, self.derivatives)


def _add_squares(rows: np.ndarray, factor: float, total: np.ndarray) -> None:
    """Add ``factor * rows' rows`` to the upper triangle of ``total``."""
    syrk = blas.dsyrk if total.dtype == np.float64 else blas.ssyrk
    if len(rows):
        syrk(factor, rows.T, beta=1.0, c=total, overwrite_c=1)


class LayerFactors(NamedTuple):
    """Moving averages of a layer's factors, and their damped inverses.

    The upper triangles count; column-major.
    """

    #: A and G.
    inputs: np.ndarray
    derivatives: np.ndarray
    #: Inverses of the damped A and G.
    left: np.ndarray
    right: np.ndarray

    @classmethod
    def zero(cls, block: LayerBlock, dtype: np.dtype) -> "LayerFactors":
        """Factors before the first average, of the shapes of later ones."""
        return cls(*Moments.zero(block, dtype), *Moments.zero(block, dtype))

    def averaged(self, mean: Moments, keep: float) -> "LayerFactors":
        """Averages moved towards new means over rows, with the part ``keep`` of the old ones."""
        return self._replace(
            inputs=keep * self.inputs + (1 - keep) * mean.inputs,
            derivatives=keep * self.derivatives + (1 - keep) * mean.derivatives,
        )

    def shifts(self, damping: float, xp: Any = np) -> tuple[float, float]:
        """What A and G are damped by, also in ``jax.numpy``.

        Martens and Grosse (2015), section 6.3: pi makes the damping of the product smallest.
        """
        a = xp.asarray(xp.trace(self.inputs), float) / len(self.inputs)
        g = xp.asarray(xp.trace(self.derivatives), float) / len(self.derivatives)
        known = (a > 0) & (g > 0)
        pi = xp.where(known, xp.sqrt(xp.where(known, a, 1) / xp.where(known, g, 1)), 1)
        return pi * xp.sqrt(damping), xp.sqrt(damping) / pi

    def inverted(self, damping: float) -> "LayerFactors":
        """The factors with their inverses at a damping."""
        if not (np.isfinite(self.inputs).all() and np.isfinite(self.derivatives).all()):
            raise NumericalError(
                "a Kronecker factor is not finite: the network's activations or derivatives "
                "overflow; start from smaller weights or scale the data"
            )
        left, right = self.shifts(damping)
        return self._replace(
            left=_inverse(self.inputs, left), right=_inverse(self.derivatives, right)
        )

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """Damped inverse times a gradient of the layer's shape."""
        symm = blas.dsymm if gradient.dtype == np.float64 else blas.ssymm
        # BLAS is column-major: it sees the transpose of the gradient.
        turned = symm(1.0, self.right, gradient.T, side=0, lower=0)
        return np.asarray(symm(1.0, self.left, turned, side=1, lower=0, overwrite_c=1).T)


def _inverse(matrix: np.ndarray, shift: float) -> np.ndarray:
    """Inverse of ``matrix + shift I`` by Cholesky's method; upper triangles, column-major.

    In the precision of the matrix, or in double where that fails.
    """
    for dtype in (matrix.dtype, np.dtype(float)):
        shifted = np.array(matrix, dtype=dtype, order="F")
        shifted.flat[:: len(shifted) + 1] += shift
        potrf, potri = lapack.get_lapack_funcs(("potrf", "potri"), (shifted,))
        factor, failed = potrf(shifted, lower=0, overwrite_a=1)
        if failed:
            continue
        upper, failed = potri(factor, lower=0, overwrite_c=1)
        if not failed and np.isfinite(upper).all():
            return np.asfortranarray(upper, dtype=matrix.dtype)
    least = scipy.linalg.eigvalsh(matrix.astype(float), lower=False, subset_by_index=(0, 0))
    raise NumericalError(
        f"a Kronecker factor is not positive definite with damping {shift:.2e} (least eigenvalue "
        f"{float(least[0]):.2e}); raise the damping of the preconditioner"
    )
