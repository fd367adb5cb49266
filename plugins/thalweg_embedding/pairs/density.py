"""Preservation of local densities: a correlation of logarithms of local radii.

Of den-SNE and densMAP (MATHEMATICS.md, "Densities"): of the logarithms r and R of squared radii in
the map and in the data, rho = cov(R, r) / sqrt(var R (var r + 0.1)).  Since k d = 1 - k, k = 1/(1 +
d), with m edges and K = sum k a radius is r = log(epsilon + (m - K)/K), whose derivative by the d
of an edge is k^2 phi, phi = m/(K (m - (1 - epsilon) K)).  Epsilon and the shift leave maps alone
that have yet to unfold.
"""

import math

import numpy as np
import scipy.sparse
from numba import njit, prange

from thalweg.parallel import Array, Layout, RowExchange, RowPlan, kernel, sum_over_ranks
from thalweg_embedding.relocation import Relocation

#: Added to squared radii in the map, in map units, and relative to the mean in the data.
EPSILON, SMALLEST = 1e-2, 1e-12

#: Added to the variance of the logarithms in the map.
VARIANCE_SHIFT = 0.1


class DensityCorrelation:
    """Correlation of local radii in the data and in the map.

    ``weights`` and ``squared`` are this rank's rows of symmetric affinities, and of the squared
    distances in the data, CSR, where ``places`` tells; the edges are those of the latter.
    """

    def __init__(
        self,
        layout: Layout,
        weights: scipy.sparse.csr_matrix,
        squared: scipy.sparse.csr_matrix,
        places: Relocation | None = None,
    ) -> None:
        self.layout = layout
        self._places = places
        squared = scipy.sparse.csr_matrix(squared)
        edges = scipy.sparse.csr_matrix(
            (np.ones_like(squared.data), squared.indices, squared.indptr), shape=squared.shape
        )
        graph = edges.multiply(weights).tocsr()
        products = graph.multiply(squared)
        sums = np.asarray(graph.sum(axis=1)).ravel()
        means = np.asarray(products.sum(axis=1)).ravel() / np.maximum(sums, 1e-300)
        scale = float(sum_over_ranks(layout.comm, float(means.sum()))) / layout.rows
        radii = np.log(np.maximum(means, SMALLEST * scale) if scale > 0.0 else np.ones(len(means)))
        centered, deviation = self._moments(radii, 0.0)
        #: Standardized R; zeros where the data have one density everywhere.
        self._wanted = centered / deviation if deviation > 1e-9 else np.zeros(len(radii))
        plan = RowPlan.of(layout if places is None else places.layout, squared.indices)
        self._exchange = RowExchange(plan)
        self._graph = (squared.indptr.astype(np.int64), plan.positions(squared.indices))
        self._edges = np.maximum(np.diff(squared.indptr), 1).astype(float)

    def total(self, rows: Array) -> float:
        """The correlation.  Collective."""
        return self._correlation(self._points(rows))[0]

    def total_and_slopes(self, rows: Array) -> tuple[float, Array]:
        """The correlation, and a quarter of its gradient.  Collective."""
        points = self._points(rows)
        correlation, pulls = self._correlation(points)
        pulls = self._exchange.with_ghosts(pulls[:, None])
        slopes = np.empty((len(self._edges), self.layout.columns))
        _slopes(points, pulls, *self._graph, slopes)
        return correlation, slopes if self._places is None else self._places.backward(slopes)

    def _points(self, rows: Array) -> Array:
        """Rows of the map where the edges' are, and the ghost rows.  Collective."""
        here = rows if self._places is None else self._places.forward(rows)
        return self._exchange.with_ghosts(here)

    def _correlation(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The correlation, and of each point its derivative by r times phi.  Collective."""
        close = np.empty(len(self._edges))
        _closeness(points, *self._graph, close)
        alone = close == 0.0
        close[alone] = self._edges[alone]
        rest = self._edges - (1.0 - EPSILON) * close
        radii = np.log(rest / close)
        centered, deviation = self._moments(radii, VARIANCE_SHIFT)
        standard = centered / deviation
        n = self.layout.rows
        correlation = float(sum_over_ranks(self.layout.comm, float(self._wanted @ standard))) / n
        rates = (self._wanted - correlation * standard) / (n * deviation)
        phi = self._edges / (close * rest)
        return correlation, rates * phi

    def _moments(self, radii: np.ndarray, shift: float) -> tuple[np.ndarray, float]:
        """The radii less their mean over all points, and the root of their shifted variance."""
        n, comm = self.layout.rows, self.layout.comm
        centered = radii - float(sum_over_ranks(comm, float(radii.sum()))) / n
        variance = float(sum_over_ranks(comm, float(centered @ centered))) / n
        return centered, math.sqrt(variance + shift)


@njit
def _closeness_of(points, n, m):
    d = 0.0
    for i in range(points.shape[1]):
        d += (points[n, i] - points[m, i]) ** 2
    return 1.0 / (1.0 + d)


@kernel(writes=("close",), parallel=True)
def _closeness(points, starts, ends, close):
    for n in prange(close.size):
        total = 0.0
        for e in range(starts[n], starts[n + 1]):
            total += _closeness_of(points, n, ends[e])
        close[n] = total


@kernel(writes=("slopes",), parallel=True)
def _slopes(points, pulls, starts, ends, slopes):
    """``pulls``: rate times phi."""
    for n in prange(slopes.shape[0]):
        slopes[n] = 0.0
        for e in range(starts[n], starts[n + 1]):
            m = ends[e]
            k = _closeness_of(points, n, m)
            pull = 0.5 * k * k * (pulls[n, 0] + pulls[m, 0])
            for i in range(points.shape[1]):
                slopes[n, i] += pull * (points[n, i] - points[m, i])
