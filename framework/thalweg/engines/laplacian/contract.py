"""What an objective offers to the engine, the weights of a graph; and what a method can do."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse

from thalweg.capability import Capability
from thalweg.parallel import Array, Layout

#: This rank's rows of a matrix, shape ``(local_rows, rows)``.
MatrixRows: TypeAlias = scipy.sparse.csr_matrix | np.ndarray


class AttractiveLaplacian(Capability):
    """An attractive term whose Hessian is ``scale * L``, L the Laplacian of a graph.

    Vladymyrov and Carreira-Perpinan's partial Hessian 4 L+: block diagonal over
    the columns of the variable, positive semidefinite.
    """

    phrase = "attractive Laplacian"

    #: Whether the weights change with x; if not, one factorization serves all iterates.
    attraction_changes: bool = False

    #: Factor of the Laplacian in the Hessian.
    attraction_scale: float = 4.0

    @abstractmethod
    def attractive_weights(self, x: Array) -> MatrixRows:
        """This rank's rows of the symmetric weights, shape ``(local_rows, rows)``.

        Non-negative with zero diagonal; a CSR matrix, or a dense array.
        """


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


class SolutionMethod(ABC):
    """A solver for one system."""

    #: Non-zeros of a complete factor, over all ranks; 0 where there is none, or none is told.
    factor_entries: int = 0

    @abstractmethod
    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""

    def close(self) -> None:
        """Free what PETSc holds, if anything.  Collective."""
