"""Approximate nearest neighbors of distributed rows: each row among those of the cells nearest it.

An inverted file (Jegou, Douze and Schmid 2011): the rows of a cell lie side by side, and meet those
that are near it in one product of matrices.  How many cells a row looks into follows from the exact
neighbors of a sample.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thalweg.engines.neighbors import nearest_neighbors
from thalweg.numerics import squared_distance
from thalweg.parallel import Layout, Ring, agreed, kernel, rows_at, run_on_threads, sum_large
from thalweg_embedding.affinities.coarse_cells import ASSIGNED, CoarseCells

#: What recall is enough, and rows on which it is measured.
ENOUGH, JUDGED = 0.95, 400

#: Rows that a thread searches for at a time, and rows of a cell that it searches among.
BATCH, TILE = 8192, 512

#: What a row costs, and each pair, which is looked at for one of its rows, in units of a pair of
#: the exact search, where it is looked at for both: measured on one machine.
ROW_COST, PAIR_COST = 10_000, 3.0

#: What products in single precision may be wrong by, as a share of the squared lengths; and bits of
#: a threshold that no pair passes.
ROUNDING, NONE = 1e-5, np.int32(-(2**31))


class ApproximateNeighbors(NamedTuple):
    """Most of the nearest neighbors of each row of this rank: of shape (local_rows, k)."""

    indices: np.ndarray  # global row numbers, int64, the nearest first
    squared: np.ndarray  # squared distances, float64
    recall: float  # share of the true neighbors found, on a sample
    exact_because: str = ""  # why the search was exact after all; empty where it was not


def approximate_neighbors(
    layout: Layout, values: np.ndarray, k: int, seed: int = 0, cells: CoarseCells | None = None
) -> ApproximateNeighbors:
    """Most of the k nearest neighbors of each of this rank's rows, by Euclidean distance.

    Collective.  The result is the same for a given seed and number of ranks.  ``cells``: those of
    these rows, where they are known; the search is quickest where rows lie on the ranks of their
    cells.  Distances are exact.  Where that is quicker the search is exact, and the result says so.
    """
    reason = f"{layout.rows:,} rows are few"
    if 0.5 * layout.rows > max(ROW_COST, 2 * k):
        search = _NeighborSearch(layout, cells or CoarseCells.of(layout, values, seed), values, k)
        sample = np.random.default_rng(seed).choice(layout.rows, JUDGED, replace=False)
        rows = layout.own(np.sort(sample))
        true, limits = nearest_neighbors(layout, values, k, rows)
        probes, candidates = search.wanted_probes(rows, true)
        if ROW_COST + PAIR_COST * candidates < 0.5 * layout.rows:
            indices, squared = search.nearest(probes)
            squared = np.ldexp(squared, -2 * search.cells.shift)
            hits = float((squared[rows] <= limits[:, -1:] * (1.0 + 1e-12)).sum())
            recall = layout.comm.allreduce(hits) / (JUDGED * k)
            if recall > ENOUGH - 0.01:
                return ApproximateNeighbors(indices, squared, recall)
            reason = f"products in single precision tell only {recall:.0%} of its neighbors apart"
        else:
            reason = f"for {ENOUGH:.0%} of its neighbors a row would meet {candidates:,.0f} others"
    return ApproximateNeighbors(*nearest_neighbors(layout, values, k), 1.0, reason)


class _NeighborSearch:
    """This rank's rows and their cells, and the search among those of all ranks."""

    def __init__(self, layout: Layout, cells: CoarseCells, values: np.ndarray, k: int) -> None:
        self.layout, self.cells, self.k = layout, cells, k
        self.values = np.ascontiguousarray(cells.scaled(values))
        self.cell = cells.nearest(self.values)
        order = np.argsort(self.cell, kind="stable")
        self.block = self.values[order], layout.start + order, self.cell[order]
        counts = np.bincount(self.cell, minlength=len(cells.centers)).astype(float)
        self.counts = sum_large(layout.comm, counts)

    def wanted_probes(self, rows: np.ndarray, true: np.ndarray) -> tuple[int, float]:
        """How many cells a row is to look into, and the mean number of rows in these.  Collective.

        On a sample, ``rows`` of this rank with their ``true`` neighbors, the recall is enough even
        two standard errors lower.
        """
        comm, counts = self.layout.comm, self.counts
        order = np.argsort(self.cells.distances(self.values[rows]), axis=1, kind="stable")
        theirs = rows_at(self.layout, self.cell, true.ravel()).reshape(true.shape)
        places = np.take_along_axis(np.argsort(order, axis=1), theirs, axis=1)
        every = comm.allgather((places, np.cumsum(counts[order], axis=1)))
        places, candidates = (np.concatenate(parts) for parts in zip(*every, strict=True))
        shares = np.zeros(candidates.shape)
        np.add.at(shares, (np.arange(len(places))[:, None], places), 1.0 / self.k)
        shares = np.cumsum(shares, axis=1)
        sure = shares.mean(axis=0) - 2.0 * shares.std(axis=0) / math.sqrt(len(shares))
        probes = int(np.argmax(sure >= ENOUGH))
        return agreed(comm, (probes + 1, float(candidates[:, probes].mean())))

    def nearest(self, probes: int) -> tuple[np.ndarray, np.ndarray]:
        """Neighbors of this rank's rows, in the ``probes`` cells nearest to each.  Collective."""
        count, order = self.layout.local_rows, self.block[1] - self.layout.start
        indices = np.zeros((count, self.k), dtype=np.int64)
        squared = np.full(indices.shape, np.inf)
        size = min(BATCH, max(64, count // 32))
        parts = [order[first : first + size] for first in range(0, count, size)]
        reached: list[Any] = [None] * len(parts)
        for block in Ring(self.layout).blocks(*self.block):
            others = _Others(self.cells.centers, *block.arrays)

            def search(number: int, others: _Others = others) -> None:
                part = parts[number]
                cells = reached[number] or self._cells_reached(self.values[part], probes)
                if self.layout.comm.size > 1:
                    cells = reached[number] = list(cells)
                self._search(part, cells, others, indices, squared)

            run_on_threads(search, list(range(len(parts))), block.poll)
        return indices, squared

    def _search(self, rows, cells, others, all_indices, all_squared) -> None:  # type: ignore[no-untyped-def]
        """Search for some of this rank's rows in a block of rows, of which more are measured."""
        indices, squared = all_indices[rows], all_squared[rows]
        values, numbers = self.values[rows], self.layout.start + rows
        keep = self.k + 1 + max(8, self.k // 8)  # with the row itself
        # Lists of halves of squared distances in single precision, whose bits, as integers, have
        # the same order.  When one is full, little more than the ``keep`` least are kept.
        bits = np.empty((len(rows), 4 * keep), dtype=np.int32)
        places, counts = np.empty_like(bits), np.zeros(len(rows), dtype=np.int64)
        limits = (0.5 + ROUNDING) * squared[:, -1]
        thresholds = np.where(limits == 0.0, NONE, limits.astype(np.float32).view(np.int32))
        for cell, asking in cells:
            first, last = others.starts[cell : cell + 2]
            for left in range(first, last, TILE):
                asking = asking[thresholds[asking] > NONE]
                if not len(asking):
                    break
                factor = np.ones((len(asking), values.shape[1] + 2), dtype=np.float32)
                factor[:, :-2] = values[asking] - self.cells.centers[cell]
                factor[:, -2] = _halves(factor[:, :-2])
                right = others.factor[left : min(left + TILE, last)]
                rounding = np.float32(ROUNDING * (factor[:, -2].max() + right[:, -1].max()))
                offer(
                    (factor @ right.T).view(np.int32), rounding.view(np.int32), asking, left, keep,
                    self.k, values, others.values, bits, places, counts, thresholds,
                )  # fmt: skip
        measure(
            values, numbers, others.values, others.numbers, keep, bits, places, counts, indices,
            squared,
        )  # fmt: skip
        all_indices[rows], all_squared[rows] = indices, squared

    def _cells_reached(self, values: np.ndarray, probes: int) -> Iterator[tuple[int, np.ndarray]]:
        """Cells that rows look into, and which rows, the cells nearest to their rows first."""
        parts = []
        for first in range(0, len(values), ASSIGNED):
            near = self.cells.distances(values[first : first + ASSIGNED])
            near -= near.min(axis=1)[:, None]
            limits = np.empty(len(near), dtype=np.int32)
            reach(near.view(np.int32), self.counts, probes, self.k, limits)
            reached = np.flatnonzero(near.view(np.int32) <= limits[:, None])
            rows, cells = np.divmod(reached, near.shape[1])
            parts.append((first + rows, cells, near[rows, cells]))
        rows, cells, gaps = (np.concatenate(column) for column in zip(*parts, strict=True))
        asking = np.bincount(cells, minlength=len(self.counts))
        far = np.bincount(cells, gaps, len(asking)) / np.maximum(asking, 1)
        turns = np.empty(len(far), dtype=np.min_scalar_type(len(far)))  # short ones sort quickly
        turns[np.argsort(far, kind="stable")] = np.arange(len(far))
        order = np.argsort(turns[cells], kind="stable")
        cells = cells[order]
        for part in np.split(np.arange(len(cells)), np.flatnonzero(np.diff(cells)) + 1):
            yield cells[part[0]], rows[order[part]].astype(np.uint16)  # less than BATCH


class _Others:
    """Rows of a block, in the order of their cells, as factors of products."""

    def __init__(self, centers, values, numbers, cell) -> None:  # type: ignore[no-untyped-def]
        self.values, self.numbers = values, numbers
        self.starts = np.searchsorted(cell, np.arange(len(centers) + 1)).tolist()
        # Of rows near a center products are accurate.
        self.factor = np.ones((len(values), values.shape[1] + 2), dtype=np.float32)
        np.subtract(centers[cell], values, out=self.factor[:, :-2], casting="same_kind")
        self.factor[:, -1] = _halves(self.factor[:, :-2])


def _halves(rows: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * np.einsum("ij,ij->i", rows, rows))


@njit(nogil=True)
def _limit(bits, wanted):
    """A number that about ``wanted`` of these integers, none negative, do not exceed, or more."""
    low, high = np.int32(-1), bits.max()
    while high - low > 1:
        middle, count = np.int32((np.int64(low) + high) // 2), np.int32(0)
        for j in range(bits.size):
            count += np.int32(bits[j] <= middle)
        if count < wanted:
            low = middle
        else:
            high = middle
            if count <= wanted + wanted // 16:
                break
    return high


@kernel()
def reach(near, counts, probes, k, limits):
    """Distance of about ``probes`` cells from a row, or more where those have few rows."""
    for i in range(near.shape[0]):
        wanted, rows = probes, 0
        while rows <= k:
            limits[i] = _limit(near[i], wanted)
            rows = 0
            for j in range(near.shape[1]):
                rows += counts[j] if near[i, j] <= limits[i] else 0
            wanted *= 2


@njit(nogil=True)
def _shorten(bits, places, limit, most):
    """Move the entries that do not exceed the limit, ``most`` of them, to the front of a list."""
    count = 0
    for c in range(bits.size):
        if bits[c] <= limit and count < most:
            bits[count], places[count] = bits[c], places[c]
            count += 1
    return count


@kernel()
def offer(tile, rounding, rows, left, keep, k, points, theirs, bits, places, counts, thresholds):
    """Put those columns of a tile, from ``left``, that are near enough into the rows' lists."""
    n = tile.shape[1]
    marks = np.zeros((n + 7) // 8 * 8, np.uint8)
    groups = marks.view(np.uint64)
    for i in range(rows.size):
        row, scores = rows[i], tile[i]
        bound = thresholds[row]
        for j in range(n):
            marks[j] = np.uint8(scores[j] < bound)
        for group in range(groups.size):
            if groups[group] == 0:
                continue
            for j in range(8 * group, min(8 * group + 8, n)):
                if scores[j] >= thresholds[row]:
                    continue
                count = counts[row]
                bits[row, count], places[row, count] = max(scores[j], np.int32(0)), left + j
                counts[row] = count + 1
                if count + 1 < bits.shape[1]:
                    continue
                limit = _limit(bits[row], keep)
                counts[row] = _shorten(bits[row], places[row], limit, keep + keep // 16)
                thresholds[row], same = limit, 0
                if limit <= rounding:
                    for c in range(counts[row]):
                        same += squared_distance(points[row], theirs[places[row, c]]) == 0.0
                if same > k:  # none is nearer
                    thresholds[row] = NONE


@kernel()
def measure(points, numbers, theirs, their_numbers, keep, bits, places, counts, indices, squared):
    """Distances of what the lists hold, put into the ascending lists of neighbors."""
    k = squared.shape[1]
    for row in range(counts.size):
        count = counts[row]
        if count > keep:
            limit = _limit(bits[row, :count], keep)
            count = _shorten(bits[row, :count], places[row, :count], limit, keep + keep // 16)
        for c in range(count):
            place = places[row, c]
            distance, number = squared_distance(points[row], theirs[place]), their_numbers[place]
            if number == numbers[row] or distance >= squared[row, k - 1]:
                continue
            at = k - 1
            while at > 0 and squared[row, at - 1] > distance:
                squared[row, at], indices[row, at] = squared[row, at - 1], indices[row, at - 1]
                at -= 1
            squared[row, at], indices[row, at] = distance, number
