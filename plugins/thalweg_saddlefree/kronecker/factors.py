"""The Kronecker factors of one layer: sums over rows, moving averages, damped inverses.

With the matrix W of a layer (inputs x outputs, the bias as its last row), inputs a
and sampled derivatives g by the pre-activations, its block of the Fisher matrix is
approximated by the Kronecker product of ``A = E[a a']`` and ``G = E[g g']``
(Martens and Grosse 2015, equation 1).  A layer whose weights serve at several places
of a row (positions of a convolution, steps of a recurrence) has ``A = E[sum_t a_t a_t']``
and ``G = E[mean_t g_t g_t']`` (Grosse and Martens 2016, equation 30).  Everything here is
local to a rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from thalweg.errors import NumericalError
from thalweg_saddlefree.capabilities import LayerBlock, LayerSample

#: Eigenvectors of the two factors, as columns.
Basis: TypeAlias = tuple[np.ndarray, np.ndarray]

#: Largest number of entries of the sums over places of single rows, which are squared.
ENTRIES = 4_000_000


@dataclass
class Moments:
    """Sums over rows: what the ranks add up."""

    inputs: np.ndarray  # sum of ``a a'``, upper triangle, column-major
    #: Sum of ``g g'`` over rows, mean over places; upper triangle, column-major.
    derivatives: np.ndarray
    #: Sum of the squared gradients of single rows in the eigenvectors' coordinates, shape
    #: ``(inputs, outputs)``; None without eigenvalue correction.
    squares: np.ndarray | None = None

    @classmethod
    def zero(cls, block: LayerBlock, dtype: np.dtype, squares: bool) -> Moments:
        """Sums over no rows."""
        return cls(
            np.zeros((block.inputs, block.inputs), dtype, order="F"),
            np.zeros((block.outputs, block.outputs), dtype, order="F"),
            np.zeros((block.inputs, block.outputs), dtype) if squares else None,
        )

    def arrays(self) -> list[np.ndarray]:
        """The sums that there are."""
        return [a for a in (self.inputs, self.derivatives, self.squares) if a is not None]

    def add(self, sample: LayerSample, block: LayerBlock, basis: Basis | None) -> None:
        """Add the rows of a sample."""
        rows, places, _ = sample.inputs.shape
        a = sample.inputs.reshape(rows * places, -1)
        g = sample.derivatives.reshape(rows * places, -1)
        if block.bias:
            a = np.concatenate([a, np.ones((len(a), 1), a.dtype)], axis=1)
        a, g = np.ascontiguousarray(a), np.ascontiguousarray(g)
        _add_squares(a, 1.0, self.inputs)
        _add_squares(g, 1.0 / places, self.derivatives)
        if self.squares is None or basis is None:
            return
        a, g = a @ basis[0], g @ basis[1]
        if places == 1:
            self.squares += np.square(a).T @ np.square(g)
            return
        a, g = a.reshape(rows, places, -1), g.reshape(rows, places, -1)
        step = max(1, ENTRIES // (a.shape[2] * g.shape[2]))
        for first in range(0, rows, step):
            part = slice(first, first + step)
            self.squares += np.square(np.einsum("npi,npo->nio", a[part], g[part])).sum(axis=0)


def _add_squares(rows: np.ndarray, factor: float, total: np.ndarray) -> None:
    """Add ``factor * rows' rows`` to the upper triangle of ``total``."""
    syrk = blas.dsyrk if total.dtype == np.float64 else blas.ssyrk
    if len(rows):
        syrk(factor, rows.T, beta=1.0, c=total, overwrite_c=1)


@dataclass(frozen=True)
class LayerFactors:
    """Moving averages of a layer's factors, and what applies their damped inverse."""

    #: A and G, of which the upper triangles count; column-major.
    inputs: np.ndarray
    derivatives: np.ndarray
    #: With eigenvalue correction the mean squared gradients in the eigenvectors' coordinates
    #: (George et al. 2018, equation 9); None otherwise.
    scale: np.ndarray | None = None
    #: Factors that multiply a gradient: the inverses of the damped A and G, of which the upper
    #: triangles count, or with eigenvalue correction their eigenvectors.
    left: np.ndarray | None = None
    right: np.ndarray | None = None
    damping: float = 0.0  # that of the inverses

    @classmethod
    def zero(cls, block: LayerBlock, dtype: np.dtype, corrected: bool) -> LayerFactors:
        """Factors before the first average, of the shapes of later ones."""
        sizes = (block.inputs, block.outputs)
        a, g, left, right = (np.zeros((size, size), dtype, order="F") for size in 2 * sizes)
        return cls(a, g, np.zeros(sizes, dtype) if corrected else None, left, right)

    def averaged(self, mean: Moments, keep: float) -> LayerFactors:
        """Averages moved towards new means over rows, with the part ``keep`` of the old ones."""
        scale = self.scale
        if scale is not None and mean.squares is not None:
            scale = keep * scale + (1 - keep) * mean.squares
        return replace(
            self,
            inputs=keep * self.inputs + (1 - keep) * mean.inputs,
            derivatives=keep * self.derivatives + (1 - keep) * mean.derivatives,
            scale=scale,
        )

    def refreshed(self, damping: float, corrected: bool) -> LayerFactors:
        """The factors inverted, or decomposed, at a damping."""
        if not (np.isfinite(self.inputs).all() and np.isfinite(self.derivatives).all()):
            raise NumericalError(
                "a Kronecker factor is not finite: the network's activations or derivatives "
                "overflow; start from smaller weights or scale the data"
            )
        if corrected:
            values, left = scipy.linalg.eigh(self.inputs, lower=False)
            others, right = scipy.linalg.eigh(self.derivatives, lower=False)
            # In the new coordinates the best guess before any sample is K-FAC's own.
            scale = np.outer(np.maximum(values, 0), np.maximum(others, 0))
            return replace(self, damping=damping, scale=scale, left=left, right=right)
        # Martens and Grosse (2015), section 6.3: pi makes the damping of the product smallest.
        a = float(np.trace(self.inputs)) / len(self.inputs)
        g = float(np.trace(self.derivatives)) / len(self.derivatives)
        pi = np.sqrt(a / g) if a > 0 and g > 0 else 1.0
        gamma = np.sqrt(damping)
        left, right = _inverse(self.inputs, pi * gamma), _inverse(self.derivatives, gamma / pi)
        return replace(self, damping=damping, left=left, right=right)

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """Damped inverse times a gradient of the layer's shape."""
        assert self.left is not None
        assert self.right is not None
        if self.scale is None:
            symm = blas.dsymm if gradient.dtype == np.float64 else blas.ssymm
            # BLAS is column-major: it sees the transpose of the gradient.
            turned = symm(1.0, self.right, gradient.T, side=0, lower=0)
            return np.asarray(symm(1.0, self.left, turned, side=1, lower=0, overwrite_c=1).T)
        inner = self.left.T @ gradient @ self.right
        inner /= self.scale + self.damping
        return np.asarray(self.left @ inner @ self.right.T)


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
