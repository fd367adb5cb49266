"""Parts of space for the ranks: cells found by k-means on a sample, shared out evenly."""

import math
from dataclasses import dataclass

import numpy as np

from thalweg.errors import InputError
from thalweg.numerics import lloyd
from thalweg.parallel import MPI, Layout, max_over_ranks, raise_on_all_ranks, sum_large

#: Cells for each rank, and rows of the sample for each cell.
CELLS, SAMPLED = 16, 32

#: Values between the inverse of this and this have squares in single precision.
MODERATE = 1e12


@dataclass(frozen=True)
class CoarseCells:
    """Cells of rows of numbers, and the ranks that they belong to."""

    comm: MPI.Comm
    #: Values are multiplied by two to this before they are compared: 0, unless their squares
    #: leave single precision.
    shift: int
    #: Centers of the cells, float32, shape (cells, columns), the same on all ranks.
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
        if comm.size == 1:
            center = np.zeros((1, values.shape[1]), dtype=np.float32)
            return cls(comm, shift, center, np.zeros(1, dtype=np.int64))
        values = np.ldexp(values, shift) if shift else values
        # K-means on a sample of the rows: a rank keeps those of the sample that it has.
        count = min(CELLS * comm.size, layout.rows)
        chosen = np.linspace(0, layout.rows - 1, min(SAMPLED * count, layout.rows)).astype(np.int64)
        first = np.sort(np.random.default_rng(seed).choice(chosen, count, replace=False))
        starts = layout.gather_some(values, first).astype(np.float32)
        sample = values[layout.own(chosen)].astype(np.float32)
        centers = lloyd(comm, sample, starts, 10, lambda rows, at: _nearest(rows, at, 1)[:, 0])[1]
        cell = _nearest(values, centers, 1)[:, 0]
        counts = sum_large(comm, np.bincount(cell, minlength=len(centers)).astype(float))
        return cls(comm, shift, centers, _ranks_of_cells(centers, counts, comm.size))

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Values whose squares keep to single precision.  Not collective."""
        return np.ldexp(values, self.shift) if self.shift else values

    def ranks_near(self, values: np.ndarray, most: int = 1) -> np.ndarray:
        """Ranks of the cells nearest to each row, the nearest first.  Not collective.

        Shape ``(rows, most)``, or fewer columns where there are fewer cells.
        """
        if self.comm.size == 1:
            return np.zeros((len(values), 1), dtype=np.int64)
        return np.asarray(self.ranks[_nearest(self.scaled(values), self.centers, most)])


def _nearest(values: np.ndarray, centers: np.ndarray, most: int) -> np.ndarray:
    """Numbers of the nearest centers of each row, the nearest first."""
    most = min(most, len(centers))
    numbers = np.empty((len(values), most), dtype=np.int64)
    middle = centers.mean(axis=0)
    centers = centers - middle
    halves = 0.5 * np.einsum("ij,ij->i", centers, centers)
    for first in range(0, len(values), 4096):
        block = np.asarray(values[first : first + 4096], dtype=np.float32) - middle
        distances = halves - block @ centers.T
        nearest = np.argpartition(distances, most - 1, axis=1)[:, :most]
        order = np.argsort(np.take_along_axis(distances, nearest, 1), axis=1, kind="stable")
        numbers[first : first + 4096] = np.take_along_axis(nearest, order, 1)
    return numbers


def _ranks_of_cells(centers: np.ndarray, counts: np.ndarray, ranks: int) -> np.ndarray:
    """Rank of each cell: halves of about as many rows, and halves of those, along the widest axis.

    Recursive bisection keeps a rank's cells together.
    """
    ranks_of_cells = np.zeros(len(centers), dtype=np.int64)
    parts = [(np.arange(len(centers)), 0, ranks)]
    while parts:
        cells, first, number = parts.pop()
        if number == 1:
            ranks_of_cells[cells] = first
            continue
        left = number // 2
        axis = int(np.argmax(centers[cells].var(axis=0)))
        cells = cells[np.argsort(centers[cells, axis], kind="stable")]
        load = np.cumsum(counts[cells])
        cut = int(np.searchsorted(load - 0.5 * counts[cells], load[-1] * left / number))
        cut = min(max(cut, left), len(cells) - (number - left))  # each rank gets a cell
        parts.append((cells[:cut], first, left))
        parts.append((cells[cut:], first + left, number - left))
    return ranks_of_cells
