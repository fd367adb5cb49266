"""Exact nearest neighbors of distributed points, by tiles of matrix products.

Each pair of rows is looked at once, for both of its rows.  Products in single precision, of the
leading principal coordinates and of what is left of the norms, give a rigorous *lower bound* of
each distance, which rules nearly all pairs out; what is left is evaluated in double precision from
the coordinates' differences.  The answer is exact, and the same to the bit at any number of ranks
and threads.

Rows that lie together in space come to one rank and are taken together, and near parts first, so
that the lists of neighbors soon have nearly their final lengths, and few other pairs pass.
"""

import math
import threading
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.spatial

from thalweg.engines.neighbors import neighbor_kernels as kernels
from thalweg.errors import InputError, NumericalError
from thalweg.numerics import squared_distances
from thalweg.parallel import (
    Layout,
    RowRoutes,
    agreed,
    any_over_ranks,
    max_over_ranks,
    one_blas_thread,
    raise_on_all_ranks,
    run_on_threads,
    sum_over_ranks,
    swap_rows,
)
from thalweg.parallel.ring import Ring, RingBlock

#: Half a unit in the last place of single precision, relative.
_ROUNDING = 2.0**-24

#: Rows, and columns, of a tile: its products and points fit into a core's cache.
_BAND = 512

#: Bands that lie together in space, whose pairs come first and set limits for all others; by hand.
_GROUP = 4

#: Nanoseconds on one machine for a term of a product, and to measure a pair and each of its
#: coordinates: their ratios decide how many principal coordinates the products take.
_PRODUCT, _PAIR, _COORDINATE = 0.015, 15.0, 0.2

#: Rows whose principal directions are taken; queries and rows that try bounds; rows of which cuts
#: are quantiles, at least, and coordinates that they may cross; chosen by hand.
_SAMPLE, _QUERIES, _TRIED, _CUT, _AXES = 512, 64, 4096, 65536, 16


def nearest_neighbors(
    layout: Layout,
    values: np.ndarray,
    k: int,
    rows: np.ndarray | None = None,
    numbers: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` nearest other rows of each row, in Euclidean distance.  Collective.

    Parameters
    ----------
    layout
        Distribution of the rows, of which there are N; its columns have no meaning here.
    values
        This rank's rows, shape ``(local_rows, d)``, float32 or float64.
    k
        Number of neighbors, from 1 to N - 1.
    rows
        Rows of this rank, counted from its first, whose neighbors are sought among all rows; by
        default each of them.
    numbers
        What this rank's rows are called, int64, from 0 to N - 1, each once; by default their
        places in the layout.  Given on all ranks, rows stay where they are during the search.

    Returns
    -------
    indices : ndarray of int64, shape (len(rows), k)
        Numbers of rows, nearest first.  A row is not its own neighbor, but another row with the
        same values is, at distance 0.  Among equal distances the lower row number comes first.
    squared_distances : ndarray of float64, shape (len(rows), k)
        Sums of squared differences in double precision.

    Raises
    ------
    InputError
        Fewer than ``k + 1`` rows, ``k < 1``, or values that are not finite.

    Notes
    -----
    With x and y centered, l their leading principal coordinates and t the norms of the others,
    ``|x - y|^2 / 2 >= |x|^2 / 2 + |y|^2 / 2 - l_x.l_y - t_x t_y``.  In single precision the right
    side, one product of r + 3 terms, is off by at most ``(r + c) u (|x|^2 + |y|^2)``, u the unit
    roundoff and c a small constant (the standard bound on inner products), which is taken off.
    """
    exact = _checked(layout, values, k)
    comm, names = layout.comm, np.arange(layout.start, layout.stop) if numbers is None else numbers
    frame, some = _Frame(layout, exact, k), any_over_ranks(comm, rows is not None)
    rows = np.arange(layout.local_rows) if some and rows is None else rows
    if some or numbers is not None or comm.size == 1 or layout.rows <= _BAND * _GROUP * comm.size:
        return _nearest(layout, frame, exact, names, k, rows)
    # Each rank then finds most neighbors among its own rows.
    routes = RowRoutes(comm, _parts_of_space(layout, frame.coordinates(exact)[:, :_AXES]))
    exact, names = routes.deliver(exact), routes.deliver(names)
    found = _nearest(Layout(comm, layout.rows, local_rows=len(exact)), frame, exact, names, k, None)
    return routes.give_back(found[0]), routes.give_back(found[1])


def _nearest(
    layout: Layout, frame: "_Frame", exact: np.ndarray, names: np.ndarray, k: int,
    rows: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Neighbors of some of this rank's rows, or of all, each pair looked at once.  Collective."""
    leading = frame.coordinates(exact)[:, :-3]
    order = spatial_order(leading, _BAND)
    points, numbers = those = exact[order], names[order]
    if rows is not None:
        order = spatial_order(leading[rows], _BAND)
        those = exact[rows[order]], names[rows[order]]
    del leading  # as wide as the rows, if these are few
    own = _Points(frame, *those, k)
    with one_blas_thread():
        for block in Ring(layout).blocks(points, numbers, each_pair_once=rows is None):
            if rows is not None:
                theirs = _Points(frame, block.arrays[0], block.arrays[1], 0)
                _search(own, theirs, slice(0, len(own.exact)), block.poll)
            elif block.own:
                _search(own, own, block.rows, block.poll)
            else:
                _visit(layout, own, frame, block)
    return own.sorted(order)


def _parts_of_space(layout: Layout, points: np.ndarray) -> np.ndarray:
    """A rank for each row, by cuts at quantiles of a sample across its widest axes.  Collective."""
    comm = layout.comm
    sample = layout.gather_some(points, layout.spread(max(_CUT, _SAMPLE * comm.size)))
    ranks = np.empty(len(points), dtype=np.int64)
    parts = [(np.arange(len(points)), sample, 0, comm.size)]
    while parts:
        rows, sample, first, count = parts.pop()
        ranks[rows] = first
        if count > 1 and len(sample):
            axis, half = sample.var(axis=0).argmax(), count // 2
            cut = np.quantile(sample[:, axis], half / count)
            low, low_sample = points[rows, axis] < cut, sample[:, axis] < cut
            parts.append((rows[low], sample[low_sample], first, half))
            parts.append((rows[~low], sample[~low_sample], first + half, count - half))
    counts = np.asarray(sum_over_ranks(comm, np.bincount(ranks, minlength=comm.size).astype(float)))
    # Parts of many equal rows are uneven.
    return ranks if counts.max() < 1.5 * counts.mean() else np.full_like(ranks, comm.rank)


def _checked(layout: Layout, values: np.ndarray, k: int) -> np.ndarray:
    """The rows, contiguous.  Collective."""
    if not 1 <= k < layout.rows:
        raise InputError(
            f"{k} nearest neighbors of each row need at least {max(k, 1) + 1} rows and a "
            f"number of at least 1; there are {layout.rows} rows"
        )
    # In single precision they take half the memory; differences are those of double precision.
    exact = np.ascontiguousarray(values, np.float32 if values.dtype == np.float32 else np.float64)
    with raise_on_all_ranks(layout.comm):
        wrong = np.flatnonzero(~np.isfinite(exact).all(axis=1))
        if len(wrong):
            raise InputError(f"row {layout.start + wrong[0]} has values that are not finite")
    return exact


class _Frame:
    """Coordinates in which products bound distances, the same on all ranks."""

    def __init__(self, layout: Layout, exact: np.ndarray, k: int) -> None:
        self.rows = layout.rows
        total = np.asarray(sum_over_ranks(layout.comm, exact.sum(axis=0, dtype=float)))
        self.center = total / layout.rows
        furthest = [exact.max(axis=0, initial=-np.inf) - self.center]
        furthest += [self.center - exact.min(axis=0, initial=np.inf)]
        largest = max_over_ranks(layout.comm, float(np.max(furthest, initial=0.0)))
        # A power of two: scaling is exact, and squares stay within single precision.
        self.scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0
        leading = self._leading(layout.gather_some(exact, layout.spread(_TRIED)), k / layout.rows)
        self.directions = agreed(layout.comm, leading)

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Leading coordinates, the norm of the others, half the squared norm, and 1."""
        return self.factor(rows, self.center, self.directions)

    def factor(
        self, rows: np.ndarray, center: np.ndarray, directions: np.ndarray | None = None
    ) -> np.ndarray:
        """Rows whose products with those of :func:`_opposite` bound half the squared distances."""
        columns = (rows.shape[1] if directions is None else len(directions)) + 1
        factor = np.ones((len(rows), columns + 2), dtype=np.float32)
        for top in range(0, len(rows), _BAND):  # of wide rows a copy in double precision is much
            band = slice(top, top + _BAND)
            centered = (rows[band] - center) * self.scale
            sizes = np.einsum("ij,ij->i", centered, centered)
            leading, rest = centered, np.zeros(len(centered))
            if directions is not None:
                leading = centered @ directions.T
                rest = sizes - np.einsum("ij,ij->i", leading, leading)
                rest = np.sqrt(np.maximum(rest, 0.0) + (rows.shape[1] + 12) * 2.0**-52 * sizes)
            factor[band, :-3], factor[band, -3] = leading, rest
            factor[band, -2] = (0.5 - _error(columns)) * sizes
        return factor

    def _leading(self, tried: np.ndarray, share: float) -> np.ndarray | None:
        """As many principal directions as make the search quickest; None for all coordinates.

        ``tried`` is a sample, and ``share`` that of a row's neighbors among all rows.
        """
        n, d = tried.shape
        if d <= 8 or n < 4 * _SAMPLE:
            return None
        tried = tried - self.center  # in double precision
        tried *= self.scale
        sample, queries = tried[:: -(-n // _SAMPLE)], tried[:: -(-n // _QUERIES)]
        if d <= len(sample):
            directions = scipy.linalg.eigh(sample.T @ sample)[1][:, ::-1].T
        else:
            values, vectors = scipy.linalg.eigh(sample @ sample.T)
            large = values > 1e-12 * values[-1]
            directions = ((vectors[:, large] / np.sqrt(values[large])).T @ sample)[::-1]
        squared = squared_distances(queries, tried)
        place = max(1, math.ceil(share * len(tried)))  # the query itself comes first
        limits = np.partition(squared, place, axis=1)[:, place : place + 1]
        directions = np.ascontiguousarray(directions)  # reversed, it is no matrix of BLAS
        images, others = queries @ directions.T, tried @ directions.T
        left = np.einsum("ij,ij->i", queries, queries), np.einsum("ij,ij->i", tried, tried)
        bounds, best, cost = np.zeros_like(squared), None, _PRODUCT * d
        counts = np.unique(np.geomspace(4, max(4, min(len(directions), d - 4)), 40).astype(int))
        for before, r in zip((0, *counts), counts, strict=False):
            one, other = images[:, before:r], others[:, before:r]
            bounds += squared_distances(one, other)
            left = left[0] - (one**2).sum(axis=1), left[1] - (other**2).sum(axis=1)
            rest = np.sqrt(np.maximum(left[0], 0.0))[:, None] - np.sqrt(np.maximum(left[1], 0.0))
            passing = np.mean(bounds + rest**2 <= limits)
            # A pair passes by either of its rows.
            now = _PRODUCT * r + 2.0 * passing * (_PAIR + _COORDINATE * d)
            if now < cost:
                best, cost = r, now
        return None if best is None else np.ascontiguousarray(directions[:best])


def _opposite(factor: np.ndarray) -> np.ndarray:
    opposite = np.empty(factor.shape[::-1], dtype=np.float32)
    np.negative(factor[:, :-2].T, out=opposite[:-2])
    opposite[-2], opposite[-1] = factor[:, -1], factor[:, -2]
    return opposite


def _error(columns: int) -> float:
    # Products and sums of columns + 2 terms, the rounding of both factors, with an allowance for
    # second-order terms and for those of double precision.
    return (columns + 12) * _ROUNDING * 1.01


def spatial_order(points: np.ndarray, size: int) -> np.ndarray:
    """An order of points in which each ``size`` of them, and most bands of more, lie together."""
    if len(points) <= size or not points.shape[1]:
        return np.arange(len(points))
    points = points[:, np.argsort(-points.var(axis=0), kind="stable")[:16]]
    parts, bands = [np.arange(len(points))], []
    while parts:
        part = parts.pop()
        if len(part) <= size:
            bands.append(part)
            continue
        axis = points[part].var(axis=0).argmax()
        half = size * (-(-len(part) // size) // 2)
        order = np.argpartition(points[part, axis], half)
        parts += [part[order[half:]], part[order[:half]]]
    return np.concatenate(bands)


class _Points:
    """Rows of a block, and a list of the ``k`` best pairs so far of each, none where ``k`` is 0.

    ``limits`` are the squared distances beyond which the owner of the rows needs no pairs.
    """

    def __init__(
        self,
        frame: _Frame,
        exact: np.ndarray,
        numbers: np.ndarray,
        k: int,
        limits: np.ndarray | None = None,
    ) -> None:
        self.frame, self.scale = frame, frame.scale
        self.exact, self.numbers, self.k = exact, numbers, k
        self.coordinates = frame.coordinates(exact)
        n, capacity = len(exact), min(k + max(8, k), frame.rows - 1) if k else 0
        self.pairs = np.empty((n, capacity, 2))
        self.counts = np.zeros(n, dtype=np.int64)
        self.limits = np.full(n, np.inf if k else -np.inf) if limits is None else limits.copy()
        scaled = 0.5 * self.limits * self.scale * self.scale
        self.thresholds = (scaled * (1.0 + 2.0**-20) + kernels.UNDERFLOW).astype(np.float32)

    @property
    def lists(self) -> tuple[np.ndarray, ...]:
        return self.pairs, self.counts, self.limits, self.thresholds

    def search_group(self, top: int) -> None:
        """Search all pairs of some bands from row ``top``, which lie together in space."""
        group = slice(top, top + _BAND * _GROUP)
        near = self.frame.factor(self.exact[group], self.exact[top].astype(float))  # means round
        tile = near @ _opposite(near)
        error = _error(near.shape[1] - 2)
        slack = 4.0 * error * float(near[:, -2].max()) / (0.5 - error) + kernels.UNDERFLOW
        kernels.bound_limits(tile, top, slack, self.k, self.scale, self.limits, self.thresholds)
        both = self.exact, self.numbers, *self.lists
        kernels.filter_tile(tile, top, top, True, self.k, self.scale, *both, *both)

    def shorten(self) -> None:
        """Lower the limits to the pairs known."""
        nothing = np.zeros_like(self.counts), np.empty((0, 2))

        def shorten(rows: tuple[int, int]) -> None:
            kernels.merge_lists(*nothing, *rows, self.k, self.scale, *self.lists)

        run_on_threads(shorten, self._parts())

    def sorted(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Indices and squared distances, nearest first, of rows that come in this order here."""
        self.shorten()
        if (self.counts < self.k).any():
            raise NumericalError(f"the search for {self.k} neighbors of each row ended with fewer")
        shape = len(self.pairs), self.k
        indices, squared = np.empty(shape, dtype=np.int64), np.empty(shape)

        def sort(rows: tuple[int, int]) -> None:
            pairs = np.ascontiguousarray(self.pairs[slice(*rows), : self.k]).view(complex)
            pairs = np.sort(pairs[:, :, 0], axis=1)  # by distance, then by index
            places = order[slice(*rows)]
            indices[places], squared[places] = pairs.imag, pairs.real

        run_on_threads(sort, self._parts())
        return indices, squared

    def _parts(self) -> list[tuple[int, int]]:
        n = len(self.exact)
        return [(top, min(top + _BAND, n)) for top in range(0, n, _BAND)]


def _bands(points: _Points, rows: slice) -> tuple[list[slice], np.ndarray, np.ndarray]:
    """Bands of some rows, and centers and radii of balls that hold the coordinates of each."""
    starts = range(rows.start, rows.stop, _BAND)
    bands = [slice(start, min(start + _BAND, rows.stop)) for start in starts]
    centers = np.empty((len(bands), points.coordinates.shape[1] - 2))
    radii = np.empty(len(bands))
    for number, band in enumerate(bands):
        inside = points.coordinates[band, :-2].astype(float)
        centers[number] = inside.mean(axis=0)
        radii[number] = np.sqrt(((inside - centers[number]) ** 2).sum(axis=1).max())
        # For coordinates in single precision.
        radii[number] += 2.0**-20 * np.sqrt((inside**2).sum(axis=1).max())
    return bands, centers, radii


def _visit(layout: Layout, own: _Points, frame: _Frame, block: RingBlock) -> None:
    """Search a block of another rank, and exchange what is found with those of its rows.

    Blocks go half-way around the ring.  A block comes with the limits of its rows, and what is
    found for them returns to their owner at the end of the step.
    """
    points, numbers = block.arrays

    def swap(sent: np.ndarray, received: np.ndarray, home: bool = True) -> np.ndarray:
        ends = (block.owner, block.holder) if home else (block.holder, block.owner)
        swap_rows(layout.comm, sent, ends[0], received, ends[1])
        return received

    limits = swap(own.limits[block.held], np.empty(len(points)), home=False)
    theirs = _Points(frame, points, numbers, own.k, limits)
    _search(own, theirs, block.rows, block.poll)
    packed = theirs.pairs[np.arange(theirs.pairs.shape[1]) < theirs.counts[:, None]]
    counts = np.zeros_like(own.counts)
    swap(theirs.counts, counts[block.held])
    pairs = swap(packed, np.empty((int(counts.sum()), 2)))
    kernels.merge_lists(counts, pairs, 0, len(counts), own.k, own.scale, *own.lists)


def _search(own: _Points, theirs: _Points, rows: slice, poll: Callable[[], None]) -> None:
    """Look at the pairs of some rows with the columns ``theirs``, or among the rows, each once."""
    ours = bands, centers, radii = _bands(own, rows)
    every = slice(0, len(theirs.exact))
    other_bands, other_centers, other_radii = ours if theirs is own else _bands(theirs, every)
    if not bands or not other_bands:
        return
    apart = scipy.spatial.distance.cdist(centers, other_centers)
    gaps = 0.5 * np.maximum(apart - radii[:, None] - other_radii, 0.0) ** 2
    buffers = threading.local()
    locks = [threading.Lock() for _ in bands]
    their_locks = locks if theirs is own else [threading.Lock() for _ in other_bands]

    def search_tile(pair: tuple[int, int]) -> None:
        a, b = pair
        band, columns = bands[a], other_bands[b]
        if gaps[a, b] > max(own.thresholds[band].max(), theirs.thresholds[columns].max()):
            return
        if not hasattr(buffers, "products"):
            buffers.products = np.empty(_BAND * _BAND, dtype=np.float32)
        shape = band.stop - band.start, columns.stop - columns.start
        tile = buffers.products[: shape[0] * shape[1]].reshape(shape)
        np.matmul(own.coordinates[band], right[:, columns], out=tile)
        with locks[a], their_locks[b]:
            kernels.filter_tile(
                tile, band.start, columns.start, False, own.k, own.scale, own.exact, own.numbers,
                *own.lists, theirs.exact, theirs.numbers, *theirs.lists,
            )  # fmt: skip

    a, b = np.divmod(np.arange(apart.size), apart.shape[1])
    if theirs is own:
        # These give limits for all others.
        run_on_threads(own.search_group, list(range(0, len(own.exact), _BAND * _GROUP)), poll)
        own.shorten()
        other_group = a // _GROUP < b // _GROUP
        a, b = a[other_group], b[other_group]
    right = _opposite(theirs.coordinates)
    near = np.argsort(apart[a, b], kind="stable")
    run_on_threads(search_tile, list(zip(a[near].tolist(), b[near].tolist(), strict=True)), poll)
