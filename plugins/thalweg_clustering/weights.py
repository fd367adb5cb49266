"""The weights gamma of a pair sum, of low rank: gamma_ij = sum_c s_c p_ic p_jc."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PairWeights:
    """Symmetric weights between all pairs of rows, as a product of thin factors.

    Attributes
    ----------
    factor
        p, this rank's rows, shape ``(n_local, r)``.
    signs
        s, equal on all ranks, shape ``(r,)``.
    """

    factor: np.ndarray
    signs: np.ndarray

    def same_as(self, other: PairWeights | None) -> bool:
        """Whether both are equal to the bit on this rank."""
        return (
            other is not None
            and np.array_equal(self.signs, other.signs)
            and np.array_equal(self.factor, other.factor)
        )
