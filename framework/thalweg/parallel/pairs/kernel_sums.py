"""Sums of Gaussian kernels over all row pairs, streamed: nothing of size N squared is stored.

With k_ij = exp(-|z_i - z_j|^2 / 2), symmetric weights of low rank and an optional
directional derivative, one pass over the pairs gives, for every row i,

    sum_j w_ij v_j   and   sum_j w_ij,
    w_ij = k_ij * (sum_c s_c p_ic p_jc) * <z_i - z_j, t_i - t_j>.

Row sums, kernel products, the matrix of the Iterative Spectral Method and
Hessian products all are such sums.  Every unordered pair is computed once; what
it gives to the other row travels back in one reduction at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from thalweg.parallel.layout import Layout
from thalweg.parallel.pairs.gaussian_tiles import (
    add_absolute_moments,
    add_pairs,
    fill_tile,
)
from thalweg.parallel.pairs.ring import Ring
from thalweg.parallel.reductions import sum_over_ranks

#: With more value columns than this, tiles are stored and multiplied by BLAS.
WIDE = 24

#: With fewer pairs than this, waking other threads costs more than they save.
SMALL = 1 << 18

#: Own rows between two calls that let MPI move the next block.
POLL_ROWS = 8192

#: Own and visiting rows of such a tile (4 MiB).
TILE_ROWS, TILE_COLUMNS = 256, 2048


class KernelSums:
    """Weighted Gaussian kernel sums over the rows of one layout.

    Parameters
    ----------
    layout
        Distribution of the rows; its number of columns does not matter.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def sums(
        self,
        z: np.ndarray,
        values: np.ndarray | None = None,
        factor: np.ndarray | None = None,
        signs: np.ndarray | None = None,
        tangent: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Both sums for this rank's rows, the pair (i, i) included.  Collective.

        Parameters
        ----------
        z
            This rank's rows, in units of the kernel's width, shape ``(n_local, q)``.
        values
            v, shape ``(n_local, m)``; None where only the sums of weights are wanted.
        factor, signs
            p and s, shapes ``(n_local, r)`` and ``(r,)``; without them that factor is 1.
        tangent
            t, shape ``(n_local, q)``; without it that factor is 1.

        Returns
        -------
        weighted : ndarray, shape (n_local, m)
        totals : ndarray, shape (n_local,)
        """
        count = self.layout.local_rows
        z = np.ascontiguousarray(z, dtype=float)
        values = np.zeros((count, 0)) if values is None else np.ascontiguousarray(values, float)
        plain = factor is None
        factor = np.zeros((count, 0)) if factor is None else np.ascontiguousarray(factor, float)
        scales = np.ones(factor.shape[1]) if signs is None else np.asarray(signs, dtype=float)
        signed = np.ascontiguousarray(factor * scales)
        moving = np.zeros((count, 0)) if tangent is None else np.ascontiguousarray(tangent, float)

        columns = values.shape[1]
        sums = np.zeros((count, columns + 1))
        # The pair (i, i): k = 1; where a tangent is given, its difference vanishes.
        if tangent is None:
            own = np.ones(count) if plain else np.einsum("ij,ij->i", signed, factor)
            sums[:, :columns] = own[:, None] * values
            sums[:, columns] = own

        add = self._add_wide if columns > WIDE else self._add_narrow
        arrays = (z, factor, moving, values)
        own_arrays = (z, signed, moving, values)
        sent = np.zeros_like(sums)
        for block in Ring(self.layout).blocks(*arrays, each_pair_once=True, contributions=sent):
            mine = [array[block.rows] for array in own_arrays]
            if not len(mine[0]) or block.start == block.stop:
                continue
            # Copies, since read-only arrays would be other types to compile the kernels for.
            other = [np.array(array.T, order="C") for array in block.arrays]
            assert block.contributions is not None
            add(mine, other, block.own, sums[block.rows], block.contributions, block.poll)
        sums += sent
        return sums[:, :columns], sums[:, columns]

    def kernel_rows(self, z: np.ndarray) -> np.ndarray:
        """This rank's rows of the kernel matrix, for the few rows that allow storing it.

        Returns
        -------
        ndarray, shape (n_local, n)
        """
        whole = self.layout.gather_rows(np.ascontiguousarray(z, dtype=float))
        tile = np.empty((self.layout.local_rows, self.layout.rows))
        if tile.size:
            none, empty = np.zeros((len(z), 0)), np.zeros((0, len(whole)))
            other = np.ascontiguousarray(whole.T)
            threads = numba.get_num_threads()
            if tile.size < SMALL:
                numba.set_num_threads(1)
            fill_tile(np.array(z, float, order="C"), other, none, empty, none, empty, tile)
            numba.set_num_threads(threads)
        return tile

    def absolute_moment(
        self, z: np.ndarray, factor: np.ndarray, signs: np.ndarray, points: np.ndarray
    ) -> float:
        """Sum over ordered pairs of ``|w_ij| |x_i - x_j|^4``, with w as in :meth:`sums`.

        Collective; the same number on every rank.

        Parameters
        ----------
        points
            x, this rank's rows, shape ``(n_local, d)``.
        """
        z, factor = np.ascontiguousarray(z, float), np.ascontiguousarray(factor, float)
        points = np.ascontiguousarray(points, float)
        own_arrays = (z, np.ascontiguousarray(factor * signs), points)
        total = 0.0
        for block in Ring(self.layout).blocks(z, factor, points, each_pair_once=True):
            mine = [np.array(array[block.rows], order="C") for array in own_arrays]
            if not len(mine[0]) or block.start == block.stop:
                continue
            other = [np.array(array.T, order="C") for array in block.arrays]
            rows = np.zeros(len(mine[0]))
            add_absolute_moments(
                mine[0], other[0], mine[1], other[1], mine[2], other[2], block.own, rows
            )
            total += 2.0 * float(rows.sum())
            block.poll()
        return float(sum_over_ranks(self.layout.comm, total))

    # -- the pieces ------------------------------------------------------------------------

    @staticmethod
    def _add_narrow(
        mine: list[np.ndarray],
        other: list[np.ndarray],
        triangle: bool,
        sums: np.ndarray,
        target: np.ndarray,
        poll: Callable[[], None],
    ) -> None:
        contributions = np.zeros((numba.get_num_threads(), sums.shape[1], other[0].shape[1]))
        count, done = len(mine[0]), 0
        while done < count:
            stop = min(done + POLL_ROWS, count)
            own = [np.array(array[done:stop], order="C") for array in mine]
            # Below the diagonal block of a triangle nothing is left to do.
            rest = [np.ascontiguousarray(array[:, done:]) if triangle else array for array in other]
            part = np.ascontiguousarray(contributions[:, :, done:]) if triangle else contributions
            add_pairs(
                own[0], rest[0], own[1], rest[1], own[2], rest[2], own[3], rest[3],
                triangle, sums[done:stop], part,
            )  # fmt: skip
            if triangle:
                contributions[:, :, done:] = part
            poll()
            done = stop
        for part in contributions:
            target += part.T

    @staticmethod
    def _add_wide(
        mine: list[np.ndarray],
        other: list[np.ndarray],
        triangle: bool,
        sums: np.ndarray,
        target: np.ndarray,
        poll: Callable[[], None],
    ) -> None:
        columns = sums.shape[1] - 1
        count, visiting = len(mine[0]), other[0].shape[1]
        tile = np.empty(TILE_ROWS * TILE_COLUMNS)
        visiting_values = np.ascontiguousarray(other[3].T)
        for low in range(0, count, TILE_ROWS):
            high = min(low + TILE_ROWS, count)
            own = [np.array(part[low:high], order="C") for part in mine]
            start = low // TILE_COLUMNS * TILE_COLUMNS if triangle else 0
            for first in range(start, visiting, TILE_COLUMNS):
                last = min(first + TILE_COLUMNS, visiting)
                chunk = [np.ascontiguousarray(part[:, first:last]) for part in other[:3]]
                block = tile[: (high - low) * (last - first)].reshape(high - low, last - first)
                fill_tile(own[0], chunk[0], own[1], chunk[1], own[2], chunk[2], block)
                if triangle and first < high:
                    later = np.arange(first, last) > np.arange(low, high)[:, None]
                    block *= later
                sums[low:high, :columns] += block @ visiting_values[first:last]
                sums[low:high, columns] += block.sum(axis=1)
                target[first:last, :columns] += block.T @ own[3]
                target[first:last, columns] += block.sum(axis=0)
            poll()
