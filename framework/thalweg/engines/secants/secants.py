"""The secant oracle: how far a linear map is from an isometry on a set of points.

A secant is the direction between two points.  For a map Psi the distortion of the pair (i, j) is
``||Psi (x_i - x_j)||^2 / ||x_i - x_j||^2 - 1``, and Psi's isometry constant delta is the largest
distortion in absolute value.  :class:`SecantSet` finds it, and the worst pairs, over all pairs,
without ever storing them: a tile of pairs costs two matrix products in single precision and one
pass of bounds (:mod:`~thalweg.engines.secants.secant_bounds`).  Only the few pairs that may matter
are measured in float64, in an order of summation that does not depend on the ranks.

>>> import numpy as np
>>> from thalweg.parallel import MPI, Layout
>>> points = np.random.default_rng(0).standard_normal((500, 20))
>>> secants = SecantSet(points, Layout(MPI.COMM_SELF, 500, 20))
>>> scan = secants.scan(np.eye(12, 20), threshold=0.5, max_pairs=100)
>>> scan.delta >= abs(scan.distortions[0]) >= scan.delta_lower
True
"""

import copy
import functools
import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse

from thalweg.engines.secants import secant_kernels as kernels
from thalweg.engines.secants.frame import LARGE_DIMENSION, PrincipalFrame, row_blocks
from thalweg.engines.secants.points import (
    PairList,
    SparseRows,
    checked_components,
    exact_points,
    rescaled_points,
)
from thalweg.engines.secants.secant_bounds import Accuracy
from thalweg.engines.secants.secant_tiles import Scan, ScanOptions
from thalweg.engines.secants.tile_scans import TileScans
from thalweg.engines.secants.worst_secants import WorstSecants
from thalweg.errors import InputError
from thalweg.parallel import (
    Layout,
    Ring,
    any_over_ranks,
    raise_on_all_ranks,
    run_on_threads,
    sum_large,
)
from thalweg.parallel.identity import Identified, identity_texts

#: Points that all ranks hold, to estimate what a scan will cost; chosen by hand.
SAMPLE = 384

#: Points that a thread maps at a time; chosen by hand.
MAPPED = 256


class SecantSet(Identified):
    """The secants of a set of points whose rows are distributed over the ranks.

    Parameters
    ----------
    points
        This rank's points, shape ``(n_local, dimension)``; kept as uint8 or
        float32 if that is what they are (or small integers), else as float64.  A sparse
        matrix of SciPy stays sparse.  Where single precision could not hold their squares they
        are multiplied by a power of two, which changes no distortion.
    layout
        Distribution of the points over the ranks; only its rows are used.
    labels
        Class of every point, on every rank, shape ``(n,)``: only pairs within a
        class are secants then.
    neighbors
        Neighbors of this rank's points, global numbers, shape ``(n_local, k)``:
        only these pairs are secants then.
    pairs
        Pairs of global numbers, shape ``(m, 2)``, equal on all ranks: only these are secants then.
    weights
        Weights of these pairs, shape ``(m,)``, above 0 and at most 1: distortions are
        multiplied by them.  Of a pair that is given twice the larger counts.

    Raises
    ------
    InputError
        A number that is not finite, or fewer than two distinct points.

    Notes
    -----
    All methods are collective.  The last complete scan is kept: asking for the delta of the same
    map again costs nothing, nor that of the map given to :meth:`remember`.
    """

    def __init__(
        self,
        points: Any,
        layout: Layout,
        labels: np.ndarray | None = None,
        neighbors: np.ndarray | None = None,
        pairs: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        #: This rank's points, an array or sparse rows.
        self.points: np.ndarray | SparseRows
        if scipy.sparse.issparse(points):
            self.points = SparseRows.of(points, layout)
        else:
            with raise_on_all_ranks(layout.comm):
                points = exact_points(points)
            self.points = rescaled_points(points, layout)
        self.comm = layout.comm
        self.dimension = self.points.shape[1]
        self.layout = layout.with_columns(self.dimension)
        #: Class of every point as a small number, or None if classes do not matter.
        self.labels: np.ndarray | None = None
        if labels is not None:
            with raise_on_all_ranks(layout.comm):
                if len(labels) != layout.rows:
                    raise InputError(
                        f"{layout.rows} points have {len(labels)} labels; give one each"
                    )
                self.labels = np.unique(labels, return_inverse=True)[1].astype(np.int32).ravel()
        #: Which pairs are secants.
        self.kind = "all" if labels is None else "within-class"
        #: Pairs in place of all, or None.
        self.listed: PairList | None = None
        if weights is not None and pairs is None:
            raise InputError("weights are those of listed pairs; give the pairs too")
        if pairs is not None:
            self.kind = "pairs" if weights is None else "weighted pairs"
            self.listed = PairList.given(self.layout, pairs, weights)
        elif neighbors is not None:
            self.kind = "neighbors"
            self.listed = PairList.between(self.layout, neighbors)
        self._prepare()

    def _prepare(self) -> None:
        self.__dict__.pop("digest", None)  # of a set of which this is a part
        #: Number of points on all ranks together.
        self.n_points = self.layout.rows
        self._last: tuple[bytes, Scan] | None = None
        self._remembered: tuple[bytes, Scan] | None = None
        _, sampled = self.sample(SAMPLE if self.dimension <= LARGE_DIMENSION else 2 * SAMPLE)
        self._frame = frame = PrincipalFrame(self.points, self.layout, sampled)
        #: About the mean point, shape ``(dimension,)``, equal on all ranks.
        self.mean = frame.mean
        #: Leading principal directions as rows, shape ``(k, dimension)``, orthonormal.
        self.directions = frame.directions
        #: Variances along them, largest first, times the number of points.
        self.spread = frame.variances
        self._tiles = TileScans(self, frame)
        if self.layout.rows < 2 or not self._has_distinct_points():
            among = {"all": f"the {self.n_points} points", "within-class": "the points of a class"}
            which = among.get(self.kind, "the points that are paired")
            raise InputError(f"no two of {which} differ; give at least two distinct points")

    def subset(self, stride: int) -> Self:
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
        if self.labels is not None:
            part.labels = self.labels[::stride]
        part._prepare()
        return part

    def identity(self) -> dict[str, Any]:
        """The points, and which pairs are secants."""
        pairs = self.listed is not None and (self.listed.keys, self.listed.weights)
        return {"points": self.points, "labels": self.labels, "listed": pairs}

    @functools.cached_property
    def digest(self) -> str:
        """Digest of :meth:`identity`, the same at any number of ranks.  Collective."""
        texts, _ = identity_texts(self.comm, {"layout": self.layout, "set": self})
        return hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]

    @property
    def weighted(self) -> bool:
        """Whether listed pairs have weights."""
        return self.listed is not None and self.listed.weights is not None

    def weights_of(self, pairs: np.ndarray) -> np.ndarray | None:
        """Weights of listed pairs i < j of global numbers, shape ``(m, 2)``; None without any."""
        return None if self.listed is None else self.listed.weights_of(pairs)

    @property
    def n_pairs(self) -> int:
        """Pairs of points that count, coincident ones included."""
        if self.listed is not None:
            return len(self.listed.keys)
        if self.labels is not None:
            sizes = np.bincount(self.labels).astype(np.int64)
            return int((sizes * (sizes - 1) // 2).sum())
        return self.n_points * (self.n_points - 1) // 2

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
        """``(points - mean) @ components.T`` of this rank's points, float64.

        The same bits at any number of ranks.
        """
        components = np.ascontiguousarray(components, dtype=float)
        images = np.empty((len(self.points), len(components)))

        def map_some(first: int) -> None:
            some = slice(first, first + MAPPED)
            kernels.map_rows(self.points[some], self.mean, components, images[some])

        run_on_threads(map_some, list(range(0, len(images), MAPPED)))
        return images

    @property
    def sparse(self) -> bool:
        """Whether the points are sparse rows."""
        return isinstance(self.points, SparseRows)

    @property
    def stored_rows(self) -> np.ndarray:
        """This rank's points as one array, sparse rows packed."""
        return self.points.packed if isinstance(self.points, SparseRows) else self.points

    def _has_distinct_points(self) -> bool:
        if self.labels is not None:  # among some points of a class, mostly, which saves a scan
            numbers, points = self.sample(SAMPLE)
            order = np.argsort(self.labels[numbers], kind="stable")
            alike = np.diff(self.labels[numbers][order]) == 0
            if (np.diff(points[order], axis=0)[alike] != 0).any():
                return True
        if self.kind != "all":
            return self.n_pairs > 0 and self.scan(np.zeros((1, self.dimension))).n_secants > 0
        first = self.rows_of(np.zeros(1, dtype=np.int64))[0]
        blocks = row_blocks(*self.points.shape)
        differ = any(bool((self.points[block] != first).any()) for block in blocks)
        return any_over_ranks(self.comm, differ)

    def scan(
        self,
        components: np.ndarray,
        threshold: float = np.inf,
        max_pairs: int = 0,
        *,
        progress: Callable[[int], None] | None = None,
        before: Scan | None = None,
        **options: Any,
    ) -> Scan:
        """Bound or measure every secant, or a sample, and keep the worst.

        Parameters
        ----------
        components
            Psi, shape ``(rank, dimension)``, equal on all ranks.
        threshold, max_pairs
            Least distortion, in absolute value, and largest number of the pairs that are kept.
        progress
            Called on every rank with the number of pairs that it has just done.
        before
            What the scan of the part before returned.
        **options
            Further ones of :class:`~thalweg.engines.secants.secant_tiles.ScanOptions`.

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
        chosen = ScanOptions(threshold, max_pairs, **options)
        if self.listed is not None:
            scan = self._scan_listed(self.listed, components, chosen, progress)
        else:
            scan = self._tiles.scan(components, chosen, progress, before)
        if scan.complete:
            self._last = (key, scan)
        return scan

    def remember(self, components: np.ndarray, scan: Scan) -> None:
        """Keep a complete scan of this map, in place of the one that was given before."""
        self._remembered = (checked_components(components, self.dimension).tobytes(), scan)

    def _scan_listed(
        self,
        listed: PairList,
        components: np.ndarray,
        options: ScanOptions,
        progress: Callable[[int], None] | None,
    ) -> Scan:
        if options.part[1] > 1:
            raise InputError("listed secants are scanned in one part")
        images = self.images(components)
        first, second = listed.own.T
        accuracy = Accuracy.of(components)
        keeper = WorstSecants(replace(options, per_row=0), accuracy, ranks=self.comm.size)
        for block in Ring(self.layout).blocks(self.stored_rows, self._frame.centered_sizes, images):
            here = (second >= block.start) & (second < block.stop)
            i, j = first[here], second[here]
            lengths, mapped = np.empty(len(i)), np.empty(len(i))
            points, sizes, other_images = block.arrays
            kernels.measure_pairs(
                i - self.layout.start, j - block.start, self.stored_rows, points,
                self._frame.centered_sizes, sizes, images, other_images, components,
                accuracy.close, self.sparse, lengths, mapped,
            )  # fmt: skip
            keeper.listed(i, j, lengths, mapped, listed.weights_of(np.stack([i, j], axis=1)))
            if progress is not None:
                progress(len(i))
        return keeper.finish(self.layout, self.dimension, True, self.n_pairs)
