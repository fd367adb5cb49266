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

from thalweg.parallel import Array, Layout, RowExchange, RowPlan, sum_over_ranks
from thalweg_embedding.pairs import neighbor_loops
from thalweg_embedding.pairs.functions import STUDENT
from thalweg_embedding.pairs.specialize import specialize
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
        graph = squared.astype(bool).multiply(weights).tocsr()
        sums = np.asarray(graph.sum(axis=1)).ravel()
        means = np.asarray(graph.multiply(squared).sum(axis=1)).ravel() / np.maximum(sums, 1e-300)
        scale = float(sum_over_ranks(layout.comm, float(means.sum()))) / layout.rows
        radii = np.log(np.maximum(means, SMALLEST * scale) if scale > 0.0 else np.ones(len(means)))
        centered, deviation = self._moments(radii, 0.0)
        #: Standardized R; zeros where the data have one density everywhere.
        self._wanted = centered / deviation if deviation > 1e-9 else np.zeros(len(radii))
        plan = RowPlan.of(layout if places is None else places.layout, squared.indices)
        self._exchange = RowExchange(plan)
        ends = plan.positions(squared.indices).astype(np.uint32)  # of one type in all loops
        self._graph = squared.indptr.astype(np.int64), ends
        self._edges = np.maximum(np.diff(squared.indptr), 1).astype(float)

    def total(self, rows: Array) -> float:
        """The correlation.  Collective."""
        return self._correlation(self._points(rows))[0]

    def total_and_slopes(self, rows: Array) -> tuple[float, Array]:
        """The correlation, and a quarter of its gradient.  Collective."""
        points = self._points(rows)
        correlation, pulls = self._correlation(points)
        pulls = self._exchange.with_ghosts(pulls[:, None])[:, 0]
        starts, ends = self._graph
        pulls = np.repeat(pulls[: len(self._edges)], np.diff(starts)) + pulls[ends]
        _, slopes = self._sums(points, -0.5 * pulls, True)  # k' = -k^2
        return correlation, slopes if self._places is None else self._places.backward(slopes)

    def _points(self, rows: Array) -> Array:
        """Rows of the map where the edges' are, and the ghost rows.  Collective."""
        here = rows if self._places is None else self._places.forward(rows)
        return self._exchange.with_ghosts(here)

    def _sums(self, points: Array, weights: Array, slopes: bool) -> tuple[Array, Array]:
        """Weighted sums of k over the edges of this rank's rows, and slopes if wanted."""
        rows = points[: len(self._edges)]
        totals, gradient_rows = np.zeros(len(rows)), np.empty_like(rows[: slopes * len(rows)])
        run = specialize(neighbor_loops.first_order, STUDENT)
        run(rows, points.T.copy(), *self._graph, weights, 0.0, totals, gradient_rows)
        return totals, gradient_rows

    def _correlation(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The correlation, and of each point its derivative by r times phi.  Collective."""
        close, _ = self._sums(points, np.ones(len(self._graph[1])), False)
        alone = close == 0.0
        close[alone] = self._edges[alone]
        rest = self._edges - (1.0 - EPSILON) * close
        centered, deviation = self._moments(np.log(rest / close), VARIANCE_SHIFT)
        standard = centered / deviation
        n = self.layout.rows
        correlation = float(sum_over_ranks(self.layout.comm, float(self._wanted @ standard))) / n
        rates = (self._wanted - correlation * standard) / (n * deviation)
        return correlation, rates * (self._edges / (close * rest))

    def _moments(self, radii: np.ndarray, shift: float) -> tuple[np.ndarray, float]:
        """The radii less their mean over all points, and the root of their shifted variance."""
        n, comm = self.layout.rows, self.layout.comm
        centered = radii - float(sum_over_ranks(comm, float(radii.sum()))) / n
        variance = float(sum_over_ranks(comm, float(centered @ centered))) / n
        return centered, math.sqrt(variance + shift)
