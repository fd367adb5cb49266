"""Mean and principal directions of distributed points, the same bits at any rank count."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import threadpoolctl

from thalweg.parallel.layout import Layout
from thalweg.parallel.reductions import max_over_ranks, sum_large

#: Dimension above which the leading directions come from a sample of the points.
LARGE_DIMENSION = 2048


class PrincipalFrame:
    """Where points lie and how far they spread.  Collective.

    Sums over points are made of integers: the points, rounded to a grid fine
    enough for directions, coarse enough that every sum is exact.

    Parameters
    ----------
    points
        This rank's points, shape ``(n_local, dimension)``.
    layout
        How the points lie on the ranks.
    sampled
        Some of the points, equal on all ranks.

    Attributes
    ----------
    mean
        About the mean point, shape ``(dimension,)``.
    directions
        Leading principal directions as rows, orthonormal.
    variances
        Along the directions, largest first, times the number of points.
    centered_sizes
        Squared norms of this rank's points about the mean.
    sampled
        As given.
    """

    def __init__(self, points: np.ndarray, layout: Layout, sampled: np.ndarray) -> None:
        comm, dimension = layout.comm, points.shape[1]
        self.sampled = sampled
        n, small = max(1, layout.rows), dimension <= LARGE_DIMENSION
        center = sampled.mean(axis=0) if len(sampled) else np.zeros(dimension)
        blocks = row_blocks(len(points))
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
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
            if small:
                sum_large(comm, scatter)
                scatter -= np.outer(total, total / n)
                values, vectors = scipy.linalg.eigh(scatter)
                self.variances = np.maximum(values[::-1], 0.0) * grid**2
                self.directions = np.ascontiguousarray(vectors[:, ::-1].T)
            else:
                _, values, vectors = scipy.linalg.svd(sampled - self.mean, full_matrices=False)
                self.variances = values**2 * (n / max(1, len(sampled)))
                self.directions = np.ascontiguousarray(vectors)
        _fix_signs(self.directions)
        self.directions = comm.bcast(self.directions)
        self.variances = comm.bcast(self.variances)


def row_blocks(rows: int, size: int = 4096) -> list[slice]:
    """Slices of bounded length that cover the rows."""
    return [slice(k, min(rows, k + size)) for k in range(0, rows, size)]


def _fix_signs(directions: np.ndarray) -> None:
    """Make each direction's largest entry positive, so that every rank has the same."""
    if len(directions):
        at = np.abs(directions).argmax(axis=1)
        directions *= np.where(directions[np.arange(len(directions)), at] < 0, -1.0, 1.0)[:, None]
