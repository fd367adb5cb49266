"""What a way to solve with a symmetric positive definite matrix offers."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Method(Protocol):
    """What a way to solve offers."""

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""

    def destroy(self) -> None:
        """Free what PETSc holds.  Collective."""
