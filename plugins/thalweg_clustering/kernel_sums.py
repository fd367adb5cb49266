"""Sums of a kernel over all row pairs, streamed: nothing of size N squared is stored.

With a kernel function k of the squared distance, or of the inner product, of rows z, symmetric
weights of low rank and an optional directional derivative, one pass gives, for every row i,

    sum_j w_ij v_j   and   sum_j w_ij,
    w_ij = k(beta_ij) * (sum_c s_c p_ic p_jc) * tau_ij,

    beta_ij = |z_i - z_j|^2,   tau_ij = <z_i - z_j, t_i - t_j>,   or
    beta_ij = z_i'z_j,         tau_ij = z_i't_j + t_i'z_j.

Every unordered pair is computed once; what it gives to the other row travels back in one reduction
at the end.  The Gaussian kernel, exp(-beta / 2), is compiled; any other is a function of arrays,
evaluated on tiles that matrix products fill.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from thalweg.errors import InputError
from thalweg.numerics import squared_distances
from thalweg.parallel import Layout, Ring, run_on_threads, sum_over_ranks
from thalweg_clustering.gaussian_tiles import add_pairs, fill_tile

#: With more columns of values than this, tiles are stored and multiplied by BLAS.
MAX_COMPILED_COLUMNS = 24

#: Own and received rows of such a tile (4 MiB).
TILE_ROWS, TILE_COLUMNS = 256, 2048

#: Numbers of a block of rows and landmarks: in single precision it stays in a cache of 1 MiB.
BLOCK_SIZE = 1 << 18

#: Own and received arrays, whether only pairs i < j are met, sums of both, and what polls MPI.
Strip = tuple[list[np.ndarray], list[np.ndarray], bool, np.ndarray, np.ndarray, Callable[[], None]]


class KernelSums:
    """Weighted kernel sums over the rows of one layout, whatever its number of columns.

    ``function`` is k, from an array of beta to one of its shape, None the compiled Gaussian
    ``exp(-beta / 2)``; beta is the squared distance or, ``of`` a ``"product"``, the inner one.
    The compiled kernel treats a pair in ``dtype``: float32 is about twice as fast as float64, and
    leaves sums with a relative error of about 1e-6 of the sum of the absolute terms.
    """

    def __init__(
        self,
        layout: Layout,
        function: Callable[[np.ndarray], np.ndarray] | None = None,
        of: str = "distance",
        dtype: type[np.floating[Any]] = np.float64,
    ) -> None:
        if of not in ("distance", "product"):
            raise InputError(f"a kernel is a function of 'distance' or 'product', not {of!r}")
        self.layout = layout
        self.function, self.of = function, of
        self.dtype: np.dtype[Any] = np.dtype(dtype if function is None else np.float64)
        if function is None and of == "product":
            raise InputError("a kernel of the inner product needs its function")

    def sums(
        self,
        z: np.ndarray,
        values: np.ndarray | None = None,
        factor: np.ndarray | None = None,
        signs: np.ndarray | None = None,
        tangent: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Both sums for this rank's rows, the pair (i, i) included.  Collective.

        z, in units of the kernel's width, has shape ``(n_local, q)``; v, ``values``, ``(n_local,
        m)``, None where only the sums of weights are wanted; p and s, ``factor`` and ``signs``,
        ``(n_local, r)`` and ``(r,)``; t, ``tangent``, that of z.  Factors left out are 1.  Gives
        sums of shapes ``(n_local, m)`` and ``(n_local,)``.
        """
        own = self._own_weights(z, factor, signs, tangent)
        width = 0 if values is None else values.shape[1]
        values = np.zeros((len(z), 0)) if values is None else np.asarray(values, float)
        sums = np.concatenate([own[:, None] * values, own[:, None]], axis=1)
        add = self._adder(width)
        arrays = self._arrays(z, values, factor, tangent)
        own_arrays = [*arrays]
        if factor is not None and signs is not None:
            own_arrays[1] = np.array(arrays[1] * np.asarray(signs), self.dtype, order="C")
        sent = np.zeros_like(sums)
        for block in Ring(self.layout).blocks(*arrays, each_pair_once=True, contributions=sent):
            mine = [array[block.rows] for array in own_arrays]
            if not len(mine[0]) or block.start == block.stop:
                continue
            other = [np.array(array.T, order="C") for array in block.arrays]
            assert block.contributions is not None
            add((mine, other, block.own, sums[block.rows], block.contributions, block.poll))
        sums += sent
        return sums[:, :width], sums[:, width]

    def sums_with(
        self,
        z: np.ndarray,
        others: np.ndarray,
        values: np.ndarray,
        other_values: np.ndarray,
        factor: np.ndarray | None = None,
        other_factor: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums over all pairs of this rank's rows with ``l`` other rows, such as landmarks.

        Rows are as in :meth:`sums`, with weights ``sum_c p_ic p_lc``.  Gives ``sum_l w_il v_l`` for
        these rows and ``sum_i w_il v_i`` for the others, each with the sums of weights in a
        further, last column.  Without communication: sums over the rows of all ranks are left to
        the caller.
        """
        width = values.shape[1]
        own, target = np.zeros((len(z), width + 1)), np.zeros((len(others), width + 1))
        if own.size and target.size:
            mine = self._arrays(z, values, factor)
            theirs = self._arrays(others, other_values, other_factor)
            transposed = [np.array(array.T, order="C") for array in theirs]
            self._adder(width)((mine, transposed, False, own, target, lambda: None))
        return own, target

    def visit_blocks(
        self,
        z: np.ndarray,
        others: np.ndarray,
        work: Callable[[int, slice, np.ndarray], None],
        factor: np.ndarray | None = None,
        other_factor: np.ndarray | None = None,
        poll: Callable[[], None] = lambda: None,
    ) -> None:
        """Call ``work(thread, rows, weights)`` for rows of z, block by block.

        The weights, with all others and as in :meth:`sums_with`, are overwritten by a thread's next
        ones.  Threads are numbered; each takes the same blocks every time, in their order.
        """
        mine = self._arrays(z, factor=factor)[:3]
        theirs = self._arrays(others, factor=other_factor)[:3]
        transposed = [np.array(array.T, order="C") for array in theirs]
        size = min(max(1, BLOCK_SIZE // max(1, len(others))), max(1, len(z)))
        buffers = np.empty((numba.get_num_threads(), size, len(others)), self.dtype)

        def visit(thread: int, top: int) -> None:
            rows = slice(top, min(top + size, len(z)))
            tile = buffers[thread, : rows.stop - top]
            self._fill([np.array(array[rows], order="C") for array in mine], transposed, tile)
            work(thread, rows, tile)

        _share_out(range(0, len(z) if len(others) else 0, size), visit, poll)

    def _arrays(
        self,
        z: np.ndarray,
        values: np.ndarray | None = None,
        factor: np.ndarray | None = None,
        tangent: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Z, factors, tangents and values as the kernels want them."""

        def rows_of(array: np.ndarray | None) -> np.ndarray:
            block = np.zeros((len(z), 0)) if array is None else np.asarray(array)
            # Copies, since read-only arrays would be other types to compile the kernels for.
            return np.array(block if block.ndim == 2 else block[:, None], self.dtype, order="C")

        return [rows_of(array) for array in (z, factor, tangent, values)]

    def _adder(self, width: int) -> Callable[[Strip], None]:
        compiled = self.function is None and width <= MAX_COMPILED_COLUMNS
        return self._add_by_pairs if compiled else self._add_by_tiles

    def _own_weights(
        self,
        z: np.ndarray,
        factor: np.ndarray | None,
        signs: np.ndarray | None,
        tangent: np.ndarray | None,
    ) -> np.ndarray:
        """Weights of the pairs (i, i), in double precision."""
        count = self.layout.local_rows
        if self.of == "product":
            assert self.function is not None
            own = self.function(np.einsum("ij,ij->i", z, z))
            if tangent is not None:
                own = own * 2.0 * np.einsum("ij,ij->i", z, tangent)
        elif tangent is not None:
            return np.zeros(count)
        else:
            own = np.ones(count) if self.function is None else self.function(np.zeros(count))
        if factor is not None:
            scales = np.ones(factor.shape[1]) if signs is None else np.asarray(signs, float)
            own = own * np.einsum("ij,j,ij->i", factor, scales, factor)
        return np.asarray(own, dtype=float)

    def absolute_moment(
        self, z: np.ndarray, factor: np.ndarray, signs: np.ndarray, points: np.ndarray
    ) -> float:
        """Sum over ordered pairs of ``|w_ij| |x_i - x_j|^4``, Gaussian w as in :meth:`sums`.

        Collective; the same number on every rank.  ``points`` are this rank's rows x.
        """
        totals = np.zeros(numba.get_num_threads())

        def add(
            here: np.ndarray, there: np.ndarray, thread: int, rows: slice, tile: np.ndarray
        ) -> None:
            lengths = squared_distances(here[rows], there)
            totals[thread] += float((np.abs(tile) * lengths**2).sum())

        for block in Ring(self.layout).blocks(z, factor, points, each_pair_once=True):
            others, other_factor, other_points = block.arrays
            # A rank's own block has each of its pairs in both orders.
            mine = (1.0 if block.own else 2.0) * (factor * signs)[block.rows]
            work = functools.partial(add, points[block.rows], other_points)
            self.visit_blocks(z[block.rows], others, work, mine, other_factor, block.poll)
        return float(sum_over_ranks(self.layout.comm, float(totals.sum())))

    def _add_by_pairs(self, strip: Strip) -> None:
        mine, other, triangle, sums, target, poll = strip
        parts = np.zeros((numba.get_num_threads(), sums.shape[1], other[0].shape[1]))
        own = [np.array(array, order="C") for array in mine]
        add_pairs(tuple(own), tuple(other), triangle, sums, parts)
        poll()
        for part in parts:
            target += part.T

    def _add_by_tiles(self, strip: Strip) -> None:
        mine, other, triangle, sums, target, poll = strip
        columns, threads = sums.shape[1] - 1, numba.get_num_threads()
        count, received = len(mine[0]), other[0].shape[1]
        tiles = np.empty((threads, TILE_ROWS * TILE_COLUMNS), self.dtype)
        received_values = np.ascontiguousarray(other[3].T)
        parts = np.zeros((threads, *target.shape))

        def add(thread: int, low: int) -> None:
            high = min(low + TILE_ROWS, count)
            own = [np.array(part[low:high], order="C") for part in mine]
            start = low // TILE_COLUMNS * TILE_COLUMNS if triangle else 0
            for first in range(start, received, TILE_COLUMNS):
                last = min(first + TILE_COLUMNS, received)
                chunk = [np.array(part[:, first:last], order="C") for part in other[:3]]
                shape = high - low, last - first
                block = tiles[thread, : shape[0] * shape[1]].reshape(shape)
                self._fill(own[:3], chunk, block)
                if triangle and first < high:
                    block *= np.arange(first, last) > np.arange(low, high)[:, None]
                sums[low:high, :columns] += block @ received_values[first:last]
                sums[low:high, columns] += block.sum(axis=1)
                parts[thread, first:last, :columns] += block.T @ own[3]
                parts[thread, first:last, columns] += block.sum(axis=0)

        _share_out(range(0, count, TILE_ROWS), add, poll)
        target += parts.sum(axis=0)

    def _fill(self, mine: list[np.ndarray], other: list[np.ndarray], tile: np.ndarray) -> None:
        """Weights of all pairs of own with received rows; z, factors and tangents."""
        if self.function is None:
            fill_tile(tuple(mine), tuple(other), tile)
            return
        (own_z, own_factor, own_tangent), (z, factor, tangent) = mine, other
        np.matmul(own_z, z, out=tile)
        if self.of == "distance":
            tile *= -2.0
            tile += np.einsum("ij,ij->i", own_z, own_z)[:, None]
            tile += np.einsum("ij,ij->j", z, z)
            np.maximum(tile, 0.0, out=tile)
        tile[...] = self.function(tile)
        if own_factor.shape[1]:
            tile *= own_factor @ factor
        if own_tangent.shape[1]:
            turned = own_z @ tangent + own_tangent @ z
            if self.of == "distance":
                turned *= -1.0
                turned += np.einsum("ij,ij->i", own_z, own_tangent)[:, None]
                turned += np.einsum("ij,ij->j", z, tangent)
            tile *= turned


def _share_out(tops: range, work: Callable[[int, int], None], poll: Callable[[], None]) -> None:
    """Call ``work(thread, top)`` on threads: every so many-th top is always the same one's."""
    threads = numba.get_num_threads()

    def take(part: tuple[int, range]) -> None:
        for top in part[1]:
            work(part[0], top)

    run_on_threads(take, [(thread, tops[thread::threads]) for thread in range(threads)], poll)
