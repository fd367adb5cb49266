"""The secant oracle: how far a linear map is from an isometry on a set of points.

A secant is the direction between two points.  For a map Psi the distortion of
the pair (i, j) is ``||Psi (x_i - x_j)||^2 / ||x_i - x_j||^2 - 1``, and Psi's
isometry constant delta is the largest distortion in absolute value.
:class:`SecantSet` finds it, and the worst pairs, over all pairs, without ever
storing them: blocks of points pass round the ranks, each pair of blocks is cut
into tiles, and a tile costs two matrix products in single precision and one
pass that bounds every distortion.  The bounds hold under rounding, so that only
the few pairs that may matter are measured in float64, from the points
themselves, in an order of summation that does not depend on the ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel.failures import raise_on_all_ranks
from thalweg.parallel.layout import Layout
from thalweg.parallel.pairs import secant_kernels as kernels
from thalweg.parallel.pairs.principal_frame import LARGE_DIMENSION, PrincipalFrame
from thalweg.parallel.pairs.ring import Ring
from thalweg.parallel.pairs.secant_bounds import bounded_rows, cheapest_head
from thalweg.parallel.pairs.secant_input import checked_components, exact_points, listed_pairs
from thalweg.parallel.pairs.secant_tiles import TILE, Block, Edges, TileChoice, tiles_of
from thalweg.parallel.pairs.tile_threads import Room, TilePool
from thalweg.parallel.pairs.worst_secants import Scan, WorstSecants
from thalweg.parallel.reductions import any_over_ranks, sum_large

#: Points that all ranks hold, to estimate what a scan will cost.
SAMPLE = 384


class SecantSet:
    """The secants of a set of points whose rows lie on the ranks.

    Parameters
    ----------
    points
        This rank's points, shape ``(n_local, dimension)``; kept as uint8 or
        float32 if that is what they are (or small integers), else as float64.
    layout
        How the points lie on the ranks; only its rows are used.
    labels
        Class of every point, on every rank, shape ``(n,)``: only pairs within a
        class are secants then.
    neighbours
        Neighbours of this rank's points, global numbers, shape ``(n_local, k)``:
        only these pairs are secants then.
    threads
        Threads of this rank; by default those that Numba may use.

    Raises
    ------
    InputError
        A number that is not finite, or fewer than two distinct points.

    Notes
    -----
    All methods are collective.  The last complete scan is kept: asking for the
    delta of the same map again costs nothing.
    """

    def __init__(
        self,
        points: np.ndarray,
        layout: Layout,
        labels: np.ndarray | None = None,
        neighbours: np.ndarray | None = None,
        threads: int | None = None,
    ) -> None:
        with raise_on_all_ranks(layout.comm):
            self.points = exact_points(points)
        self.comm = layout.comm
        self.layout = layout.with_columns(points.shape[1])
        self.dimension = points.shape[1]
        self._threads = threads
        self._labels = None
        if labels is not None:
            if len(labels) != layout.rows:
                raise InputError(
                    f"there are {len(labels)} labels for {layout.rows} points; give one a point"
                )
            self._labels = np.unique(labels, return_inverse=True)[1].astype(np.int32).ravel()
        self._listed: np.ndarray | None = None
        if neighbours is not None:
            self._keys, self._listed = listed_pairs(self.layout, neighbours)
        self._last: tuple[bytes, Scan] | None = None
        _, sampled = self.sample(SAMPLE if self.dimension <= LARGE_DIMENSION else 2 * SAMPLE)
        self._frame = PrincipalFrame(self.points, self.layout, sampled)
        if layout.rows < 2 or not self._any_distinct():
            raise InputError(
                f"the {layout.rows} points have no two that differ; "
                "give at least two distinct points"
            )

    # -- facts about the set ---------------------------------------------------------------

    @property
    def n_points(self) -> int:
        """Number of points on all ranks together."""
        return self.layout.rows

    @property
    def labels(self) -> np.ndarray | None:
        """Class of every point as a small number, or None if classes do not matter."""
        return self._labels

    @property
    def listed(self) -> bool:
        """Whether the secants are listed pairs instead of all pairs."""
        return self._listed is not None

    def is_listed(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Which pairs of these global numbers are listed, shape ``(len(rows), len(columns))``."""
        low = np.minimum(rows[:, None], columns)
        keys = low * self.n_points + np.maximum(rows[:, None], columns)
        at = np.searchsorted(self._keys, keys)
        return np.asarray(self._keys[np.minimum(at, len(self._keys) - 1)] == keys)

    @property
    def n_pairs(self) -> int:
        """Pairs of points that count, coincident ones included."""
        if self._listed is not None:
            return self._listed_total
        if self._labels is not None:
            sizes = np.bincount(self._labels).astype(np.int64)
            return int((sizes * (sizes - 1) // 2).sum())
        return self.n_points * (self.n_points - 1) // 2

    @property
    def mean(self) -> np.ndarray:
        """About the mean point, shape ``(dimension,)``, equal on all ranks."""
        return self._frame.mean

    @property
    def spread(self) -> np.ndarray:
        """Variances along :attr:`directions`, largest first, times the number of points."""
        return self._frame.variances

    @property
    def directions(self) -> np.ndarray:
        """Leading principal directions as rows, shape ``(k, dimension)``, orthonormal."""
        return self._frame.directions

    def sample(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Some points, evenly spread over the numbers, on every rank.

        Returns
        -------
        numbers, points
            Shapes ``(m,)`` and ``(m, dimension)`` (float64), ``m = min(count, n)``.
        """
        numbers = np.unique(np.linspace(0, self.n_points - 1, min(count, self.n_points)).round())
        numbers = numbers.astype(np.int64)
        return numbers, self.rows_of(numbers)

    def rows_of(self, numbers: np.ndarray) -> np.ndarray:
        """The points of these global numbers, on every rank, float64."""
        mine = (numbers >= self.layout.start) & (numbers < self.layout.stop)
        whole = np.zeros((len(numbers), self.dimension))
        whole[mine] = self.points[numbers[mine] - self.layout.start]
        return sum_large(self.comm, whole)

    def images(self, components: np.ndarray) -> np.ndarray:
        """``points @ components.T`` of this rank's points, float64, the same at any rank count."""
        components = np.ascontiguousarray(components, dtype=float)
        images = np.empty((len(self.points), len(components)))
        parts = np.array_split(np.arange(len(self.points)), max(1, self.threads))
        with ThreadPoolExecutor(max(1, self.threads)) as pool:
            jobs = [
                pool.submit(
                    kernels.map_rows,
                    self.points[p[0] : p[-1] + 1],
                    components,
                    images[p[0] : p[-1] + 1],
                )
                for p in parts
                if len(p)
            ]
            for job in jobs:
                job.result()
        return images

    @property
    def threads(self) -> int:
        """Threads that a scan uses on this rank."""
        if self._threads is None:
            import numba

            self._threads = int(numba.get_num_threads())
        return self._threads

    def _any_distinct(self) -> bool:
        if self._listed is not None:
            return self._listed_total > 0
        if self.n_pairs == 0:
            return False
        first = self.rows_of(np.zeros(1, dtype=np.int64))[0]
        return any_over_ranks(self.comm, bool((self.points != first).any()))

    # -- the scan --------------------------------------------------------------------------

    def scan(
        self,
        components: np.ndarray,
        level: float = np.inf,
        most: int = 0,
        per_row: int = 3,
        fraction: float = 1.0,
        seed: int = 0,
        head: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Scan:
        """Look at every secant, or at a sample, and keep the worst.

        Parameters
        ----------
        components
            Psi, shape ``(rank, dimension)``, equal on all ranks.
        level
            Least distortion, in absolute value, of the pairs that are kept.
        most
            At most so many pairs are kept.
        per_row
            Of each point's pairs with the later points of one tile, at most so
            many are kept: a spread of violators says more than a cluster.
        fraction
            Share of the tiles that is scanned, the same tiles at any number of
            ranks.
        seed
            Chooses the tiles.
        head
            Coordinates in the tiles' products, the others being bounded by their
            norms; None chooses by cost, 0 means all.
        progress
            Called on every rank with the number of pairs that it has just done.

        Raises
        ------
        InputError
            Components of another width than the points, or not finite.
        """
        components = checked_components(components, self.dimension)
        key = components.tobytes()
        if most == 0 and self._last is not None and self._last[0] == key:
            return self._last[1]
        if self._listed is not None:
            scan = self._scan_listed(components, level, most, progress)
            self._last = (key, scan)
            return scan
        if head is None:
            head = self._cheapest_head(components, level)
        head = self.dimension if head <= 0 else min(head, self.dimension)
        arrays = bounded_rows(self.points, self.images(components), components, self._frame, head)
        keeper = WorstSecants(level, most, per_row)
        chosen = TileChoice(fraction, seed, self.n_points)
        labelled = self._labels is not None
        labels = self._labels if labelled else np.zeros(self.n_points, dtype=np.int32)
        assert labels is not None
        mine: Block | None = None

        def work(low: Block, high: Block, tile: Edges, room: Room) -> int:
            return keeper.tile(components, low, high, tile, labelled, room)

        with TilePool(self.threads) as pool:
            for block in Ring(self.layout).blocks(*arrays, each_pair_once=True):
                other = Block(block.start, block.arrays, labels)
                mine = other if mine is None else mine  # a rank's own block comes first
                own = mine.part(block.rows)
                low, high = (own, other) if own.start < other.start else (other, own)
                if block.own:
                    low = high = own
                tiles = [(low, high, t) for t in tiles_of(low, high, chosen, block.own)]
                pool.run(tiles, work, block.poll, progress)
        scan = keeper.finish(self.comm, head, complete=fraction >= 1.0, count=self.n_pairs)
        if scan.complete:
            self._last = (key, scan)
        return scan

    def _cheapest_head(self, components: np.ndarray, level: float) -> int:
        if self.dimension < 64 or self.n_points < 2 * TILE:
            return self.dimension
        return int(self.comm.bcast(cheapest_head(self._frame, components, level)))

    def _scan_listed(
        self,
        components: np.ndarray,
        level: float,
        most: int,
        progress: Callable[[int], None] | None,
    ) -> Scan:
        assert self._listed is not None
        images = self.images(components)
        first, second = self._listed.T
        keeper = WorstSecants(level, most, 0)
        for block in Ring(self.layout).blocks(self.points, self._frame.sizes, images):
            here = (second >= block.start) & (second < block.stop)
            i = first[here]
            j = second[here]
            lengths, mapped = np.empty(len(i)), np.empty(len(i))
            points, sizes, other_images = block.arrays
            kernels.measure_pairs(
                i - self.layout.start,
                j - block.start,
                self.points,
                points,
                self._frame.sizes,
                sizes,
                images,
                other_images,
                components,
                lengths,
                mapped,
            )
            keeper.listed(i, j, lengths, mapped)
            if progress is not None:
                progress(len(i))
        return keeper.finish(self.comm, self.dimension, complete=True, count=self._listed_total)

    @property
    def _listed_total(self) -> int:
        assert self._listed is not None
        return int(sum(self.comm.allgather(len(self._listed))))
