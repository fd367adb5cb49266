"""Conjugate gradients with Jacobi's preconditioner, for all right-hand sides at once."""

# mypy: disable-error-code="no-untyped-def"

from typing import Any

import numpy as np
import scipy.sparse
from numba import prange

from thalweg.engines.laplacian.contract import SolutionMethod
from thalweg.errors import NumericalError
from thalweg.parallel import (
    Layout,
    RowExchange,
    RowPlan,
    kernel,
    max_over_ranks,
    min_over_ranks,
    sum_over_ranks,
)

#: Relative residual from which on single precision does; inner products are summed in double.
SINGLE_RESIDUAL = 1e-4

#: Error of a residual in single precision, for each time that a largest weight is a least one: some
#: units in the last place.
SINGLE_ERROR = 2.0**-20

#: Rows whose inner products are added up by one thread: sums do not depend on threads.
BLOCK = 1024


class JacobiIterations(SolutionMethod):
    """Solves with a sparse, diagonally dominant matrix; nothing is factored.

    All columns share each pass over the matrix, which is what an iteration costs, and the vectors'
    updates and inner products are fused.  At several ranks an iteration sends the rows that other
    ranks' matrix rows name, while it multiplies the entries between rows of this rank.

    The layout's columns are the right-hand sides; ``rows`` are this rank's of the matrix, with a
    positive diagonal.  Iterations end at a relative residual ``rtol`` of every column; they run in
    single precision where it may be as large as 1e-4 and the diagonal allows it.
    """

    def __init__(
        self, layout: Layout, rows: scipy.sparse.csr_matrix, rtol: float, iterations: int
    ) -> None:
        self.layout, self.rtol, self.limit = layout, rtol, iterations
        diagonal = rows.diagonal(k=layout.start) if layout.local_rows else np.zeros(0)
        self._scale = max_over_ranks(layout.comm, float(diagonal.max(initial=0.0)))
        least = min_over_ranks(layout.comm, float(diagonal.min(initial=np.inf)))
        single = rtol >= SINGLE_RESIDUAL and self._scale * SINGLE_ERROR <= rtol * least
        self._real: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
        self._inverse = (self._scale / diagonal).astype(self._real)
        self._exchange = RowExchange(RowPlan.of(layout, rows.indices))
        rows = scipy.sparse.csr_matrix(
            ((rows.data / self._scale).astype(self._real), rows.indices, rows.indptr), rows.shape
        )
        self._own, self._others = _split(rows, self._exchange.plan)
        self.iterations = 0

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""
        # Columns of length 1 and a matrix of about 1 leave single precision its range.
        length = np.sqrt(self._sum(np.einsum("ij,ij->j", block, block)))
        running = length > 0.0
        length[~running] = 1.0
        # By columns: NumPy is slow along the short axis of a narrow array.
        residual = np.column_stack([*map(np.divide, block.T, length)]).astype(self._real)
        search = np.column_stack([column * self._inverse for column in residual.T])
        solution, Ap = np.zeros_like(residual), np.empty_like(residual)
        partial = np.empty((2, -(-len(residual) // BLOCK), residual.shape[1]))
        goal = self.rtol**2
        rz = self._sum(np.einsum("ij,ij->j", residual, search, dtype=float))
        self.iterations = 0
        while running.any() and self.iterations < self.limit:
            end = self._exchange.begin_fetch(search)
            Ap[:], partial[0] = 0.0, 0.0
            _add_products(*self._own, search, search, Ap, partial[0])
            if len(ghosts := end()):
                _add_products(*self._others, search, ghosts, Ap, partial[0])
            pAp = self._sum(partial[0].sum(axis=0))
            if not np.all(np.where(running, pAp, 1.0) > 0.0):
                raise NumericalError("the Laplacian's iterations broke down: it is not definite")
            step = np.where(running, rz / np.where(running, pAp, 1.0), 0.0)
            step = step.astype(self._real)
            _advance(step, search, Ap, self._inverse, solution, residual, partial)
            left, new_rz = self._sum(partial.sum(axis=1))
            running &= left > goal
            ratio = np.where(running, new_rz / np.where(rz > 0.0, rz, 1.0), 0.0)
            rz = new_rz
            _update_direction(ratio.astype(self._real), residual, self._inverse, search)
            self.iterations += 1
        factors = zip(solution.T, length / self._scale, strict=True)
        return np.column_stack([np.multiply(*both, dtype=float) for both in factors])

    def _sum(self, numbers: np.ndarray) -> np.ndarray:
        return np.asarray(sum_over_ranks(self.layout.comm, numbers))


def _split(
    rows: scipy.sparse.csr_matrix, plan: RowPlan
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """``(starts, columns, values)`` of the entries in columns of this rank, and of the others.

    The others' columns are places among the ghost rows.
    """
    count = len(rows.indptr) - 1
    columns = plan.positions(rows.indices)
    owned = columns < count
    columns[~owned] -= count
    column_type = np.int32 if max(count, len(plan.ghosts)) < 2**31 else np.int64
    before = np.concatenate([[0], np.cumsum(owned, dtype=np.int64)])[rows.indptr]
    parts = ((owned, before), (~owned, rows.indptr - before))
    own, others = (
        (starts.astype(np.int64), columns[which].astype(column_type), rows.data[which])
        for which, starts in parts
    )
    return own, others


@kernel(parallel=True, fastmath={"contract", "nsz"})
def _add_products(starts, columns, values, points, others, Ap, partial):
    """Add a matrix times ``others`` to ``Ap``, and the products with ``points`` block by block."""
    rows, d = points.shape
    zero = points.dtype.type(0.0)
    for block in prange(partial.shape[0]):
        for n in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            if d == 2:
                first, second = zero, zero
                for e in range(starts[n], starts[n + 1]):
                    first += values[e] * others[columns[e], 0]
                    second += values[e] * others[columns[e], 1]
                Ap[n, 0] += first
                Ap[n, 1] += second
                partial[block, 0] += points[n, 0] * first
                partial[block, 1] += points[n, 1] * second
            else:
                for c in range(d):
                    total = zero
                    for e in range(starts[n], starts[n + 1]):
                        total += values[e] * others[columns[e], c]
                    Ap[n, c] += total
                    partial[block, c] += points[n, c] * total


@kernel(parallel=True, fastmath={"contract", "nsz"})
def _advance(step, search, Ap, inverse, solution, residual, partial):
    """A step along ``search``; by blocks of rows |r|^2 and r.D^-1 r."""
    rows, d = residual.shape
    for block in prange(partial.shape[1]):
        for c in range(d):
            partial[0, block, c] = 0.0
            partial[1, block, c] = 0.0
        for n in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            for c in range(d):
                solution[n, c] += step[c] * search[n, c]
                r = residual[n, c] - step[c] * Ap[n, c]
                residual[n, c] = r
                partial[0, block, c] += r * r
                partial[1, block, c] += r * r * inverse[n]


@kernel(parallel=True, fastmath={"contract", "nsz"})
def _update_direction(ratio, residual, inverse, search):
    """The next direction to search."""
    rows, d = residual.shape
    for block in prange((rows + BLOCK - 1) // BLOCK):
        for n in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            for c in range(d):
                search[n, c] = residual[n, c] * inverse[n] + ratio[c] * search[n, c]
