"""What a sum over pairs can be asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from thalweg_embedding.pairs.functions import PairFunction


class PairSum(ABC):
    """T(X) = sum over ordered pairs n != m of c_nm phi(d_nm), d_nm = ||x_n - x_m||^2.

    ``c`` are fixed symmetric weights, phi a :class:`PairFunction`.  Every method takes
    this rank's rows of X, shape (local_rows, d), and is collective.
    """

    function: PairFunction

    #: Called on all ranks with a sentence on what a sum fell back to.
    note: Callable[[str], None] = staticmethod(lambda sentence: None)

    @abstractmethod
    def total(self, rows: np.ndarray, shift: float = 0.0) -> float:
        """T, with phi(d - shift) in place of phi(d); the same number on every rank."""

    @abstractmethod
    def total_and_slopes(self, rows: np.ndarray, slopes: np.ndarray, shift: float = 0.0) -> float:
        """T; ``slopes`` receives G_n = sum_m c_nm phi'(d_nm) (x_n - x_m): dT/dx_n = 4 G_n."""

    @abstractmethod
    def product(
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        """A quarter of T's Hessian times ``direction``, into ``product``.

        With u = x_n - x_m and v the difference of directions, row n is
        sum_m c_nm (phi' v + 2 phi'' (u . v) u).
        """

    @abstractmethod
    def diagonal(self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0) -> None:
        """A quarter of the diagonal of T's Hessian: sum_m c_nm (phi' + 2 phi'' u_i^2)."""

    @abstractmethod
    def convex_product(
        self, rows: np.ndarray, direction: np.ndarray, product: np.ndarray, shift: float = 0.0
    ) -> None:
        """A quarter of the convex part of the Hessian that is block diagonal over columns.

        Entry i of row n is sum_m c_nm 2 max(phi'', 0) u_i^2 v_i: a graph Laplacian for
        each column, with positive weights only.
        """

    @abstractmethod
    def convex_diagonal(self, rows: np.ndarray, diagonal: np.ndarray, shift: float = 0.0) -> None:
        """Diagonal of the matrix of :meth:`convex_product`."""

    #: Relative error of a total that goes beyond rounding, as an estimate.
    relative_error: float = 0.0

    def refined_total(self, rows: np.ndarray, shift: float = 0.0) -> float:
        """T with a hundredth of the error, where there is one to speak of."""
        return self.total(rows, shift)

    def destroy(self) -> None:
        """Free what MPI and PETSc hold.  Collective."""
