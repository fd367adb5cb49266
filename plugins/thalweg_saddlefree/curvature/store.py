"""Storage of orthonormal vectors that grows in blocks, with projections on them."""

from typing import Any

import numpy as np

from thalweg_saddlefree.curvature.slices import Slices

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
