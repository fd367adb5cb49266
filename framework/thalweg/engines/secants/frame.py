"""Mean and principal directions of points by exact sums: the same bits at any number of ranks."""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from thalweg.numerics.principal import fix_signs, leading_eigenvectors
from thalweg.parallel import Layout, max_over_ranks, one_blas_thread, sum_large

#: Dimension above which the leading directions come from a sample of the points; chosen by hand.
LARGE_DIMENSION = 2048


class PrincipalFrame:
    """Mean, principal directions and variances of distributed points.  Collective.

    Sums over points are made of integers: the points, rounded to a grid fine enough for
    directions, coarse enough that every sum is exact.  ``points`` are this rank's, an array or
    sparse rows whose slices are arrays; ``sampled`` are some of the points, equal on all ranks.

    ``mean`` is about the mean point; ``directions`` are the leading principal ones as rows,
    orthonormal, and ``variances`` along them, largest first, those times the number of points;
    ``centered_sizes`` are the squared norms of this rank's points about the mean.
    """

    def __init__(self, points: Any, layout: Layout, sampled: np.ndarray) -> None:
        comm, dimension = layout.comm, points.shape[1]
        self.sampled = sampled
        n, small = max(1, layout.rows), dimension <= LARGE_DIMENSION
        center = sampled.mean(axis=0) if len(sampled) else np.zeros(dimension)
        blocks = row_blocks(*points.shape)
        farthest = max((float(np.abs(points[b] - center).max()) for b in blocks), default=0.0)
        farthest = max_over_ranks(comm, farthest)
        bits = min(24, int((52 - np.log2(n)) // 2))
        grid = farthest / 2.0**bits if farthest > 0 else 1.0
        total = np.zeros(dimension)
        scatter = np.zeros((dimension, dimension) if small else (0, 0))
        for block in blocks:
            rows = np.rint((points[block] - center) / grid)
            total += rows.sum(axis=0)
            if small:
                scatter += rows.T @ rows
        sum_large(comm, total)
        self.mean = center + grid * (total / n)
        self.centered_sizes = np.empty(len(points))
        for block in blocks:
            centered = points[block] - self.mean
            self.centered_sizes[block] = np.einsum("ij,ij->i", centered, centered)
        # One thread: with more, LAPACK may round differently.
        with one_blas_thread():
            if small:
                sum_large(comm, scatter)
                scatter -= np.outer(total, total / n)
                values, vectors = leading_eigenvectors(scatter)
                self.variances = np.maximum(values, 0.0) * grid**2
                self.directions = np.ascontiguousarray(vectors.T)
            else:
                _, values, vectors = scipy.linalg.svd(sampled - self.mean, full_matrices=False)
                self.variances = values**2 * (n / max(1, len(sampled)))
                self.directions = np.ascontiguousarray(vectors)
        fix_signs(self.directions)
        self.directions = comm.bcast(self.directions)
        self.variances = comm.bcast(self.variances)


def row_blocks(rows: int, columns: int) -> list[slice]:
    """Slices that cover the rows, each of a few million numbers."""
    size = min(4096, max(64, 2**23 // max(1, columns)))
    return [slice(k, min(rows, k + size)) for k in range(0, rows, size)]
