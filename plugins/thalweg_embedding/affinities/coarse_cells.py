"""Cells of space, found by k-means on a sample: for the search for neighbors, and for the ranks."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thalweg.engines.neighbors import spatial_order
from thalweg.errors import InputError
from thalweg.numerics import lloyd
from thalweg.parallel import Layout, max_over_ranks, raise_on_all_ranks, run_on_threads, sum_large

#: Cells for each root of the number of rows and at least for each rank, rows of the sample for each
#: cell, and iterations of k-means.
CELLS, CELLS_OF_RANK, SAMPLED, ITERATIONS = 3.0, 16, 32, 2

#: Rows that a thread assigns to cells at a time.
ASSIGNED = 1024

#: Values between the inverse of this and this have squares in single precision.
MODERATE = 1e12


@dataclass(frozen=True)
class CoarseCells:
    """Cells of rows of numbers, and the ranks that they belong to."""

    #: Values are multiplied by two to this before they are compared: 0, unless their squares
    #: leave single precision.
    shift: int
    #: Centers of the cells, float32, shape (cells, columns), the same on all ranks, in an order in
    #: which those that lie together in space follow each other.
    centers: np.ndarray
    ranks: np.ndarray  # rank of each cell, int64, shape (cells,)

    @classmethod
    def of(cls, layout: Layout, values: np.ndarray, seed: int = 0) -> "CoarseCells":
        """Cells of which each rank gets about as many of the rows.  Collective.

        ``values`` are this rank's, shape ``(local_rows, columns)``, and ``seed`` that of the first
        centers.
        """
        comm = layout.comm
        with raise_on_all_ranks(comm):
            if not np.isfinite(values).all():
                raise InputError("the data hold NaN or infinite values; remove or replace those")
        largest = max_over_ranks(comm, float(np.abs(values).max(initial=0.0)))
        moderate = largest == 0.0 or 1.0 / MODERATE < largest < MODERATE
        shift = 0 if moderate else -math.frexp(largest)[1]
        values = np.ldexp(values, shift) if shift else values
        # K-means on a sample of the rows: a rank keeps those of the sample that it has.
        count = max(CELLS_OF_RANK * comm.size, int(CELLS * math.sqrt(layout.rows)))
        count = min(count, layout.rows)
        chosen = layout.spread(SAMPLED * count)
        first = np.sort(np.random.default_rng(seed).choice(chosen, count, replace=False))
        starts = layout.gather_some(values, first).astype(np.float32)
        sample = values[layout.own(chosen)].astype(np.float32)

        def nearest(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
            return cls(0, centers.astype(np.float32), first).nearest(rows)

        labels, centers, _ = lloyd(comm, sample, starts, ITERATIONS, nearest)
        order = spatial_order(centers, 1)
        counts = sum_large(comm, np.bincount(labels, minlength=count).astype(float))[order]
        before = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
        ranks = np.minimum(before * comm.size, comm.size - 1).astype(np.int64)
        return cls(shift, centers[order].astype(np.float32), ranks)

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Values whose squares keep to single precision.  Not collective."""
        return np.ldexp(values, self.shift) if self.shift else values

    def distances(self, values: np.ndarray) -> np.ndarray:
        """Halves of the squared distances of scaled rows to the centers, less a row's constant.

        Float32, shape (rows, cells).  Not collective.
        """
        middle, centers, halves = self._centered
        return np.asarray(halves - np.asarray(values - middle, dtype=np.float32) @ centers.T)

    @cached_property
    def _centered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        middle = self.centers.mean(axis=0)
        centers = self.centers - middle
        return middle, centers, 0.5 * np.einsum("ij,ij->i", centers, centers)

    def nearest(self, values: np.ndarray) -> np.ndarray:
        """Number of the cell of each scaled row, int64, shape (rows,).  Not collective."""
        numbers = np.empty(len(values), dtype=np.int64)

        def assign(first: int) -> None:
            part = slice(first, first + ASSIGNED)
            numbers[part] = self.distances(values[part]).argmin(axis=1)

        run_on_threads(assign, list(range(0, len(values), ASSIGNED)))
        return numbers
