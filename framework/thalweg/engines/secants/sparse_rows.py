"""Rows of a sparse matrix as one array, which messages and compiled loops take as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from thalweg.errors import InputError
from thalweg.parallel import Layout, max_over_ranks, raise_on_all_ranks


@dataclass(frozen=True)
class SparseRows:
    """Some rows, each padded to as many entries as the fullest has.

    Attributes
    ----------
    packed
        Shape ``(n, 2 m)``, float64: in each row the numbers of the columns of its m entries,
        ascending, then the entries.  Entries that only fill up are zeros of column
        ``dimension``, behind the last.
    dimension
        Number of columns.
    """

    packed: np.ndarray
    dimension: int

    @classmethod
    def of(cls, matrix: Any, layout: Layout) -> SparseRows:
        """This rank's rows of a matrix that SciPy calls sparse.  Collective.

        Raises
        ------
        InputError
            Entries that are not real and finite.
        """
        with raise_on_all_ranks(layout.comm):
            if matrix.dtype.kind not in "fiub":
                raise InputError(f"the points hold {matrix.dtype}, not real numbers")
            rows = scipy.sparse.csr_matrix(matrix, dtype=float, copy=True)
            if not np.isfinite(rows.data).all():
                raise InputError(
                    "the points hold a number that is not finite; remove NaN and infinity"
                )
            rows.sum_duplicates()
            rows.eliminate_zeros()
        counts = np.diff(rows.indptr)
        width = int(max_over_ranks(layout.comm, float(counts.max(initial=0))))
        packed = np.zeros((rows.shape[0], 2 * width))
        packed[:, :width] = rows.shape[1]
        at = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(rows.data)) - np.repeat(rows.indptr[:-1], counts)
        packed[at, place] = rows.indices
        packed[at, width + place] = rows.data
        return cls(packed, int(rows.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.packed), self.dimension

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def entries(self) -> np.ndarray:
        """The entries, zeros that fill up included, shape ``(n, m)``."""
        return self.packed[:, self.packed.shape[1] // 2 :]

    def with_entries(self, entries: np.ndarray) -> SparseRows:
        """Other entries at the same places."""
        width = self.packed.shape[1] // 2
        return SparseRows(np.hstack([self.packed[:, :width], entries]), self.dimension)

    def part(self, rows: np.ndarray) -> SparseRows:
        """Some of the rows."""
        return SparseRows(np.ascontiguousarray(self.packed[rows]), self.dimension)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Some of the rows with all their zeros, shape ``(k, dimension)``, float64."""
        chosen = self.packed[rows]
        width = chosen.shape[1] // 2
        dense = np.zeros((len(chosen), self.dimension + 1))
        places = chosen[:, :width].astype(np.int64)
        np.put_along_axis(dense, places, chosen[:, width:], axis=1)
        return dense[:, : self.dimension]

    def matrix(self, rows: Any) -> scipy.sparse.csr_matrix:
        """Some of the rows as a sparse matrix."""
        chosen = self.packed[rows]
        width = chosen.shape[1] // 2
        places = chosen[:, :width].astype(np.int64)
        filled = places < self.dimension
        starts = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
        shape = (len(chosen), self.dimension)
        return scipy.sparse.csr_matrix(
            (chosen[:, width:][filled], places[filled], starts), shape=shape
        )
