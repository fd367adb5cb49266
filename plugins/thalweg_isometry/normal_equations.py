"""The operator A of the papers, and the linear equations of the ADMM methods.

``A(P)_k = v_k^T P v_k`` and ``A*(w) = sum_k w_k v_k v_k^T`` for symmetric P, with the unit
secants v_k as rows.  ``(I + beta A*A) L = R`` is solved in one of three ways, exchangeable
by name: a Cholesky factor of the operator on the N(N+1)/2 numbers of a symmetric matrix,
the Woodbury identity with a Cholesky factor of the m x m matrix ``I + beta A A*``, and
conjugate gradients on that matrix, which has a row for each secant and lies over the ranks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
import scipy.linalg

from thalweg.engines.secants import SecantSet
from thalweg.numerics import conjugate_gradients
from thalweg.parallel import MPI, Layout, agreed, any_over_ranks, sum_large, sum_over_ranks
from thalweg.plugins import Help
from thalweg_isometry.active import BLOCK, differences

if TYPE_CHECKING:
    from thalweg_isometry.search_state import SearchState

InnerSolver = Annotated[
    Literal["auto", "cholesky", "woodbury", "cg"], Help("how the equations of a step are solved")
]

Steps = Annotated[
    Literal["joint", "published"],
    Help("whether P (L of numax) and q are found together, or one after the other as published"),
]

#: Solver of the equations: of C, t and an excess to L.
Equations = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

#: Largest matrices that are factored, and columns from which on none is: products with matrices
#: of so many cost more than those of the secants with each other.
LARGEST, LONG = 5000, 2000

#: Most secants whose products with each other are kept, a rank those of its own, and most
#: iterations of conjugate gradients; chosen by hand.
SQUARED, LIMIT = 7000, 200

#: Newton's steps that find P and q together: the next iteration goes on from where they end.
NEWTON_STEPS = 3

#: Share of the residual at the start of conjugate gradients, and of the right-hand side, to which
#: the residual falls.  They start from the last matrix, so that the first residual is as large as
#: the step of ADMM, and a fixed share of it leaves ADMM convergent (the relative error of Eckstein
#: and Yao, 2018); the other ends what is below any tolerance.  At 0.02 ADMM took up to a sixth
#: more iterations than with factors, at 0.005 as many, for a sixth more products.
REDUCTION, SMALLEST = 0.005, 1e-6

#: Unit secants above which they are kept in single precision; chosen by hand.
MANY = 5000


class SecantColumns:
    """Unit secants v_k as the rows of a matrix over the ranks; all methods are collective.

    The operator A of NuMax and FroMax takes a symmetric P to the forms ``v_k^T P v_k``.  ``rows``
    are this rank's secants, shape ``(m, dimension)``, ``count`` is their number on all ranks, and
    ``layout`` the distribution of a number for each.
    """

    def __init__(self, comm: MPI.Comm, rows: np.ndarray) -> None:
        self.comm, self.rows = comm, rows
        self.count = int(sum_over_ranks(comm, len(rows)))
        self.layout = Layout(comm, self.count, local_rows=len(rows))

    @classmethod
    def of(cls, secants: SecantSet, pairs: np.ndarray, lengths: np.ndarray) -> "SecantColumns":
        """Those of listed pairs, shape (m, 2), of these squared lengths; if many, single precision.

        Lengths have shape (m,) and are positive.
        """
        many = sum_over_ranks(secants.comm, len(pairs)) > MANY
        rows = np.empty((len(pairs), secants.dimension), dtype=np.float32 if many else np.float64)
        for part, difference in differences(secants, pairs, secants.mean):
            rows[part] = difference / np.sqrt(lengths[part])[:, None]
        return cls(secants.comm, rows)

    def some(self, which: np.ndarray) -> "SecantColumns":
        """Only these of this rank's, by a mask of shape (m,)."""
        return SecantColumns(self.comm, self.rows[which])

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

    def cosines(self) -> np.ndarray:
        """``v_k^T v_l`` of this rank with all, shape ``(m, count)``; their squares are ``A A*``."""
        width = self.rows.shape[1]
        return np.asarray(self.rows @ self.layout.with_columns(width).gather_rows(self.rows).T)


def _factored(matrix: np.ndarray, beta: float) -> Any:
    """A Cholesky factor of ``I + beta M``, in the place of M."""
    matrix *= beta
    matrix[np.diag_indices_from(matrix)] += 1.0
    return scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)


def _right(rows: SecantColumns, beta: float, center: np.ndarray, target: np.ndarray) -> np.ndarray:
    """``C + beta A*(t)``, symmetric to the last bit."""
    right = center + beta * rows.adjoint(target)
    return np.asarray(0.5 * (right + right.T))


def _woodbury(rows: SecantColumns, beta: float) -> Equations:
    """``L = R - beta A*(I + beta A A*)^-1 A(R)``."""
    layout = rows.layout
    factor = _factored(layout.gather_rows(rows.cosines().astype(float) ** 2), beta)

    def solve(center: np.ndarray, target: np.ndarray, _: np.ndarray) -> np.ndarray:
        right = _right(rows, beta, center, target)
        forward = layout.gather_rows(rows.forward(right))
        weights = layout.local(scipy.linalg.cho_solve(factor, forward))
        return np.asarray(right - beta * rows.adjoint(weights))

    return solve


def _cholesky(rows: SecantColumns, beta: float) -> Equations:
    """The operator itself as a matrix over the upper triangle."""
    upper = np.triu_indices(rows.rows.shape[1])
    # Off-diagonal entries are scaled by sqrt 2, so that inner products agree.
    scale = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    matrix = np.zeros((len(scale),) * 2)
    for part in rows.blocks():
        block = rows.rows[part]
        features = block[:, upper[0]] * block[:, upper[1]] * scale
        matrix += features.T @ features
    factor = _factored(sum_large(rows.comm, matrix), beta)

    def solve(center: np.ndarray, target: np.ndarray, _: np.ndarray) -> np.ndarray:
        right = _right(rows, beta, center, target)
        packed = scipy.linalg.cho_solve(factor, right[upper] * scale)
        result = np.zeros_like(right)
        result[upper] = agreed(rows.comm, packed) / scale
        return np.asarray(result + np.triu(result, 1).T)

    return solve


def _conjugate_gradients(rows: SecantColumns, beta: float) -> Equations:
    """Conjugate gradients on a number for each secant, over the ranks, from the excess on.

    ``L = C - beta A*(u)`` with u its excess, ``(I + beta A A*) u = A(C) - t``.
    """
    layout, squared = rows.layout, rows.cosines() if rows.count <= SQUARED else None
    if squared is not None:
        np.multiply(squared, squared, out=squared)

    def times(u: np.ndarray) -> np.ndarray:
        if squared is None:
            return u + beta * rows.forward(rows.adjoint(u))
        return u + beta * (squared @ layout.gather_rows(u).astype(squared.dtype))

    def solve(center: np.ndarray, target: np.ndarray, excess: np.ndarray) -> np.ndarray:
        right = rows.forward(center) - target
        residual = right - times(excess)
        goal = max(REDUCTION * layout.norm(residual), SMALLEST * layout.norm(right))
        zeros = np.zeros_like(residual)
        change = conjugate_gradients(times, zeros, residual, layout.dot, goal**2, LIMIT).x
        matrix = center - beta * rows.adjoint(excess + change)
        return np.asarray(0.5 * (matrix + matrix.T))

    return solve


KINDS = {"woodbury": _woodbury, "cholesky": _cholesky, "cg": _conjugate_gradients}


def normal_equations(kind: str, rows: SecantColumns, beta: float) -> Equations:
    """The inner solver of that name; ``"auto"`` factors the smaller matrix if it is small.

    Of C, t and an excess ``A(L) - t`` from which an iteration may start, it makes the L that is
    least in ``1/2 ||L - C||_F^2 + beta/2 ||A(L) - t||^2``.
    """
    if kind == "auto":
        n = rows.rows.shape[1]
        symmetric = n * (n + 1) // 2
        kind = "woodbury" if rows.count <= symmetric else "cholesky"
        if n >= LONG or min(rows.count, symmetric) > LARGEST:
            kind = "cg"
    return KINDS[kind if rows.count else "cg"](rows, beta)  # without rows nothing is factored


class BoundedForms:
    """The cuts' bounds ``|v_k^T P v_k - 1| <= delta`` on a matrix, as the ADMM methods meet them.

    ``kind`` is the name of the inner solver.  Of a cut of weight w the bound is ``delta / w``.
    """

    def __init__(self, rows: SecantColumns, kind: str, weights: np.ndarray | None = None) -> None:
        self.rows, self._slack = rows, 1.0 if weights is None else 1.0 / weights
        self._kind = kind
        self._outside, self._beta = np.empty(0, dtype=bool), 0.0
        self._solve: Equations | None = None  # of those outside

    def nearest(
        self,
        center: np.ndarray,
        shift: np.ndarray,
        beta: float,
        delta: Any,
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
        published, delta = steps == "published", delta * self._slack
        matrix, miss = start, self.rows.forward(start) + shift - 1.0
        for step in range(1 if published else NEWTON_STEPS):
            outside = (np.abs(miss) > delta) | published
            changed = beta != self._beta or not np.array_equal(outside, self._outside)
            if self._solve is None or any_over_ranks(self.rows.comm, changed):
                self._solve = None  # there is one factor at a time
                self._solve = normal_equations(self._kind, self.rows.some(outside), beta)
                self._outside, self._beta = outside, beta
            elif step:
                break
            nearest = np.clip(miss, -delta, delta)
            target, excess = 1.0 + nearest - shift, miss - nearest
            matrix = self._solve(center, target[outside], excess[outside])
            miss = self.rows.forward(matrix) + shift - 1.0
        return matrix, miss - (nearest if published else np.clip(miss, -delta, delta))


def bounded_forms(state: "SearchState", kind: str) -> BoundedForms:
    """The bounds at the cuts of a search, kept while these stand still."""
    made, cuts = state.cuts.made, state.cuts
    if "forms" not in made:
        columns = SecantColumns.of(state.secants, cuts.pairs, cuts.lengths)
        made["forms"] = BoundedForms(columns, kind, state.secants.weights_of(cuts.pairs))
    return cast(BoundedForms, made["forms"])
