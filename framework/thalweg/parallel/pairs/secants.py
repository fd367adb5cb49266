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

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import threadpoolctl

from thalweg.errors import InputError
from thalweg.parallel.failures import agreed
from thalweg.parallel.layout import Layout
from thalweg.parallel.pairs import secant_kernels as kernels
from thalweg.parallel.pairs.ring import Ring
from thalweg.parallel.reductions import any_over_ranks, max_over_ranks, sum_large

#: Edge of the tiles, which lie on one grid of global row numbers.
TILE = 1024

#: Points that all ranks hold, to estimate what a scan will cost.
SAMPLE = 384

#: Dimension above which the leading directions come from a sample of the points.
LARGE_DIMENSION = 2048

_UNIT = 2.0**-24  # rounding unit of float32


@dataclass(frozen=True)
class Scan:
    """What one pass over the secants found; the same on every rank.

    Attributes
    ----------
    delta
        Largest distortion in absolute value among the pairs seen; over all
        secants if ``complete``.  0 if there is no secant.
    pair
        The numbers (i, j), i < j, of the points that attain it; (-1, -1) if none.
    complete
        Whether every secant was seen, and not a sample of the tiles.
    pairs, distortions, lengths
        The worst pairs, worst first, ties by number: global numbers (m, 2)
        int64, signed distortions (m,), squared lengths ``||x_i - x_j||^2`` (m,).
    n_pairs, n_coincident
        Pairs seen, and how many of them are two points at the same place.
    n_measured
        Pairs that were measured in float64; the others were bounded.
    head
        Number of coordinates in the tiles' products.
    """

    delta: float
    pair: tuple[int, int]
    complete: bool
    pairs: np.ndarray
    distortions: np.ndarray
    lengths: np.ndarray
    n_pairs: int
    n_coincident: int
    n_measured: int
    head: int

    @property
    def n_secants(self) -> int:
        """Pairs of distinct points seen."""
        return self.n_pairs - self.n_coincident


class SecantSet:
    """The secants of a set of points whose rows lie on the ranks.

    Parameters
    ----------
    points
        This rank's points, shape ``(n_local, dimension)``; kept as float32 if
        that is what they are (or small integers), else as float64.
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
        with agreed(layout.comm):
            self.points = _exact(points)
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
            self._keys, self._listed = _listed_pairs(self.layout, neighbours)
        self._last: tuple[bytes, Scan] | None = None
        self._head: tuple[int, np.ndarray] | None = None
        self._prepare()
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
    def spread(self) -> np.ndarray:
        """Variances along :attr:`directions`, largest first, times the number of points."""
        return self._variances

    @property
    def directions(self) -> np.ndarray:
        """Leading principal directions as rows, shape ``(k, dimension)``, orthonormal."""
        return self._directions

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

    # -- preparation -----------------------------------------------------------------------

    def _prepare(self) -> None:
        """Mean, principal directions and norms, the same bits at any number of ranks.

        Sums over points are made of whole numbers: the points, rounded to a grid
        fine enough for directions, coarse enough that every sum is exact.
        """
        n, small = max(1, self.n_points), self.dimension <= LARGE_DIMENSION
        _, sampled = self.sample(SAMPLE if small else 2 * SAMPLE)
        centre = sampled.mean(axis=0) if len(sampled) else np.zeros(self.dimension)
        blocks = _row_blocks(len(self.points))
        farthest = max((float(np.abs(self.points[b] - centre).max()) for b in blocks), default=0.0)
        farthest = max_over_ranks(self.comm, farthest)
        bits = min(24, int((52 - np.log2(n)) // 2))
        grid = farthest / 2.0**bits if farthest > 0 else 1.0
        total = np.zeros(self.dimension)
        scatter = np.zeros((self.dimension, self.dimension) if small else (0, 0))
        for block in blocks:
            rows = np.rint((self.points[block] - centre) / grid)
            total += rows.sum(axis=0)
            if small:
                scatter += rows.T @ rows
        sum_large(self.comm, total)
        self.mean = centre + grid * (total / n)
        self._sizes = np.empty(len(self.points))
        self._centred_sizes = np.empty(len(self.points))
        for block in blocks:
            rows = self.points[block].astype(float)
            self._sizes[block] = np.einsum("ij,ij->i", rows, rows)
            rows -= self.mean
            self._centred_sizes[block] = np.einsum("ij,ij->i", rows, rows)
        # One thread: with more, LAPACK may round differently.
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
            if small:
                sum_large(self.comm, scatter)
                scatter -= np.outer(total, total / n)
                values, vectors = scipy.linalg.eigh(scatter)
                self._variances = np.maximum(values[::-1], 0.0) * grid**2
                self._directions = np.ascontiguousarray(vectors[:, ::-1].T)
            else:
                _, values, vectors = scipy.linalg.svd(sampled - self.mean, full_matrices=False)
                self._variances = values**2 * (n / max(1, len(sampled)))
                self._directions = np.ascontiguousarray(vectors)
        _fix_signs(self._directions)
        self._directions = self.comm.bcast(self._directions)
        self._variances = self.comm.bcast(self._variances)
        self._sampled = sampled

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
            head = self._choose_head(components, level)
        head = self.dimension if head <= 0 else min(head, self.dimension)
        arrays = self._ring_arrays(components, head)
        keeper = _Keeper(level, most, per_row)
        chosen = _TileChoice(fraction, seed, self.n_points)
        labelled = self._labels is not None
        labels = self._labels if labelled else np.zeros(self.n_points, dtype=np.int32)
        assert labels is not None
        mine: _Block | None = None

        def work(low: _Block, high: _Block, tile: Tile, room: _Room) -> int:
            return keeper.tile(components, low, high, tile, labelled, room)

        with _Pool(self.threads) as pool:
            for visit in Ring(self.layout).visits(*arrays, unordered=True):
                other = _Block(visit.start, visit.arrays, labels)
                mine = other if mine is None else mine  # a rank's own block comes first
                own = mine.part(visit.rows)
                low, high = (own, other) if own.start < other.start else (other, own)
                if visit.own:
                    low = high = own
                tiles = [(low, high, t) for t in _tiles(low, high, chosen, visit.own)]
                pool.run(tiles, work, visit.poll, progress)
        scan = keeper.finish(self.comm, head, complete=fraction >= 1.0, count=self.n_pairs)
        if scan.complete:
            self._last = (key, scan)
        return scan

    def _ring_arrays(self, components: np.ndarray, head: int) -> tuple[np.ndarray, ...]:
        """Points, sizes, images, head, images in float32, bounds: what a tile needs."""
        leading = self._leading(head)
        images = self.images(components)
        shifted = images - components @ self.mean
        single = shifted.astype(np.float32)
        # What the products see are the rounded numbers: their norms are taken of those.
        size = np.einsum("ij,ij->i", leading, leading, dtype=float)
        rest = np.maximum(self._centred_sizes - size, 0.0) if head < self.dimension else 0 * size
        image_size = np.einsum("ij,ij->i", single, single, dtype=float)
        # Any order of summation of m products is within m units of the norms' product
        # (Higham, Accuracy and Stability, sec. 3.1); 16 more cover the few other roundings.
        slack = (head + 16) * _UNIT * size + 16 * _UNIT * (rest + 1e-7 * self._centred_sizes)
        image_slack = (len(components) + 16) * _UNIT * image_size
        bounds = np.empty((len(self.points), 5), dtype=np.float32)
        bounds[:, 0] = size + rest - slack
        bounds[:, 1] = size + rest + slack
        bounds[:, 2] = image_size - image_slack
        bounds[:, 3] = image_size + image_slack
        bounds[:, 4] = np.sqrt(rest)
        return self.points, self._sizes, images, leading, single, bounds

    def _leading(self, head: int) -> np.ndarray:
        """This rank's points, centred, along the ``head`` leading directions, float32."""
        if self._head is None or self._head[0] != head:
            leading = np.empty((len(self.points), head), dtype=np.float32)
            basis = self._directions[:head].T
            for block in _row_blocks(len(self.points)):
                rows = self.points[block] - self.mean
                leading[block] = rows if head == self.dimension else rows @ basis
            self._head = (head, leading)
        return self._head[1]

    def _choose_head(self, components: np.ndarray, level: float) -> int:
        """Number of coordinates that makes a scan cheapest, estimated on the sampled points."""
        if self.dimension < 64 or self.n_points < 2 * TILE:
            return self.dimension
        rows = self._sampled - self.mean
        images = rows @ components.T
        turned = rows @ self._directions.T
        total = np.einsum("ij,ij->i", rows, rows)
        image_distances = _distances(images)
        lengths = np.maximum(_distances(rows), 1e-300)
        distortion = np.abs(image_distances / lengths - 1.0)
        np.fill_diagonal(distortion, 0.0)
        third = np.partition(distortion, -3, axis=1)[:, -3]
        bar = np.minimum(np.maximum(third, min(level, 1e3)), distortion.max())[:, None]
        best, cheapest = self.dimension, np.inf
        # Nanoseconds: a product's term, the pass over a pair, a measured pair.
        product, sweep, exact = 0.036, 0.5, 60.0 + 0.35 * self.dimension
        sizes = [
            p
            for p in (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)
            if p < min(0.85 * self.dimension, len(self._directions))
        ]
        for p in [*sizes, self.dimension]:
            share = 0.0
            if p < self.dimension:
                near = _distances(turned[:, :p])
                tail = np.sqrt(np.maximum(total - (turned[:, :p] ** 2).sum(axis=1), 0.0))
                short = near + (tail[:, None] - tail) ** 2
                long = near + (tail[:, None] + tail) ** 2
                suspect = (image_distances >= (1 + bar) * short) | (
                    image_distances <= (1 - bar) * long
                )
                share = float(suspect.mean()) - 1.0 / len(rows)
            cost = product * p + sweep + exact * max(share, 0.0)
            if cost < cheapest:
                best, cheapest = p, cost
        return int(self.comm.bcast(best))

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
        keeper = _Keeper(level, most, 0)
        for visit in Ring(self.layout).visits(self.points, self._sizes, images):
            here = (second >= visit.start) & (second < visit.stop)
            i = first[here]
            j = second[here]
            lengths, mapped = np.empty(len(i)), np.empty(len(i))
            points, sizes, other_images = visit.arrays
            kernels.measure_pairs(
                i - self.layout.start,
                j - visit.start,
                self.points,
                points,
                self._sizes,
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


def checked_components(components: np.ndarray, dimension: int) -> np.ndarray:
    """Psi as a float64 matrix of the right width.

    Raises
    ------
    InputError
    """
    components = np.asarray(components)
    if components.ndim != 2 or components.shape[1] != dimension:
        shape = " x ".join(str(s) for s in components.shape)
        raise InputError(
            f"the components are {shape}, but the points have {dimension} columns; "
            f"give a matrix of shape rank x {dimension}"
        )
    if components.dtype.kind not in "fiub":
        raise InputError(f"the components hold {components.dtype}, not real numbers")
    components = np.ascontiguousarray(components, dtype=float)
    if not np.isfinite(components).all():
        raise InputError("the components hold a number that is not finite; remove NaN and infinity")
    return components


# -- parts of a scan -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Block:
    """Consecutive points with what a tile needs of them."""

    start: int
    arrays: tuple[np.ndarray, ...]
    labels: np.ndarray

    @property
    def stop(self) -> int:
        return self.start + len(self.arrays[0])

    def part(self, rows: slice) -> _Block:
        first, last, _ = rows.indices(len(self.arrays[0]))
        return _Block(self.start + first, tuple(a[first:last] for a in self.arrays), self.labels)

    def cut(self, first: int, last: int) -> tuple[np.ndarray, ...]:
        """``(exact, size, image, low, high, image_low, image_high, tail, labels)`` of a range."""
        here = slice(first - self.start, last - self.start)
        points, sizes, images, _, _, bounds = self.arrays
        columns = np.ascontiguousarray(bounds[here].T)
        return (points[here], sizes[here], images[here], *columns, self.labels[first:last])

    def factors(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        here = slice(first - self.start, last - self.start)
        return self.arrays[3][here], self.arrays[4][here]


Tile = tuple[int, int, int, int]


class _TileChoice:
    """Which cells of the global grid of tiles are scanned."""

    def __init__(self, fraction: float, seed: int, n_points: int) -> None:
        self._everything = fraction >= 1.0
        if not self._everything:
            edge = -(-n_points // TILE)
            cells = edge * (edge + 1) // 2
            wanted = max(1, min(cells, int(np.ceil(fraction * cells))))
            order = np.random.default_rng(seed).permutation(cells)[:wanted]
            self._chosen = np.zeros((edge, edge), dtype=bool)
            upper = np.triu_indices(edge)
            self._chosen[upper[0][order], upper[1][order]] = True

    def __call__(self, row: int, column: int) -> bool:
        return self._everything or bool(self._chosen[row // TILE, column // TILE])


def _cuts(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Pieces of a range of rows along the global grid."""
    while start < stop:
        end = min(stop, (start // TILE + 1) * TILE)
        yield start, end
        start = end


def _tiles(low: _Block, high: _Block, chosen: _TileChoice, same: bool) -> Iterator[Tile]:
    for r0, r1 in _cuts(low.start, low.stop):
        for c0, c1 in _cuts(high.start, high.stop):
            if (not same or c0 >= r0) and chosen(r0, c0):
                yield r0, r1, c0, c1


class _Room(threading.local):
    """Buffers of one thread, made at first use."""

    products: np.ndarray | None = None

    def get(self) -> tuple[np.ndarray, np.ndarray]:
        if self.products is None:
            self.products = np.empty((2, TILE * TILE), dtype=np.float32)
        return self.products[0], self.products[1]


class _Pool:
    """Threads that work off tiles, each with BLAS kept to itself."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)
        self._room = _Room()

    def __enter__(self) -> _Pool:
        if self._threads > 1:
            self._limit: Any = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
            self._executor = ThreadPoolExecutor(self._threads)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._threads > 1:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._limit.restore_original_limits()

    def run(
        self,
        tiles: list[Any],
        work: Callable[..., int],
        poll: Callable[[], None],
        progress: Callable[[int], None] | None,
    ) -> None:
        if self._threads == 1 or len(tiles) == 1:
            results: Any = (work(*tile, self._room) for tile in tiles)
        else:
            results = self._executor.map(lambda tile: work(*tile, self._room), tiles)
        for count in results:
            poll()
            if progress is not None:
                progress(count)


class _Keeper:
    """The worst pairs so far, on this rank; pruned as they come, merged at the end.

    The outcome does not depend on the order of the tiles: pairs are ranked by
    (distortion, numbers), and pruning only ever drops pairs that are ranked
    behind ``most`` others.
    """

    def __init__(self, level: float, most: int, per_row: int) -> None:
        self._level = level if most > 0 else np.inf
        self._most = most
        self._per_row = max(1, per_row)
        self._capped = per_row > 0
        self._lock = threading.Lock()
        self._found: list[tuple[np.ndarray, ...]] = []
        self._waiting = 0
        self._best = 0.0
        self._best_pair = (-1, -1)
        self.pairs = self.coincident = self.measured = 0

    def tile(
        self,
        components: np.ndarray,
        low: _Block,
        high: _Block,
        tile: Tile,
        labelled: bool,
        room: _Room,
    ) -> int:
        """Scan one tile; called from several threads.  Returns its number of pairs."""
        r0, r1, c0, c1 = tile
        m, n = r1 - r0, c1 - c0
        buffers = room.get()
        products = []
        for a, b, buffer in zip(low.factors(r0, r1), high.factors(c0, c1), buffers, strict=True):
            products.append(np.matmul(a, b.T, out=buffer[: m * n].reshape(m, n)))
        most = self._per_row if self._level < np.inf else 1
        i, j = np.empty((2, m * most), dtype=np.int64)
        value, length = np.empty((2, m * most))
        counts = np.zeros(3, dtype=np.int64)
        best_pair = np.array(self._best_pair, dtype=np.int64)
        triangle = low is high and r0 == c0
        best = kernels.filter_tile(
            products[0],
            products[1],
            low.cut(r0, r1),
            high.cut(c0, c1),
            components,
            r0,
            c0,
            triangle,
            self._level,
            self._best,
            most,
            labelled,
            i,
            j,
            value,
            length,
            counts,
            best_pair,
        )
        kept, measured, coincident = (int(c) for c in counts)
        pairs = m * (m - 1) // 2 if triangle else m * n
        with self._lock:
            self._offer(best, (int(best_pair[0]), int(best_pair[1])))
            self.pairs += pairs
            self.measured += measured
            self.coincident += coincident
            if kept and self._level < np.inf:
                self._found.append((i[:kept], j[:kept], value[:kept], length[:kept]))
                self._waiting += kept
                if self._waiting > 4 * self._most + 4096:
                    self._prune()
        return pairs

    def listed(self, i: np.ndarray, j: np.ndarray, length: np.ndarray, mapped: np.ndarray) -> None:
        """Take over pairs that were all measured."""
        self.pairs += len(i)
        self.measured += len(i)
        distinct = length > 0
        self.coincident += int((~distinct).sum())
        i, j, length, mapped = i[distinct], j[distinct], length[distinct], mapped[distinct]
        value = mapped / length - 1.0
        size = np.abs(value)
        for at in np.lexsort((j, i, -size))[:1]:
            self._offer(float(size[at]), (int(i[at]), int(j[at])))
        keep = size >= self._level
        self._found.append((i[keep], j[keep], value[keep], length[keep]))
        self._prune()

    def _offer(self, best: float, pair: tuple[int, int]) -> None:
        if pair[0] >= 0 and (
            best > self._best
            or (best == self._best and (self._best_pair[0] < 0 or pair < self._best_pair))
        ):
            self._best, self._best_pair = best, pair

    def _prune(self) -> None:
        merged = _worst(self._found, self._most, self._per_row if self._capped else 0)
        self._found = [merged]
        self._waiting = len(merged[0])
        if self._most and len(merged[0]) >= self._most:
            self._level = max(self._level, float(np.abs(merged[2][-1])))

    def finish(self, comm: Any, head: int, complete: bool, count: int) -> Scan:
        """Merge over the ranks, pairwise towards rank 0, and tell everyone."""
        self._prune()
        step = 1
        while step < comm.size:
            if comm.rank % (2 * step) == step:
                comm.send(
                    (self._found[0], self._best, self._best_pair), dest=comm.rank - step, tag=step
                )
                break
            if comm.rank + step < comm.size:
                found, best, pair = comm.recv(source=comm.rank + step, tag=step)
                self._found.append(found)
                self._offer(best, pair)
                self._prune()
            step *= 2
        facts = comm.bcast((self._found[0], self._best, self._best_pair))
        (i, j, value, length), best, pair = facts
        pairs, coincident, measured = (
            int(sum(c))
            for c in zip(*comm.allgather((self.pairs, self.coincident, self.measured)), strict=True)
        )
        return Scan(
            delta=best,
            pair=pair,
            complete=complete,
            pairs=np.stack([i, j], axis=1),
            distortions=value,
            lengths=length,
            n_pairs=count if complete else pairs,
            n_coincident=coincident,
            n_measured=measured,
            head=head,
        )


def _worst(found: list[tuple[np.ndarray, ...]], most: int, per_row: int) -> tuple[np.ndarray, ...]:
    """The ``most`` worst pairs, at most ``per_row`` for a point and column of tiles."""
    if not found or most <= 0:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, np.empty(0), np.empty(0)
    i, j, value, length = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((j, i, -np.abs(value)))
    if per_row:
        # Pieces of one tile on several ranks were capped apart: cap them together.
        group = (i * (1 + int(j.max(initial=0)) // TILE) + j // TILE)[order]
        by_group = np.argsort(group, kind="stable")
        sorted_group = group[by_group]
        fresh = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]])
        sizes = np.diff(np.r_[fresh, len(group)])
        place = np.arange(len(group)) - np.repeat(fresh, sizes)
        keep = np.zeros(len(group), dtype=bool)
        keep[by_group] = place < per_row
        order = order[keep]
    order = order[:most]
    return i[order], j[order], value[order], length[order]


# -- small parts -----------------------------------------------------------------------------


def _exact(points: np.ndarray) -> np.ndarray:
    """The points without loss, in float32 if they fit, contiguous."""
    if points.ndim != 2:
        raise InputError(f"the points must be a table of rows, not of {points.ndim} dimensions")
    if points.dtype.kind in "iub" and points.dtype.itemsize <= 2:
        points = points.astype(np.float32)  # integers up to 2^24 are exact
    elif points.dtype.kind not in "fiub":
        raise InputError(f"the points hold {points.dtype}, not real numbers")
    elif points.dtype not in (np.float32, np.float64):
        points = points.astype(np.float32 if points.dtype == np.float16 else np.float64)
    if not np.isfinite(points).all():
        raise InputError("the points hold a number that is not finite; remove NaN and infinity")
    return np.ascontiguousarray(points)


def _listed_pairs(layout: Layout, neighbours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs i < j out of lists of neighbours.

    Returns the sorted keys ``i * n + j`` of all pairs, on every rank, and the pairs
    (i, j) whose i is this rank's.
    """
    first = np.repeat(np.arange(layout.start, layout.stop), neighbours.shape[1])
    second = neighbours.astype(np.int64).ravel()
    pairs = np.sort(np.stack([first, second], axis=1), axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    keys = np.unique(np.concatenate(layout.comm.allgather(pairs[:, 0] * layout.rows + pairs[:, 1])))
    i, j = np.divmod(keys, max(1, layout.rows))
    mine = (i >= layout.start) & (i < layout.stop)
    return keys, np.stack([i[mine], j[mine]], axis=1)


def _row_blocks(rows: int, size: int = 4096) -> list[slice]:
    return [slice(k, min(rows, k + size)) for k in range(0, rows, size)]


def _distances(rows: np.ndarray) -> np.ndarray:
    size = np.einsum("ij,ij->i", rows, rows)
    return np.maximum(size[:, None] + size - 2.0 * (rows @ rows.T), 0.0)


def _fix_signs(directions: np.ndarray) -> None:
    """Make each direction's largest entry positive, so that every rank has the same."""
    if len(directions):
        at = np.abs(directions).argmax(axis=1)
        directions *= np.where(directions[np.arange(len(directions)), at] < 0, -1.0, 1.0)[:, None]
