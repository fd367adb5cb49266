"""The variable cut into one slice per rank, so that a Krylov basis is stored once in all.

A replicated variable (network weights) is whole on every rank.  Its Krylov basis need not be: each
rank keeps the basis vectors on a slice of its own, inner products are summed over the ranks, and
only the vector that is about to be multiplied is put together again.  That shares out the memory
and the work of orthogonalizing, and makes every rank see the same numbers.
"""

from typing import Any

import numpy as np

from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Layout, sum_over_ranks


class Slices:
    """Slices of vectors of ``size`` numbers over the ranks of ``comm``, with inner products.

    ``local_size`` is the length of this rank's rows of a distributed variable of so many columns;
    None for a replicated one, of which each rank takes an even share.  All methods are collective.
    """

    def __init__(
        self, comm: MPI.Comm, size: int, local_size: int | None = None, columns: int = 1
    ) -> None:
        self.comm, self.columns = comm, columns
        self.layout = Layout(comm, size, 1, local_size)
        self.replicated = local_size is None
        #: Length of a vector over all ranks, and of this rank's slice.
        self.size, self.local_size = size, self.layout.local_rows

    @classmethod
    def of(cls, objective: Objective) -> "Slices":
        """Slices of an objective's variable: its row blocks, or shares of a replicated one."""
        layout = objective.layout
        if layout.comm.size == 1:
            return cls(objective.comm, layout.size, columns=layout.columns)
        return cls(layout.comm, layout.size, layout.local_rows * layout.columns, layout.columns)

    def take(self, array: Array) -> np.ndarray:
        """This rank's slice of an array laid out as the variable, as a new array.

        A BLAS may round inner products by where an array begins in memory.
        """
        return np.array(self.view(array))

    def view(self, array: Array) -> np.ndarray:
        """This rank's slice of an array laid out as the variable, in the same memory."""
        flat = array.reshape(-1)
        return self.layout.local(flat) if self.replicated else flat

    def join(self, piece: np.ndarray) -> Array:
        """The array, laid out as the variable, whose slices are ``piece``."""
        flat = self.layout.gather_rows(piece) if self.replicated else piece
        return flat.reshape(-1, self.columns).astype(float, copy=False)

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        """Inner product of two vectors."""
        return float(sum_over_ranks(self.comm, float(a @ b)))

    def norm(self, a: np.ndarray) -> float:
        """Euclidean norm."""
        return float(np.sqrt(self.dot(a, a)))

    def total(self, parts: np.ndarray) -> np.ndarray:
        """Sum over the ranks of a small array, the same bits everywhere."""
        return np.asarray(sum_over_ranks(self.comm, parts))


#: Vectors in a block.
BLOCK = 16

#: Numbers of a vector that are summed in single precision before the sum goes to double.
COLUMNS = 1 << 16


class Store:
    """This rank's slices of a growing set of orthonormal vectors.

    They are stored and projected in ``dtype``: single precision, where products have no more
    digits, takes half of the memory and half of the time.
    """

    def __init__(self, slices: Slices, dtype: np.dtype[Any] | None = None) -> None:
        self.slices = slices
        self.dtype = np.dtype(float) if dtype is None else dtype
        self._blocks: list[np.ndarray] = []
        self._count = 0

    def append(self, vector: np.ndarray) -> None:
        """Take in a copy of a slice, shape ``(local_size,)``."""
        if self._count % BLOCK == 0:
            self._blocks.append(np.empty((BLOCK, self.slices.local_size), self.dtype))
        self._blocks[-1][self._count % BLOCK] = vector
        self._count += 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self._blocks[index // BLOCK][index % BLOCK]

    def coefficients(self, vector: np.ndarray, count: int | None = None) -> np.ndarray:
        """Inner products of the first ``count`` vectors with a vector.  Collective."""
        vector = vector.astype(self.dtype, copy=False)
        width = COLUMNS if self.dtype == np.float32 else max(1, vector.size)
        local = []
        for block, _ in self._parts(self._count if count is None else count):
            total = np.zeros(len(block))
            for first in range(0, vector.size, width):
                total += block[:, first : first + width] @ vector[first : first + width]
            local.append(total)
        return self.slices.total(np.concatenate(local))

    def subtract(self, coefficients: np.ndarray, vector: np.ndarray) -> None:
        """Subtract the combination with these coefficients from ``vector``, in place."""
        for block, part in self._parts(len(coefficients)):
            vector -= coefficients[part].astype(self.dtype) @ block

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Slice of the combination with these coefficients.  Not collective."""
        result = np.zeros(self.slices.local_size)
        for block, part in self._parts(len(coefficients)):
            result += coefficients[part].astype(self.dtype) @ block
        return result

    def _parts(self, count: int) -> list[tuple[np.ndarray, slice]]:
        parts = []
        for number, block in enumerate(self._blocks):
            first, last = number * BLOCK, min((number + 1) * BLOCK, count)
            if first < last:
                parts.append((block[: last - first], slice(first, last)))
        return parts
