"""The worst secants of a scan: kept per rank as tiles come, chosen over all ranks at the end."""

import threading
from dataclasses import dataclass

import numpy as np

from thalweg.engines.secants import secant_kernels as kernels
from thalweg.engines.secants.secant_bounds import Accuracy
from thalweg.engines.secants.secant_tiles import STRIP, TILE, Block, Edges, Scan, ScanOptions
from thalweg.parallel import Layout, RowRoutes, nth_over_ranks, sum_over_ranks, values_of_all_ranks

#: Pairs that a rank may keep beyond its share, and what it may keep for each of its share; by hand.
SPARE, SHARES = 4096, 2


@dataclass
class WorstPair:
    """The largest change so far, and its pair of global numbers; of equal ones the lowest.

    ``least`` is a lower bound of that pair's change, where one is given.
    """

    change: float = 0.0
    pair: tuple[int, int] = (-1, -1)
    least: float = 0.0

    def offer(self, change: float, pair: tuple[int, int], least: float = 0.0) -> None:
        """Take over another pair if it is worse."""
        lower = self.pair[0] < 0 or pair < self.pair
        if pair[0] >= 0 and (change > self.change or (change == self.change and lower)):
            self.change, self.pair, self.least = change, pair, least


class WorstSecants:
    """The worst pairs so far, on this rank; pruned as they come, chosen from all at the end.

    The outcome does not depend on the order of the tiles: pairs are ranked by
    (distortion, numbers), and pruning only ever drops pairs that are ranked
    behind ``max_pairs`` others.  Of many ranks each keeps no more than twice its share of
    these: where the worst crowd on one, others are taken for the last of them.
    """

    def __init__(
        self, options: ScanOptions, accuracy: Accuracy, packed: bool = False, ranks: int = 1
    ) -> None:
        self._options, self._accuracy, self._packed = options, accuracy, packed
        self._threshold = options.threshold if options.max_pairs > 0 else np.inf
        self._limit = options.max_pairs
        if ranks > 1:
            self._limit = min(self._limit, SHARES * self._limit // ranks + SPARE)
        self._lock = threading.Lock()
        self._buffers = threading.local()
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._waiting = 0
        self._worst_pair = WorstPair()
        self.pairs = self.coincident = self.measured = 0

    def go_on_from(self, scan: Scan, first: bool) -> None:
        """Take over what a scan of other tiles found; ``first``: whether this is rank 0."""
        self._worst_pair.offer(scan.largest, scan.pair)
        if first or self._options.share:
            self._parts.append((*scan.pairs.T, scan.distortions, scan.lengths))
        if first:
            self.pairs, self.coincident = scan.n_pairs, scan.n_coincident
            self.measured = scan.n_measured
        self._prune()

    def scan(
        self, components: np.ndarray, labeled: bool, low: Block, high: Block, strip: Edges
    ) -> None:
        """Scan a strip of a tile; called from several threads."""
        r0, r1, c0, c1 = strip
        triangle = low is high and r0 == c0
        # Together: another thread's pair must not go with this one's value.
        with self._lock:
            threshold, best = self._threshold, self._worst_pair.change
            best_pair = np.array(self._worst_pair.pair)
        m, n = r1 - r0, c1 - c0
        if not hasattr(self._buffers, "products"):
            self._buffers.products = np.empty((2, STRIP * TILE), dtype=np.float32)
        products = self._buffers.products[:, : m * n].reshape(2, m, n)
        for a, b, out in zip(low.factors(r0, r1), high.factors(c0, c1), products, strict=True):
            np.matmul(a, b.T, out=out)
        max_pairs = max(1, self._options.per_row) if threshold < np.inf else 1
        i, j = np.empty((2, m * max_pairs), dtype=np.int64)
        value, length = np.empty((2, m * max_pairs))
        counts = np.zeros(3, dtype=np.int64)
        best = kernels.filter_tile(
            *products, low.cut(r0, r1), high.cut(c0, c1), components, r0, c0, triangle,
            self._accuracy.close, self._packed, threshold, best, max_pairs, labeled, i, j, value,
            length, counts, best_pair,
        )  # fmt: skip
        reached, measured, coincident = (int(c) for c in counts)
        with self._lock:
            self._worst_pair.offer(best, (int(best_pair[0]), int(best_pair[1])))
            self.pairs += m * n - m * (m + 1) // 2 if triangle else m * n
            self.measured += measured
            self.coincident += coincident
            if reached and threshold < np.inf:
                # Copies: slices would keep a strip's whole buffers alive.
                self._parts.append(tuple(a[:reached].copy() for a in (i, j, value, length)))
                self._waiting += reached
                if self._waiting > 2 * self._limit + SPARE:
                    self._prune()

    def listed(
        self,
        i: np.ndarray,
        j: np.ndarray,
        length: np.ndarray,
        mapped: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        """Take over pairs that were all measured, their distortions times weights of at most 1."""
        self.pairs += len(i)
        self.measured += len(i)
        distinct = length > 0
        self.coincident += int((~distinct).sum())
        i, j, length, mapped = i[distinct], j[distinct], length[distinct], mapped[distinct]
        value = mapped / length - 1.0
        if weights is not None:
            value *= weights[distinct]
        size = np.abs(value)
        for at in np.lexsort((j, i, -size))[:1]:
            self._worst_pair.offer(float(size[at]), (int(i[at]), int(j[at])))
        keep = size >= self._threshold
        self._parts.append((i[keep], j[keep], value[keep], length[keep]))
        self._prune()

    def _prune(self) -> None:
        merged = self._worst()
        self._parts = [merged]
        self._waiting = len(merged[0])
        if self._limit and len(merged[0]) >= self._limit:
            self._threshold = max(self._threshold, float(np.abs(merged[2][-1])))

    def _worst(self) -> tuple[np.ndarray, ...]:
        return _worst(self._parts, self._limit, self._options.per_row)

    def finish(self, layout: Layout, n_leading: int, complete: bool, count: int) -> Scan:
        """Choose the worst of all ranks, for every rank or shared out.  Collective."""
        comm = layout.comm
        self._prune()
        worst = self._worst_pair
        for other in comm.allgather(worst):
            worst.offer(other.change, other.pair)
        if comm.size > 1:
            self._choose(layout)
        i, j, value, length = self._parts[0]
        if comm.size > 1 and not self._options.share:
            some = Layout(comm, int(sum_over_ranks(comm, len(i))), local_rows=len(i))
            every = tuple(some.gather_rows(part) for part in (i, j, value, length))
            i, j, value, length = _worst([every], some.rows, 0)
        own = np.array([self.pairs, self.coincident, self.measured])
        pairs, coincident, measured = values_of_all_ranks(comm, own).sum(axis=0).tolist()
        lower, upper = self._accuracy.interval(worst.change)
        return Scan(
            delta=upper, delta_lower=lower, pair=worst.pair, complete=complete,
            pairs=np.stack([i, j], axis=1), distortions=value, lengths=length,
            n_pairs=count if complete else pairs, n_coincident=coincident, n_measured=measured,
            n_leading=n_leading, largest=worst.change,
        )  # fmt: skip

    def _choose(self, layout: Layout) -> None:
        """Keep this rank's part of the worst of all ranks."""
        comm = layout.comm
        if self._options.per_row:
            # Pieces of one tile on several ranks were capped apart: cap them together.
            i, j, *_ = self._parts[0]
            tile = j // TILE
            routes = RowRoutes(comm, layout.owners(np.where((i + tile) % 2, i, tile * TILE)))
            self._parts = [tuple(routes.deliver(part) for part in self._parts[0])]
            self._limit = self._options.max_pairs
            self._parts = [self._worst()]
        i, j, value, _ = self._parts[0]
        total = int(sum_over_ranks(comm, len(value)))
        if total <= self._options.max_pairs:
            return
        size, number = np.abs(value), i * layout.rows + j
        least = nth_over_ranks(comm, size, total - self._options.max_pairs)
        stay = size > least
        left = self._options.max_pairs - int(sum_over_ranks(comm, stay.sum()))
        same = size == least
        stay |= same & (number <= nth_over_ranks(comm, number[same], left - 1))
        self._parts = [tuple(part[stay] for part in self._parts[0])]


def _worst(
    parts: list[tuple[np.ndarray, ...]], max_pairs: int, per_row: int
) -> tuple[np.ndarray, ...]:
    """The ``max_pairs`` worst pairs, at most ``per_row`` for a point and column of tiles."""
    if not parts or max_pairs <= 0:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, np.empty(0), np.empty(0)
    i, j, value, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((j, i, -np.abs(value)))
    if per_row:
        group = (i * (1 + int(j.max(initial=0)) // TILE) + j // TILE)[order]
        by_group = np.argsort(group, kind="stable")
        sorted_group = group[by_group]
        fresh = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]])
        place = np.arange(len(group)) - np.repeat(fresh, np.diff(np.r_[fresh, len(group)]))
        keep = np.zeros(len(group), dtype=bool)
        keep[by_group] = place < per_row
        order = order[keep]
    order = order[:max_pairs]
    return i[order], j[order], value[order], length[order]
