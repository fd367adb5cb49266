"""What a method solves with, and what every method can do."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from thalweg.engines.laplacian.contract import MatrixRows
from thalweg.parallel import Layout


@dataclass(frozen=True)
class System:
    """A symmetric positive definite matrix over the ranks, and how to solve with it.

    The columns of ``layout`` are the right-hand sides of a solve, ``rows`` this rank's of the
    matrix, ``name`` is the method's.  Krylov iterations end at a relative residual ``rtol`` or
    after ``iterations``; ``null_vectors`` are this rank's rows of orthonormal vectors to keep out
    of their solutions.
    """

    layout: Layout
    rows: MatrixRows
    name: str
    rtol: float
    iterations: int
    null_vectors: tuple[np.ndarray, ...] = ()


class Method(ABC):
    """A solver for one system."""

    #: Non-zeros of a complete factor, over all ranks; 0 where there is none, or none is told.
    factor_entries: int = 0

    @abstractmethod
    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""

    def close(self) -> None:
        """Free what PETSc holds, if anything.  Collective."""
