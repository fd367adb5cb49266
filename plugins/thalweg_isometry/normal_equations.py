"""The operator A of the papers, and the linear equations of the ADMM methods.

``A(P)_k = v_k^T P v_k`` and ``A*(w) = sum_k w_k v_k v_k^T`` for symmetric P, with the unit
secants v_k as rows.  ``(I + beta A*A) L = R`` is solved in one of three ways, exchangeable
by name: a Cholesky factor of the operator on the N(N+1)/2 numbers of a symmetric matrix,
the Woodbury identity with a Cholesky factor of the m x m matrix ``I + beta A A*``, and
conjugate gradients on the operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
import scipy.linalg

from thalweg import InputError
from thalweg.parallel import Layout, sum_large
from thalweg.parallel.pairs import SecantSet
from thalweg.plugins import Help

if TYPE_CHECKING:
    from thalweg_isometry.search_state import SearchState

InnerSolver = Annotated[
    Literal["auto", "cholesky", "woodbury", "cg"],
    Help("how the linear equations of a step are solved"),
]

#: Largest matrices that are factored.
LARGEST = 5000


class SecantRows:
    """Unit secants of listed pairs, this rank's share of them.

    Parameters
    ----------
    secants
        The set that the pairs belong to.
    pairs, lengths
        Point numbers (m, 2) and squared lengths (m,) of this rank's.

    Attributes
    ----------
    count
        Number of secants on all ranks.
    """

    def __init__(self, secants: SecantSet, pairs: np.ndarray, lengths: np.ndarray) -> None:
        self.comm = secants.comm
        self.count = sum(self.comm.allgather(len(pairs)))
        self.layout = Layout(self.comm, self.count, secants.dimension, local_rows=len(pairs))
        touched, where = np.unique(pairs, return_inverse=True)
        points = secants.wanted_rows(touched) - secants.mean
        mine = where.reshape(pairs.shape)
        self.rows = points[mine[:, 0]] - points[mine[:, 1]]
        self.rows /= np.sqrt(lengths)[:, None]

    def forward(self, matrix: np.ndarray) -> np.ndarray:
        """``A(P)`` of this rank's secants, shape ``(m,)``."""
        return np.asarray(np.einsum("ij,ij->i", self.rows @ matrix, self.rows))

    def adjoint(self, weights: np.ndarray) -> np.ndarray:
        """``A*(w)``, shape ``(dimension, dimension)``, on every rank."""
        return sum_large(self.comm, self.rows.T @ (weights[:, None] * self.rows))

    def gram(self) -> np.ndarray:
        """``A A*``: the squared cosines ``(v_k^T v_l)^2``, shape ``(m, m)``, on every rank."""
        everyone = self.layout.gather_rows(self.rows)
        return self.layout.gather_rows((self.rows @ everyone.T) ** 2)


class NormalEquations(ABC):
    """Solves ``(I + beta A*A) L = R``; factors, if it does, once."""

    def __init__(self, rows: SecantRows, beta: float) -> None:
        self.rows = rows
        self.beta = beta

    @abstractmethod
    def solve(self, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """L, symmetric; ``guess`` is where an iteration may start."""


class Woodbury(NormalEquations):
    """``L = R - beta A*(I + beta A A*)^-1 A(R)``."""

    def __init__(self, rows: SecantRows, beta: float) -> None:
        super().__init__(rows, beta)
        matrix = beta * rows.gram()
        matrix[np.diag_indices_from(matrix)] += 1.0
        self._factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)

    def solve(self, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Two products with A and two triangular solves."""
        layout = self.rows.layout
        forward = layout.gather_rows(self.rows.forward(right))
        weights = layout.local(scipy.linalg.cho_solve(self._factor, forward))
        return right - self.beta * self.rows.adjoint(weights)


class Cholesky(NormalEquations):
    """The operator itself as a matrix over the upper triangle."""

    def __init__(self, rows: SecantRows, beta: float) -> None:
        super().__init__(rows, beta)
        n = rows.rows.shape[1]
        self._upper = np.triu_indices(n)
        # Off-diagonal entries are scaled by sqrt 2, so that inner products agree.
        self._scale = np.where(self._upper[0] == self._upper[1], 1.0, np.sqrt(2.0))
        features = rows.rows[:, self._upper[0]] * rows.rows[:, self._upper[1]] * self._scale
        matrix = beta * sum_large(rows.comm, features.T @ features)
        matrix[np.diag_indices_from(matrix)] += 1.0
        self._factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)

    def solve(self, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Two triangular solves."""
        packed = scipy.linalg.cho_solve(self._factor, right[self._upper] * self._scale)
        result = np.zeros_like(right)
        result[self._upper] = packed / self._scale
        return result + np.triu(result, 1).T


class ConjugateGradient(NormalEquations):
    """Conjugate gradients from the last solution, to a relative residual of ``tolerance``."""

    def __init__(self, rows: SecantRows, beta: float, tolerance: float = 1e-5) -> None:
        super().__init__(rows, beta)
        self.tolerance = tolerance

    def _times(self, matrix: np.ndarray) -> np.ndarray:
        return matrix + self.beta * self.rows.adjoint(self.rows.forward(matrix))

    def solve(self, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """At most 200 products with A and A*."""
        solution = guess.copy()
        residual = right - self._times(solution)
        direction = residual.copy()
        size = float(np.vdot(residual, residual))
        goal = (self.tolerance * float(np.linalg.norm(right))) ** 2
        for _ in range(200):
            if size <= goal:
                break
            image = self._times(direction)
            length = size / float(np.vdot(direction, image))
            solution += length * direction
            residual -= length * image
            new = float(np.vdot(residual, residual))
            direction = residual + (new / size) * direction
            size = new
        return 0.5 * (solution + solution.T)


KINDS = {"woodbury": Woodbury, "cholesky": Cholesky, "cg": ConjugateGradient}


def normal_equations(kind: str, rows: SecantRows, beta: float) -> NormalEquations:
    """The inner solver of that name; ``"auto"`` factors the smaller matrix if it is small.

    Raises
    ------
    InputError
        Unknown name.
    """
    if kind == "auto":
        n = rows.rows.shape[1]
        symmetric = n * (n + 1) // 2
        kind = "woodbury" if rows.count <= symmetric else "cholesky"
        if min(rows.count, symmetric) > LARGEST:
            kind = "cg"
    if kind not in KINDS:
        raise InputError(f"the inner solver must be auto, {', '.join(KINDS)}, not {kind!r}")
    return KINDS[kind](rows, beta)


def kept_equations(state: SearchState, kind: str, beta: float) -> NormalEquations:
    """The equations over the cuts of a search, factored once while these stand still."""
    key = f"equations {beta!r}"
    if key not in state.kept:
        rows = state.kept.get("rows")
        if rows is None:
            rows = state.kept["rows"] = SecantRows(state.secants, state.pairs, state.lengths)
        state.kept[key] = normal_equations(kind, rows, beta)
    return cast(NormalEquations, state.kept[key])
