"""The operator A of the papers, and the linear equations of the ADMM methods.

``A(P)_k = v_k^T P v_k`` and ``A*(w) = sum_k w_k v_k v_k^T`` for symmetric P, with the unit
secants v_k as rows.  ``(I + beta A*A) L = R`` is solved in one of three ways, exchangeable
by name: a Cholesky factor of the operator on the N(N+1)/2 numbers of a symmetric matrix,
the Woodbury identity with a Cholesky factor of the m x m matrix ``I + beta A A*``, and
conjugate gradients on the operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
import scipy.linalg

from thalweg.engines.secants import SecantSet
from thalweg.numerics import conjugate_gradients
from thalweg.parallel import MPI, Layout, agreed, any_over_ranks, sum_large, sum_over_ranks
from thalweg.plugins import Help
from thalweg_isometry.active import wanted_rows

if TYPE_CHECKING:
    from thalweg_isometry.search_state import SearchState

InnerSolver = Annotated[
    Literal["auto", "cholesky", "woodbury", "cg"],
    Help("how the linear equations of a step are solved"),
]

Steps = Annotated[
    Literal["joint", "published"],
    Help("whether P (L of numax) and q are found together, or one after the other as published"),
]

#: Largest matrices that are factored.
LARGEST = 5000

#: Secants that products work with at a time; more than so many are kept in single precision.
BLOCK, MANY = 4096, 5000

#: Newton's steps that find P and q together: the next iteration goes on from where they end.
NEWTON_STEPS = 3

#: Share of the residual at the start of conjugate gradients, and of the right-hand side, to which
#: the residual falls: ADMM corrects the rest, which is as large as its own steps.
REDUCTION, SMALLEST = 0.02, 1e-5


class SecantRows:
    """Unit secants: this rank's rows, shape (m, dimension), and their number on all ranks."""

    def __init__(self, comm: MPI.Comm, rows: np.ndarray) -> None:
        self.comm, self.rows = comm, rows
        self.count = int(sum_over_ranks(comm, len(rows)))
        self.layout = Layout(comm, self.count, rows.shape[1], local_rows=len(rows))

    @classmethod
    def of(cls, secants: SecantSet, pairs: np.ndarray, lengths: np.ndarray) -> SecantRows:
        """Those of listed pairs, shape (m, 2), of these squared lengths; if many, single precision.

        Collective.
        """
        touched, where = np.unique(pairs, return_inverse=True)
        points = wanted_rows(secants, touched) - secants.mean
        mine = where.reshape(pairs.shape)
        many = sum_over_ranks(secants.comm, len(pairs)) > MANY
        rows = np.empty((len(pairs), secants.dimension), dtype=np.float32 if many else np.float64)
        for first in range(0, len(pairs), BLOCK):
            part = slice(first, first + BLOCK)
            unit = points[mine[part, 0]] - points[mine[part, 1]]
            rows[part] = unit / np.sqrt(lengths[part])[:, None]
        return cls(secants.comm, rows)

    def some(self, which: np.ndarray) -> SecantRows:
        """Only these of this rank's, by a mask of shape (m,).  Collective."""
        return SecantRows(self.comm, self.rows[which])

    def blocks(self) -> list[slice]:
        """Parts of this rank's rows that products work with at a time."""
        return [slice(k, k + BLOCK) for k in range(0, len(self.rows), BLOCK)]

    def forward(self, matrix: np.ndarray) -> np.ndarray:
        """``A(P)`` of this rank's secants, shape ``(m,)``, float64."""
        forms, matrix = np.empty(len(self.rows)), matrix.astype(self.rows.dtype)
        for part in self.blocks():
            rows = self.rows[part]
            forms[part] = np.einsum("ij,ij->i", rows @ matrix, rows)
        return forms

    def adjoint(self, weights: np.ndarray) -> np.ndarray:
        """``A*(w)``, shape ``(dimension, dimension)``, on every rank, float64."""
        total = np.zeros(2 * self.rows.shape[1:])
        for part in self.blocks():
            rows = self.rows[part]
            total += rows.T @ (weights[part, None].astype(rows.dtype) * rows)
        return sum_large(self.comm, total)

    def gram(self) -> np.ndarray:
        """``A A*``: the squared cosines ``(v_k^T v_l)^2``, shape ``(m, m)``, on every rank."""
        everyone = self.layout.gather_rows(self.rows)
        return self.layout.gather_rows((self.rows @ everyone.T).astype(float) ** 2)


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
        matrix = rows.gram()
        matrix *= beta
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
        matrix = np.zeros((len(self._scale),) * 2)
        for part in rows.blocks():
            block = rows.rows[part]
            features = block[:, self._upper[0]] * block[:, self._upper[1]] * self._scale
            matrix += features.T @ features
        matrix = sum_large(rows.comm, matrix)
        matrix *= beta
        matrix[np.diag_indices_from(matrix)] += 1.0
        self._factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)

    def solve(self, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Two triangular solves."""
        packed = scipy.linalg.cho_solve(self._factor, right[self._upper] * self._scale)
        packed = agreed(self.rows.comm, packed)
        result = np.zeros_like(right)
        result[self._upper] = packed / self._scale
        return result + np.triu(result, 1).T


class ConjugateGradient(NormalEquations):
    """Conjugate gradients from the last solution."""

    def _times(self, matrix: np.ndarray) -> np.ndarray:
        return matrix + self.beta * self.rows.adjoint(self.rows.forward(matrix))

    def _dot(self, a: np.ndarray, b: np.ndarray) -> float:
        return agreed(self.rows.comm, float(np.vdot(a, b)))

    def solve(self, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """At most 200 products with A and A*."""
        residual = right - self._times(guess)
        size = self._dot(residual, residual)
        goal = max(REDUCTION**2 * size, SMALLEST**2 * self._dot(right, right))
        solution = conjugate_gradients(self._times, guess, residual, self._dot, goal, 200).x
        return 0.5 * (solution + solution.T)


KINDS: dict[str, Callable[[SecantRows, float], NormalEquations]] = {
    "woodbury": Woodbury,
    "cholesky": Cholesky,
    "cg": ConjugateGradient,
}


def normal_equations(kind: str, rows: SecantRows, beta: float) -> NormalEquations:
    """The inner solver of that name; ``"auto"`` factors the smaller matrix if it is small."""
    if kind == "auto":
        n = rows.rows.shape[1]
        symmetric = n * (n + 1) // 2
        kind = "woodbury" if rows.count <= symmetric else "cholesky"
        if min(rows.count, symmetric) > LARGEST:
            kind = "cg"
    return KINDS[kind if rows.count else "cg"](rows, beta)  # without rows nothing is factored


class BoundedForms:
    """The cuts' bounds ``|v_k^T P v_k - 1| <= delta`` on a matrix, as the ADMM methods meet them.

    ``kind`` is the name of the inner solver.
    """

    def __init__(self, rows: SecantRows, kind: str) -> None:
        self.rows = rows
        self._kind = kind
        self._outside = np.empty(0, dtype=bool)
        self._equations: NormalEquations | None = None

    def nearest(
        self,
        center: np.ndarray,
        shift: np.ndarray,
        beta: float,
        delta: float,
        start: np.ndarray,
        steps: Steps = "joint",
    ) -> tuple[np.ndarray, np.ndarray]:
        """A matrix near C and near the bounds, and by how much it exceeds them.

        The minimizer of ``1/2 ||P - C||_F^2 + beta/2 sum_k dist(A_k(P) + s_k, [1 - delta,
        1 + delta])^2``, which is the augmented Lagrangian over P and q together.  Its equations,
        at Newton's steps, are those of the secants outside of the bounds alone, which are few.
        With C = ``center``, symmetric, and s = ``shift``, gives P, from ``start`` on, and by how
        much ``A(P) + s`` lies above or below the bounds.  With ``steps="published"`` q is found
        first, from ``start`` (3.6), then P from q and all secants (3.9), and the excess is
        ``A(P) + s - q`` with that q.
        """
        published = steps == "published"
        matrix, miss = start, self.rows.forward(start) + shift - 1.0
        for step in range(1 if published else NEWTON_STEPS):
            outside = (np.abs(miss) > delta) | published
            equations = self._equations
            changed = not np.array_equal(outside, self._outside)
            if (
                equations is None
                or equations.beta != beta
                or any_over_ranks(self.rows.comm, changed)
            ):
                equations = self._equations = None  # there is one factor at a time
                equations = normal_equations(self._kind, self.rows.some(outside), beta)
                self._outside, self._equations = outside, equations
            elif step:
                break
            nearest = np.clip(miss, -delta, delta)
            right = center + beta * equations.rows.adjoint((1.0 + nearest - shift)[outside])
            matrix = equations.solve(0.5 * (right + right.T), matrix)
            miss = self.rows.forward(matrix) + shift - 1.0
        return matrix, miss - (nearest if published else np.clip(miss, -delta, delta))


def bounded_forms(state: SearchState, kind: str) -> BoundedForms:
    """The bounds at the cuts of a search, kept while these stand still."""
    made, cuts = state.cuts.made, state.cuts
    if "forms" not in made:
        made["forms"] = BoundedForms(SecantRows.of(state.secants, cuts.pairs, cuts.lengths), kind)
    return cast(BoundedForms, made["forms"])
