"""Storage of orthonormal vectors that grows in blocks, with projections on them."""

from __future__ import annotations

import numpy as np

from thalweg_saddlefree.curvature.slices import Slices

#: Vectors in a block.
BLOCK = 16


class Store:
    """This rank's slices of a growing set of orthonormal vectors."""

    def __init__(self, slices: Slices) -> None:
        self.slices = slices
        self._blocks: list[np.ndarray] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, vector: np.ndarray) -> None:
        """Take in a copy of a slice, shape ``(local_size,)``."""
        if self._count % BLOCK == 0:
            self._blocks.append(np.empty((BLOCK, self.slices.local_size)))
        self._blocks[-1][self._count % BLOCK] = vector
        self._count += 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self._blocks[index // BLOCK][index % BLOCK]

    def coefficients(self, vector: np.ndarray, count: int | None = None) -> np.ndarray:
        """Inner products of the first ``count`` vectors with a vector.  Collective."""
        local = [
            block @ vector for block, _ in self._parts(self._count if count is None else count)
        ]
        return self.slices.total(np.concatenate(local))

    def subtract(self, coefficients: np.ndarray, vector: np.ndarray) -> None:
        """Subtract the combination with these coefficients from ``vector``, in place."""
        for block, part in self._parts(len(coefficients)):
            vector -= coefficients[part] @ block

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Slice of the combination with these coefficients.  Not collective."""
        result = np.zeros(self.slices.local_size)
        for block, part in self._parts(len(coefficients)):
            result += coefficients[part] @ block
        return result

    def _parts(self, count: int) -> list[tuple[np.ndarray, slice]]:
        parts = []
        for number, block in enumerate(self._blocks):
            first, last = number * BLOCK, min((number + 1) * BLOCK, count)
            if first < last:
                parts.append((block[: last - first], slice(first, last)))
        return parts
