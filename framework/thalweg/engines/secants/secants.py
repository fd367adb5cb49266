"""The secant oracle: how far a linear map is from an isometry on a set of points.

A secant is the direction between two points.  For a map Psi the distortion of
the pair (i, j) is ``||Psi (x_i - x_j)||^2 / ||x_i - x_j||^2 - 1``, and Psi's
isometry constant delta is the largest distortion in absolute value.
:class:`SecantSet` finds it, and the worst pairs, over all pairs, without ever
storing them: blocks of points pass around the ranks, each pair of blocks is cut
into tiles, and a tile costs two matrix products in single precision and one
pass that bounds every distortion.  The bounds hold under rounding
(:mod:`~thalweg.engines.secants.secant_bounds`), so that only the few pairs that may
matter are measured in float64, from the points themselves, in an order of
summation that does not depend on the ranks.

>>> import numpy as np
>>> from thalweg.parallel import MPI, Layout
>>> points = np.random.default_rng(0).standard_normal((500, 20))
>>> secants = SecantSet(points, Layout(MPI.COMM_SELF, 500, 20))
>>> scan = secants.scan(np.eye(12, 20), threshold=0.5, max_pairs=100)
>>> scan.delta >= abs(scan.distortions[0]) >= scan.delta_lower
True
"""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse

from thalweg.engines.secants import secant_kernels as kernels
from thalweg.engines.secants.frame import LARGE_DIMENSION, PrincipalFrame, row_blocks
from thalweg.engines.secants.secant_bounds import (
    Accuracy,
    SplitPoints,
    cheapest_split,
    image_bounds,
    split_points,
)
from thalweg.engines.secants.secant_tiles import (
    TILE,
    Block,
    Edges,
    TileChoice,
    TilePool,
    Workspace,
    tiles_of,
)
from thalweg.engines.secants.sparse_rows import SparseRows
from thalweg.engines.secants.worst_secants import Scan, WorstSecants
from thalweg.errors import InputError
from thalweg.parallel import (
    Layout,
    Ring,
    RowRoutes,
    any_over_ranks,
    max_over_ranks,
    raise_on_all_ranks,
    refuse_differing,
    sum_large,
    sum_over_ranks,
)
from thalweg.parallel.identity import Identified, identity_texts

#: Points that all ranks hold, to estimate what a scan will cost.
SAMPLE = 384

#: Bytes of rows that a rank receives of another at a time.
PIECE = 4e6

#: Largest entry of a map, so that squares of images are finite.
LARGEST_COMPONENT = 1e100


class SecantSet(Identified):
    """The secants of a set of points whose rows are distributed over the ranks.

    Parameters
    ----------
    points
        This rank's points, shape ``(n_local, dimension)``; kept as uint8 or
        float32 if that is what they are (or small integers), else as float64.  A sparse
        matrix of SciPy stays sparse.
        Where single precision could not hold their squares they are multiplied by
        a power of two, which changes no distortion.
    layout
        Distribution of the points over the ranks; only its rows are used.
    labels
        Class of every point, on every rank, shape ``(n,)``: only pairs within a
        class are secants then.
    neighbors
        Neighbors of this rank's points, global numbers, shape ``(n_local, k)``:
        only these pairs are secants then.
    pairs
        Pairs of global numbers, shape ``(m, 2)``, equal on all ranks: only these are secants
        then.
    weights
        Weights of these pairs, shape ``(m,)``, above 0 and at most 1: distortions are
        multiplied by them.  Of a pair that is given twice the larger counts.
    threads
        Threads of this rank; by default those that Numba may use.

    Raises
    ------
    InputError
        A number that is not finite, or fewer than two distinct points.

    Notes
    -----
    All methods are collective.  The last complete scan is kept: asking for the
    delta of the same map again costs nothing, nor that of the map given to
    :meth:`remember`.  :meth:`forget` drops both.
    """

    def __init__(
        self,
        points: Any,
        layout: Layout,
        labels: np.ndarray | None = None,
        neighbors: np.ndarray | None = None,
        threads: int | None = None,
        pairs: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        #: This rank's points, an array or sparse rows.
        self.points: np.ndarray | SparseRows
        if scipy.sparse.issparse(points):
            rows = SparseRows.of(points, layout)
            self.points = rows.with_entries(rescaled_points(rows.entries, layout))
        else:
            with raise_on_all_ranks(layout.comm):
                points = exact_points(points)
            self.points = rescaled_points(points, layout)
        self.comm = layout.comm
        self.dimension = self.points.shape[1]
        self.layout = layout.with_columns(self.dimension)
        self._threads = threads
        self._labels: np.ndarray | None = None
        if labels is not None:
            with raise_on_all_ranks(layout.comm):
                if len(labels) != layout.rows:
                    raise InputError(
                        f"there are {len(labels)} labels for {layout.rows} points; give one per "
                        "point"
                    )
                self._labels = np.unique(labels, return_inverse=True)[1].astype(np.int32).ravel()
        #: Which pairs are secants.
        self.kind = "all" if labels is None else "within-class"
        self._listed: np.ndarray | None = None
        self._weights: np.ndarray | None = None
        if weights is not None and pairs is None:
            raise InputError("weights are those of listed pairs; give the pairs too")
        if pairs is not None:
            self.kind = "pairs" if weights is None else "weighted pairs"
            with raise_on_all_ranks(layout.comm):
                pairs, weights = checked_pairs(pairs, weights, layout)
            refuse_differing(layout.comm, "the pairs or their weights", pairs, weights)
            share = slice(self.comm.rank, None, self.comm.size)
            pairs, weights = pairs[share], None if weights is None else weights[share]
        elif neighbors is not None:
            self.kind = "neighbors"
            pairs = neighbor_pairs(self.layout, neighbors)
        if pairs is not None:
            self._keys, self._listed, self._weights = listed_pairs(self.layout, pairs, weights)
        self._prepare()

    def _prepare(self) -> None:
        self.__dict__.pop("digest", None)  # of a set of which this is a part
        self._last: tuple[bytes, Scan] | None = None
        self._remembered: tuple[bytes, Scan] | None = None
        #: Images under the map whose scan goes on with a further part.
        self._mapped: tuple[bytes, np.ndarray, np.ndarray, np.ndarray] | None = None
        self._split: SplitPoints | None = None
        self._split_key: tuple[int, float] | None = None
        self._split_choice = (0, 0)
        _, sampled = self.sample(SAMPLE if self.dimension <= LARGE_DIMENSION else 2 * SAMPLE)
        self._frame = PrincipalFrame(self.points, self.layout, sampled)
        if self.layout.rows < 2 or not self._any_distinct():
            among = {
                "all": f"the {self.layout.rows} points",
                "within-class": "the points of a class",
            }
            raise InputError(
                f"no two of {among.get(self.kind, 'the points that are paired')} differ; "
                "give at least two distinct points"
            )

    def subset(self, stride: int) -> SecantSet:
        """The secants among the points whose numbers are multiples of ``stride``.  Collective.

        Point k of the subset is point ``stride * k`` of this set; units are the same.

        Raises
        ------
        InputError
            The secants are listed pairs, or no two of these points differ.
        """
        if self.listed:
            raise InputError("listed secants have no subsets by points; use them all")
        part = copy.copy(self)
        chosen = np.arange(-self.layout.start % stride, self.layout.local_rows, stride)
        rows = -(-self.n_points // stride)
        part.layout = Layout(self.comm, rows, self.dimension, local_rows=len(chosen))
        if isinstance(self.points, SparseRows):
            part.points = self.points.part(chosen)
        else:
            part.points = np.ascontiguousarray(self.points[chosen])
        if self._labels is not None:
            part._labels = self._labels[::stride]
        part._prepare()
        return part

    # -- facts about the set ---------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """The points, and which pairs are secants."""
        listed = self._listed is not None and (self._keys, self._weights)
        return {"points": self.points, "labels": self._labels, "listed": listed}

    @functools.cached_property
    def digest(self) -> str:
        """Digest of :meth:`identity`, the same at any number of ranks.  Collective."""
        texts, _ = identity_texts(self.comm, {"layout": self.layout, "set": self})
        return hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]

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

    def counting(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Which pairs of these global numbers count, shape ``(len(rows), len(columns))``.

        Coincident points are not told apart here.
        """
        counts = rows[:, None] != columns
        if self._labels is not None:
            counts &= self._labels[rows][:, None] == self._labels[columns]
        if self._listed is not None:
            low = np.minimum(rows[:, None], columns)
            keys = low * self.n_points + np.maximum(rows[:, None], columns)
            counts &= self._keys[self._places_of(keys)] == keys
        return np.asarray(counts)

    @property
    def listed_pairs(self) -> np.ndarray:
        """Listed pairs i < j of global numbers of which i is this rank's, shape ``(m, 2)``."""
        assert self._listed is not None
        return self._listed

    def _places_of(self, keys: np.ndarray) -> np.ndarray:
        return np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)

    @property
    def weighted(self) -> bool:
        """Whether listed pairs have weights."""
        return self._weights is not None

    def weights_of(self, pairs: np.ndarray) -> np.ndarray:
        """Weights of listed pairs i < j of global numbers, shape ``(..., 2)``; 1 without any."""
        if self._weights is None:
            return np.ones(pairs.shape[:-1])
        keys = pairs[..., 0] * self.n_points + pairs[..., 1]
        return np.asarray(self._weights[self._places_of(keys)])

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

    def wanted_rows(self, numbers: np.ndarray) -> np.ndarray:
        """The points that this rank wants, by global numbers in any order, float64."""
        routes = RowRoutes(self.comm, self.layout.owners(numbers))
        asked = routes.deliver(numbers) - self.layout.start
        rows = np.empty((len(numbers), self.dimension))
        rows[routes.rows] = routes.give_back(np.asarray(self.points[asked], dtype=float))
        return rows

    def images(self, components: np.ndarray) -> np.ndarray:
        """``(points - mean) @ components.T`` of this rank's points, float64.

        The same bits at any number of ranks.
        """
        components = np.ascontiguousarray(components, dtype=float)
        images = np.empty((len(self.points), len(components)))
        blocks = row_blocks(*self.points.shape) if self.sparse else [slice(0, len(images))]
        with ThreadPoolExecutor(max(1, self.threads)) as pool:
            for block in blocks:
                points, out = self.points[block], images[block]
                parts = np.linspace(0, len(out), max(1, self.threads) + 1).astype(int)
                jobs = [
                    pool.submit(kernels.map_rows, points[a:b], self.mean, components, out[a:b])
                    for a, b in itertools.pairwise(parts)
                    if a < b
                ]
                for job in jobs:
                    job.result()
        return images

    @property
    def sparse(self) -> bool:
        """Whether the points are sparse rows."""
        return isinstance(self.points, SparseRows)

    @property
    def _exact(self) -> np.ndarray:
        return self.points.packed if isinstance(self.points, SparseRows) else self.points

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
        blocks = row_blocks(*self.points.shape)
        differ = any(bool((self.points[block] != first).any()) for block in blocks)
        return any_over_ranks(self.comm, differ)

    # -- the scan --------------------------------------------------------------------------

    def scan(
        self,
        components: np.ndarray,
        threshold: float = np.inf,
        max_pairs: int = 0,
        per_row: int = 3,
        fraction: float = 1.0,
        seed: int = 0,
        n_leading: int | None = None,
        n_further: int = 0,
        progress: Callable[[int], None] | None = None,
        part: tuple[int, int] = (0, 1),
        first: int = 0,
        before: Scan | None = None,
        share: bool = False,
    ) -> Scan:
        """Bound or measure every secant, or a sample, and keep the worst.

        Parameters
        ----------
        components
            Psi, shape ``(rank, dimension)``, equal on all ranks.
        threshold
            Least distortion, in absolute value, of the pairs that are kept.
        max_pairs
            At most so many pairs are kept.
        per_row
            Of each point's pairs with the later points of one tile, at most so
            many are kept: a spread of violators says more than a cluster.
        fraction
            Share of the tiles that is scanned, the same tiles at any number of
            ranks.
        seed
            Chooses the tiles.
        n_leading
            Coordinates in the tiles' products, the others being bounded by their
            norms; None chooses by cost, 0 means all.
        n_further
            Further coordinates for the pairs that the leading ones leave undecided; with
            ``n_leading=None`` they are chosen as well.
        progress
            Called on every rank with the number of pairs that it has just done.
        part
            Number of a part, from 0, and how many parts the tiles are scanned in, one a call,
            so that work can be saved in between.  After the last part the scan is the same as
            that in one part.
        first
            Where among the tiles part 0 begins, the same for all parts: a scan may so go on
            where that of another map ended.
        before
            What the scan of the part before returned.
        share
            Whether each rank gets some of the worst pairs, not every rank all of them.

        Raises
        ------
        InputError
            Components of another width than the points, or not finite; parts of listed secants.
        """
        components = checked_components(components, self.dimension)
        key = components.tobytes()
        for known in (self._last, self._remembered) if max_pairs == 0 else ():
            if known is not None and known[0] == key:
                return known[1]
        last_part = part[0] == part[1] - 1
        if self._listed is not None:
            if part[1] > 1:
                raise InputError("listed secants are scanned in one part")
            scan = self._scan_listed(components, threshold, max_pairs, progress, share)
            self._last = (key, scan)
            return scan
        if n_leading is None:
            n_leading, n_further = self._cheapest_split(components, threshold)
        split = self._split_points(n_leading, n_further)
        accuracy = Accuracy.of(components)
        if self._mapped is None or self._mapped[0] != key:
            images = self.images(components)
            self._mapped = (key, images, *image_bounds(images, self._frame, accuracy))
        _, images, single, mapped_bounds = self._mapped
        if last_part:
            self._mapped = None
        bounds = np.concatenate([split.bounds, mapped_bounds, split.further_bounds], axis=1)
        sizes = self._frame.centered_sizes
        arrays = (self._exact, sizes, images, split.leading, single, bounds, split.further)
        ranks = self.comm.size
        keeper = WorstSecants(threshold, max_pairs, per_row, accuracy, self.sparse, ranks)
        if before is not None:
            keeper.go_on_from(before, self.comm.rank == 0, share)
        chosen = TileChoice(fraction, seed, self.n_points, part, first)
        labeled = self._labels is not None
        labels = self._labels if labeled else np.zeros(self.n_points, dtype=np.int32)
        assert labels is not None
        mine: Block | None = None
        row_bytes = sum(array.nbytes for array in arrays) / max(1, len(images))
        largest = max_over_ranks(self.comm, row_bytes) * self.layout.counts().max()
        pieces = int(np.clip(largest / PIECE, 1, 16)) if self.comm.size > 1 else 1

        def work(low: Block, high: Block, tile: Edges, workspace: Workspace) -> int:
            return keeper.tile(components, low, high, tile, labeled, workspace)

        with TilePool(self.threads) as pool:
            for block in Ring(self.layout).blocks(*arrays, each_pair_once=True, pieces=pieces):
                other = Block(block.start, block.arrays, labels)
                mine = other if mine is None else mine  # a rank's own block comes first
                own = mine.part(block.rows)
                low, high = (own, other) if own.start < other.start else (other, own)
                if block.own:
                    low = high = own
                tiles = [(low, high, t) for t in tiles_of(low, high, chosen, block.own)]
                pool.run(tiles, work, block.poll, progress)
        complete = fraction >= 1.0 and last_part
        scan = keeper.finish(self.layout, split.n_leading, complete, self.n_pairs, share)
        if scan.complete:
            self._last = (key, scan)
        return scan

    def remember(self, components: np.ndarray, scan: Scan) -> None:
        """Keep a complete scan of this map, in place of the one that was given before."""
        self._remembered = (checked_components(components, self.dimension).tobytes(), scan)

    def forget(self) -> None:
        """Drop the scans that are kept, so that the next one is done even for the same map."""
        self._last = self._remembered = None

    def _cheapest_split(self, components: np.ndarray, threshold: float) -> tuple[int, int]:
        if self.dimension < 64 or self.n_points < 2 * TILE:
            return self.dimension, 0
        # What a choice depends on but little: chosen again only if that changes.
        key = (len(components), round(min(threshold, 1e3), 2))
        if key != self._split_key:
            present = (0, 0)
            if self._split is not None:
                present = (self._split.n_leading, self._split.further.shape[1])
            chosen = cheapest_split(self._frame, components, threshold, present)
            self._split_choice = self.comm.bcast(chosen)
            self._split_key = key
        return self._split_choice

    def _split_points(self, n_leading: int, n_further: int) -> SplitPoints:
        if n_leading <= 0 or n_leading > len(self.directions):
            n_leading = self.dimension
        present = None if self._split is None else self._split.further.shape[1]
        if self._split is None or (self._split.n_leading, present) != (n_leading, n_further):
            self._split = split_points(self.points, self._frame, n_leading, n_further)
        return self._split

    def _scan_listed(
        self,
        components: np.ndarray,
        threshold: float,
        max_pairs: int,
        progress: Callable[[int], None] | None,
        share: bool,
    ) -> Scan:
        assert self._listed is not None
        images = self.images(components)
        first, second = self._listed.T
        accuracy = Accuracy.of(components)
        keeper = WorstSecants(threshold, max_pairs, 0, accuracy, ranks=self.comm.size)
        for block in Ring(self.layout).blocks(self._exact, self._frame.centered_sizes, images):
            here = (second >= block.start) & (second < block.stop)
            i = first[here]
            j = second[here]
            lengths, mapped = np.empty(len(i)), np.empty(len(i))
            points, sizes, other_images = block.arrays
            kernels.measure_pairs(
                i - self.layout.start, j - block.start, self._exact, points,
                self._frame.centered_sizes, sizes, images, other_images, components,
                accuracy.close, self.sparse, lengths, mapped,
            )  # fmt: skip
            weights = self.weights_of(np.stack([i, j], axis=1)) if self.weighted else None
            keeper.listed(i, j, lengths, mapped, weights)
            if progress is not None:
                progress(len(i))
        return keeper.finish(self.layout, self.dimension, True, self._listed_total, share)

    @property
    def _listed_total(self) -> int:
        assert self._listed is not None
        return int(sum_over_ranks(self.comm, len(self._listed)))


def rescaled_points(points: np.ndarray, layout: Layout) -> np.ndarray:
    """The points times a power of two, if single precision could not hold their squares.

    Collective.

    Raises
    ------
    InputError
        An entry would vanish beside the largest.
    """
    largest = 0.0
    if points.dtype.kind == "f":
        largest = max(float(points.max(initial=0.0)), -float(points.min(initial=0.0)))
    largest = max_over_ranks(layout.comm, largest)
    if largest == 0.0 or 1e-9 < largest < 1e9:
        return points
    exponent = math.frexp(largest)[1]
    with raise_on_all_ranks(layout.comm):
        scaled = np.asarray(np.ldexp(points.astype(float), -exponent))
        if not np.array_equal(np.ldexp(scaled, exponent), points):
            raise InputError(
                f"the points hold numbers from nearly 0 to {largest:.3g}, more than float64 can "
                "scale without loss; round the small ones to 0"
            )
    return scaled


def exact_points(points: np.ndarray) -> np.ndarray:
    """The points without loss, contiguous: as they are if uint8, else float32 if they fit."""
    if points.ndim != 2:
        raise InputError(f"the points must be a table of rows, not of {points.ndim} dimensions")
    if points.dtype == np.uint8:
        return np.ascontiguousarray(points)  # images: a quarter of the memory and messages
    if points.dtype.kind in "iub" and points.dtype.itemsize <= 2:
        points = points.astype(np.float32)  # integers up to 2^24 are exact
    elif points.dtype.kind not in "fiub":
        raise InputError(f"the points hold {points.dtype}, not real numbers")
    elif points.dtype not in (np.float32, np.float64):
        given, points = points, points.astype(np.float32 if points.itemsize == 2 else np.float64)
        with np.errstate(invalid="ignore"):
            exact = points.astype(given.dtype) == given
        if not (exact | ~np.isfinite(points)).all():
            raise InputError(
                f"the points hold {given.dtype} that float64 cannot hold without loss; round them"
            )
    if not np.isfinite(points).all():
        raise InputError("the points hold a number that is not finite; remove NaN and infinity")
    return np.ascontiguousarray(points)


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
    largest = float(np.abs(components).max(initial=0.0))
    if largest > LARGEST_COMPONENT:
        raise InputError(f"the components hold {largest:.3g}; scale them, to 1e100 at most")
    return components


def checked_pairs(
    pairs: np.ndarray, weights: np.ndarray | None, layout: Layout
) -> tuple[np.ndarray, np.ndarray | None]:
    """Pairs of numbers of points, shape ``(m, 2)``, and their weights, shape ``(m,)``.

    Raises
    ------
    InputError
        Another shape, numbers that are no points', or weights outside (0, 1].
    """
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"the pairs must be integers in two columns, not {pairs.dtype} of shape {pairs.shape}"
        )
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < layout.rows):
        wrong = pairs.min() if pairs.min() < 0 else pairs.max()
        raise InputError(
            f"the pairs must be numbers of the {layout.rows} points, from 0 on, not {wrong}"
        )
    if weights is not None:
        weights = np.asarray(weights, dtype=float)
        if weights.shape != (len(pairs),):
            raise InputError(
                f"there must be a weight for each of {len(pairs)} pairs, not weights of shape "
                f"{weights.shape}"
            )
        good = (weights > 0.0) & (weights <= 1.0)
        if not good.all():
            raise InputError(
                "the weights of pairs must be above 0 and at most 1, "
                f"not {weights[~good][0]}; divide them by the largest"
            )
    return pairs.astype(np.int64), weights


def neighbor_pairs(layout: Layout, neighbors: np.ndarray) -> np.ndarray:
    """The pairs of this rank's points, by global numbers, with their neighbors."""
    first = np.repeat(np.arange(layout.start, layout.stop), neighbors.shape[1])
    return np.stack([first, neighbors.astype(np.int64).ravel()], axis=1)


def listed_pairs(
    layout: Layout, pairs: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Distinct pairs i < j out of those of all ranks.

    Returns the sorted keys ``i * n + j`` of all pairs, on every rank, the pairs (i, j) whose i
    is this rank's, and the weights of the keys.
    """
    pairs = np.sort(pairs, axis=1)
    distinct = pairs[:, 0] != pairs[:, 1]
    pairs = pairs[distinct]
    given = np.concatenate(layout.comm.allgather(pairs[:, 0] * layout.rows + pairs[:, 1]))
    if weights is None:
        keys = np.unique(given)
    else:
        keys, at = np.unique(given, return_inverse=True)
        largest = np.zeros(len(keys))
        np.maximum.at(largest, at, np.concatenate(layout.comm.allgather(weights[distinct])))
        weights = largest
    i, j = np.divmod(keys, max(1, layout.rows))
    mine = (i >= layout.start) & (i < layout.stop)
    return keys, np.stack([i[mine], j[mine]], axis=1), weights
