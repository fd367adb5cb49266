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

import numba
import numpy as np
from mpi4py import MPI

from thalweg.parallel.layout import Layout
from thalweg.parallel.pairs.gaussian_tiles import add_pairs, fill_tile

#: With more value columns than this, tiles are stored and multiplied by BLAS.
WIDE = 24

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

        splits = np.cumsum([z.shape[1], factor.shape[1], moving.shape[1]])
        packed = np.concatenate([z, factor, moving, values], axis=1)
        add = self._add_wide if columns > WIDE else self._add_narrow
        size = self.layout.comm.size
        returned = np.zeros((self.layout.rows if size > 1 else 0, columns + 1))
        for rows, first, block, triangle in self._visits(packed):
            parts = np.split(block, splits, axis=1)
            other = [np.ascontiguousarray(part.T) for part in parts]
            mine = [array[rows] for array in (z, signed, moving, values)]
            target = sums[:] if size == 1 else returned[first : first + len(block)]
            add(mine, other, triangle, sums[rows], target)
        if size > 1:
            sums += self._send_back(returned)
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
            fill_tile(np.ascontiguousarray(z, float), other, none, empty, none, empty, tile)
        return tile

    # -- the pieces ------------------------------------------------------------------------

    def _visits(self, packed: np.ndarray):  # type: ignore[no-untyped-def]
        """Own rows to pair, first global row, block, and whether it is the own triangle."""
        if self.layout.comm.size == 1:
            if len(packed):
                yield slice(0, len(packed)), 0, packed, True
            return
        from thalweg.parallel.pairs import Ring

        for visit in Ring(self.layout).visits(packed, unordered=True):
            (block,) = visit.arrays
            rows = visit.rows
            paired = len(range(*rows.indices(self.layout.local_rows)))
            if paired and len(block):
                yield rows, visit.start, block, visit.own

    def _send_back(self, returned: np.ndarray) -> np.ndarray:
        """What all ranks computed for this rank's rows, summed."""
        width = returned.shape[1]
        received = np.empty((self.layout.local_rows, width))
        row = MPI.DOUBLE
        self.layout.comm.Reduce_scatter(
            [returned, row], [received, row], recvcounts=(self.layout.counts() * width).tolist()
        )
        return received

    @staticmethod
    def _add_narrow(
        mine: list[np.ndarray],
        other: list[np.ndarray],
        triangle: bool,
        sums: np.ndarray,
        target: np.ndarray,
    ) -> None:
        threads = numba.get_num_threads()
        reaction = np.zeros((threads, sums.shape[1], other[0].shape[1]))
        add_pairs(
            mine[0], other[0], mine[1], other[1], mine[2], other[2], mine[3], other[3],
            triangle, sums, reaction,
        )  # fmt: skip
        for part in reaction:
            target += part.T

    @staticmethod
    def _add_wide(
        mine: list[np.ndarray],
        other: list[np.ndarray],
        triangle: bool,
        sums: np.ndarray,
        target: np.ndarray,
    ) -> None:
        columns = sums.shape[1] - 1
        count, visiting = len(mine[0]), other[0].shape[1]
        tile = np.empty(TILE_ROWS * TILE_COLUMNS)
        visiting_values = np.ascontiguousarray(other[3].T)
        for low in range(0, count, TILE_ROWS):
            high = min(low + TILE_ROWS, count)
            own = [np.ascontiguousarray(part[low:high]) for part in mine]
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
