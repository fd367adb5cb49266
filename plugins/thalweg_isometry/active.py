"""The secants that a solver works with, as pairs of points.

For a map Psi with images ``y_i = Psi x_i`` the squared length of secant k = (i, j)
becomes ``rho_k = ||y_i - y_j||^2 / ||x_i - x_j||^2``.  Working with points instead
of secants makes products cheap: a sum ``sum_k c_k v_k v_k^T`` is ``X^T L X`` with L
the Laplacian of the graph whose edges are the secants, so that a gradient costs two
products with the touched points, however many secants there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from thalweg.parallel import Layout, sum_large
from thalweg.parallel.pairs import SecantSet, SparseRows
from thalweg_isometry import active_kernels as kernels

#: Share of the secants with a weight, and of the points at these, up to which only they are
#: visited.
FEW = 0.4

#: Numbers above which the points are kept in single precision.
LARGE = 500_000


class ActiveSecants:
    """Secants given by pairs of global point numbers, equal on all ranks.

    Every rank keeps the touched points that it owns; the images of all touched
    points are gathered, a small array.  All methods are collective.

    Parameters
    ----------
    secants
        The set that the pairs belong to.
    pairs
        Shape ``(m, 2)``.
    lengths
        Squared lengths ``||x_i - x_j||^2 > 0``, shape ``(m,)``.
    """

    def __init__(self, secants: SecantSet, pairs: np.ndarray, lengths: np.ndarray) -> None:
        self.comm = secants.comm
        self.count = len(pairs)
        self.lengths = np.asarray(lengths, dtype=float)
        self.weights = secants.weights_of(pairs) if secants.weighted else None
        used = np.zeros(secants.n_points, dtype=bool)
        used[pairs] = True
        touched = np.flatnonzero(used)
        place = np.cumsum(used) - 1
        self.first = place[pairs[:, 0]]
        self.second = place[pairs[:, 1]]
        layout = secants.layout
        low, high = np.searchsorted(touched, [layout.start, layout.stop])
        self._start = int(low)
        self.touched = len(touched)
        self.layout = Layout(self.comm, len(touched), 1, local_rows=int(high - low))
        mine = touched[low:high] - layout.start
        #: This rank's touched points: centered, or sparse as they are.
        self.points: Any
        if isinstance(secants.points, SparseRows):
            self.points = secants.points.matrix(mine)
        else:
            points = secants.points[mine] - secants.mean
            scale = float(np.mean(self.lengths)) if len(self.lengths) else 1.0
            # Single precision would spoil secants that are much shorter than the others.
            single = len(touched) * secants.dimension > LARGE and bool(
                self.lengths.min(initial=np.inf) > 1e-4 * scale
            )
            self.points = np.ascontiguousarray(points, dtype=np.float32 if single else np.float64)
        self._offsets, self._others, self._numbers = kernels.incidence(
            self.first, self.second, int(low), int(high)
        )

    def images(self, psi: np.ndarray) -> np.ndarray:
        """Images of all touched points, on every rank, shape ``(touched, rank)``."""
        mine = self.points @ np.ascontiguousarray(psi.T, dtype=self.points.dtype)
        return self.layout.gather_rows(mine)

    def gains(self, images: np.ndarray) -> np.ndarray:
        """``A(Psi^T Psi)``: rho of every secant, shape ``(m,)``, times its weight w."""
        gains = kernels.image_lengths(images, self.first, self.second) / self.lengths
        return gains if self.weights is None else gains * self.weights

    def ratios(self, images: np.ndarray) -> np.ndarray:
        """Rho of every secant, shape ``(m,)``; with a weight w, ``1 + w (rho - 1)``."""
        gains = self.gains(images)
        return gains if self.weights is None else gains + (1.0 - self.weights)

    def adjoint_times(self, weights: np.ndarray, images: np.ndarray) -> np.ndarray:
        """``Psi A*(w) = sum_k w_k (Psi v_k) v_k^T``, shape ``(rank, dimension)``, float64.

        The secants' own weights are factors of w.
        """
        if self.weights is not None:
            weights = weights * self.weights
        scaled = (weights / self.lengths).astype(images.dtype)
        weighted = np.flatnonzero(scaled)
        points = self.points
        if len(weighted) < FEW * self.count:
            rows, product = kernels.laplacian_times_few(
                images, self._start, points.shape[0], self.first, self.second, weighted, scaled
            )
            if len(rows) < FEW * points.shape[0]:
                points, product = points[rows], product[rows]
        else:
            product = kernels.laplacian_times(
                images, self._start, self._offsets, self._others, self._numbers, scaled
            )
        if scipy.sparse.issparse(points):  # not centered: the rows of the product sum to zero
            return sum_large(self.comm, np.ascontiguousarray((points.T @ product).T))
        return sum_large(self.comm, (product.T @ points).astype(np.float64))
