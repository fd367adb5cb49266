"""Preservation of local densities: a correlation of logarithms of local radii.

Narayan, Berger and Cho (2021), "Assessing single-cell transcriptomic variability through
density-preserving data visualization" (den-SNE, densMAP).  The squared radius of point n in the map
is a mean over its edges, weighted by k = 1/(1 + d), d the squared distance; that in the data the
same with the affinities p for k, and the term is the correlation of their logarithms r and R over
all points, with the shift of its variance that densMAP has,

    rho = cov(R, r) / sqrt(var R (var r + 0.1)).

Since k d = 1 - k, with m edges and K = sum k a radius is r = log(epsilon + (m - K)/K), whose
derivative by the d of an edge is k^2 phi, phi = m/(K (m - (1 - epsilon) K)).  Epsilon and the shift
leave maps alone that have yet to unfold.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

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
        return self._state(self._points(rows)).correlation

    def total_and_slopes(self, rows: Array) -> tuple[float, Array]:
        """The correlation, and a quarter of its gradient.  Collective."""
        points = self._points(rows)
        state = self._state(points)
        pulls = self._exchange.with_ghosts((state.rates * state.phi)[:, None])
        slopes = self._filled(functools.partial(_slopes, points, pulls, *self._graph))
        return state.correlation, slopes

    def product(self, rows: Array, direction: Array) -> Array:
        """A quarter of the Hessian times ``direction``.  Collective."""
        points, moves = self._points(rows), self._points(direction)
        state = self._state(points)
        closer = np.empty(len(self._edges))
        _changes(points, moves, *self._graph, closer)
        change = -state.phi * closer  # of r
        means = np.array([self._wanted @ change, state.standard @ change, change.sum()])
        n = self.layout.rows
        of_data, standard, mean = np.asarray(sum_over_ranks(self.layout.comm, means)) / n
        # The change of rate = (z - rho s)/(N sigma), with s = (r - mean r)/sigma, rho = mean z s.
        turning = -state.standard * (of_data - state.correlation * standard)
        turning -= state.correlation * (change - mean - state.standard * standard)
        turning -= (self._wanted - state.correlation * state.standard) * standard
        turning /= n * state.deviation**2
        of_pulls = turning * state.phi + state.rates * state.phi_slope * closer
        both = np.column_stack([state.rates * state.phi, of_pulls])
        pulls = self._exchange.with_ghosts(both)
        return self._filled(functools.partial(_product, points, moves, pulls, *self._graph))

    def diagonal(self, rows: Array) -> Array:
        """A quarter of the diagonal of the Hessian.  Collective."""
        points = self._points(rows)
        state = self._state(points)
        columns = (state.rates, state.phi, state.phi_slope, self._wanted, state.standard)
        facts = self._exchange.with_ghosts(np.column_stack(columns))
        n = self.layout.rows
        scale = 1.0 / (n * state.deviation)
        arguments = (points, facts, *self._graph, state.correlation, scale, n)
        return self._filled(functools.partial(_diagonal, *arguments))

    def _points(self, rows: Array) -> Array:
        """Rows of the map where the edges' are, and the ghost rows.  Collective."""
        here = rows if self._places is None else self._places.forward(rows)
        return self._exchange.with_ghosts(here)

    def _filled(self, loop: Callable[[Array], None]) -> Array:
        """Rows that a loop writes where the edges' are.  Collective."""
        rows = np.empty((len(self._edges), self.layout.columns))
        loop(rows)
        return rows if self._places is None else self._places.backward(rows)

    def _state(self, points: np.ndarray) -> _State:
        """Quantities that the derivatives are computed from.  Collective."""
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
        slope = -phi * (1.0 / close - (1.0 - EPSILON) / rest)
        return _State(rates, phi, slope, standard, deviation, correlation)

    def _moments(self, radii: np.ndarray, shift: float) -> tuple[np.ndarray, float]:
        """The radii less their mean over all points, and the root of their shifted variance."""
        n, comm = self.layout.rows, self.layout.comm
        centered = radii - float(sum_over_ranks(comm, float(radii.sum()))) / n
        variance = float(sum_over_ranks(comm, float(centered @ centered))) / n
        return centered, math.sqrt(variance + shift)


@dataclass(frozen=True)
class _State:
    """Of this rank's points: derivatives by r, phi and its derivative by K, standardized r."""

    rates: np.ndarray
    phi: np.ndarray
    phi_slope: np.ndarray
    standard: np.ndarray
    deviation: float
    correlation: float


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


@njit
def _along(points, moves, n, m):
    """Half of the change of a squared distance."""
    inner = 0.0
    for i in range(points.shape[1]):
        inner += (points[n, i] - points[m, i]) * (moves[n, i] - moves[m, i])
    return inner


@kernel(writes=("closer",), parallel=True)
def _changes(points, moves, starts, ends, closer):
    """Directional derivatives of K."""
    for n in prange(closer.size):
        total = 0.0
        for e in range(starts[n], starts[n + 1]):
            k = _closeness_of(points, n, ends[e])
            total -= 2.0 * k * k * _along(points, moves, n, ends[e])
        closer[n] = total


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


@kernel(writes=("product",), parallel=True)
def _product(points, moves, pulls, starts, ends, product):
    """``pulls``: rate times phi, and its change."""
    for n in prange(product.shape[0]):
        product[n] = 0.0
        for e in range(starts[n], starts[n + 1]):
            m = ends[e]
            k = _closeness_of(points, n, m)
            both = pulls[n, 0] + pulls[m, 0]
            change = 0.5 * k * k * (pulls[n, 1] + pulls[m, 1])
            change -= 2.0 * k * k * k * _along(points, moves, n, m) * both
            for i in range(points.shape[1]):
                product[n, i] += change * (points[n, i] - points[m, i])
                product[n, i] += 0.5 * k * k * both * (moves[n, i] - moves[m, i])


@kernel(writes=("diagonal",), parallel=True)
def _diagonal(points, facts, starts, ends, correlation, scale, rows, diagonal):
    """Columns of ``facts``: rate, phi, its derivative by K, standardized R and r.

    With g_j the derivative of r_j by a coordinate of point n, second derivatives of the
    correlation by r add those of its quadratic form in g, over n and its neighbors.
    """
    for n in prange(diagonal.shape[0]):
        for i in range(points.shape[1]):
            first, second, weighted = 0.0, 0.0, 0.0
            sums = np.zeros(4)  # of g z, g s, g and g^2
            for e in range(starts[n], starts[n + 1] + 1):
                if e < starts[n + 1]:
                    m = np.int64(ends[e])
                    k = _closeness_of(points, n, m)
                    u = points[n, i] - points[m, i]
                    closer, curved = 2.0 * k * k * u, 2.0 * k * k - 8.0 * k * k * k * u * u
                    first += closer
                    second += curved
                else:  # the point itself, which has all of these edges
                    m, closer, curved = np.int64(n), first, second
                g = facts[m, 1] * closer
                weighted += facts[m, 0] * (facts[m, 1] * curved - facts[m, 2] * closer * closer)
                sums[0] += facts[m, 3] * g
                sums[1] += facts[m, 4] * g
                sums[2] += g
                sums[3] += g * g
            form = 3.0 * correlation * sums[1] ** 2 - 2.0 * sums[0] * sums[1]
            form -= correlation * (rows * sums[3] - sums[2] ** 2)
            diagonal[n, i] = 0.25 * (weighted + form * scale * scale)
