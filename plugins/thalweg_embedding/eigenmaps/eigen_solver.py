"""The solver ``eigen``: the eigenvectors of smallest eigenvalues, in one step."""

import contextlib
import functools
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

from thalweg.errors import InputError, NumericalError
from thalweg.interfaces import Capability, Objective, Solver, SolverState
from thalweg.parallel import Array, max_over_ranks, on_root
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_embedding.defaults import DENSE_ROWS
from thalweg_embedding.eigenmaps.eigenvector_embedding import SmallestEigenvectors

#: The matrix is shifted by this share of its mean diagonal entry before it is factored.
SHIFT = 1e-6

#: Tolerance of Krylov methods relative to that of the residuals: they judge by the inverse, in
#: which the eigenvalues near zero nearly agree, and some are missed.
SHARE = 0.001

#: Restarts after which Lanczos' method gives way to one with a factor, and its tolerance, relative
#: to the largest eigenvalue, over that of the residuals, relative to the smallest; by hand.
RESTARTS, SMALLEST = 40, 1e-5

ADVICE = "try method = 'dense', or remove rows that equal others"


@dataclass(frozen=True, kw_only=True)
class EigenState(SolverState):
    """State of ``eigen``: whether the step is taken, and the residual relative to its limit."""

    done: bool = False
    residual: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Eigen(Solver[EigenState]):
    """Eigenvectors of the smallest eigenvalues beyond a known null vector.

    Attributes
    ----------
    method
        On rank 0, ``"slepc"`` and ``"arpack"``: Krylov methods with a factored matrix;
        ``"dense"``: LAPACK; ``"auto"``: dense up to 1,500 rows, then ARPACK without a factor, and
        where eigenvalues lie too close for that SLEPc if it is installed, else ARPACK.
    tolerance
        Largest residual |Av - lambda v| relative to the eigenvalue lambda.  What rounding
        leaves, N eps ||A||_inf for N rows, is allowed on top.  The run ends as
        ``TARGET_NOT_REACHED`` where an eigenvector has a larger one.
    """

    method: Annotated[Literal["auto", "dense", "slepc", "arpack"], Help("algorithm")] = "auto"
    tolerance: Annotated[float, Help("relative residual", above=0, below=0.1)] = 1e-9

    requires: ClassVar[tuple[type[Capability], ...]] = (SmallestEigenvectors,)

    def init(self, objective: Objective, x: Array) -> EigenState:
        return EigenState.evaluated(objective, x)

    def step(self, state: EigenState) -> EigenState:
        objective = state.objective
        assert isinstance(objective, SmallestEigenvectors)
        layout, dimensions = objective.layout, objective.layout.columns
        if dimensions >= layout.rows:
            raise InputError(
                f"a map of {layout.rows} points by eigenvectors has at most {layout.rows - 1} "
                f"dimensions, not {dimensions}"
            )
        vectors = self._on_root(objective, dimensions)
        value, gradient = objective.value_and_gradient(vectors)
        values, residuals = objective.residuals(vectors)
        absolute = abs(objective.matrix.copy())  # which would sort the matrix itself
        largest = float(np.asarray(absolute.sum(axis=1)).max(initial=0.0))
        rounding = layout.rows * np.finfo(float).eps * float(max_over_ranks(layout.comm, largest))
        limits = self.tolerance * np.abs(values) + rounding
        if (np.abs(values) <= rounding).any():
            objective.note(
                "an eigenvalue is zero up to rounding: other maps are as good as this one, often "
                "since rows equal others"
            )
        worst, evaluations = float((residuals / limits).max()), state.evaluations + 1
        evaluated = vectors, value, gradient
        return state.at(*evaluated, evaluations=evaluations, residual=worst, done=True)

    def status(self, state: EigenState) -> Status:
        """After the one step converged, if the residuals are small enough."""
        if not state.done:
            return Status.RUNNING
        return Status.CONVERGED if state.residual <= 1.0 else Status.TARGET_NOT_REACHED

    def notes(self, state: EigenState) -> Sequence[str]:
        if not state.done or state.residual <= 1.0:
            return ()
        return (
            f"an eigenvector has {state.residual:.2g} times the residual that tolerance = "
            f"{self.tolerance:g} allows; try another method",
        )

    def _method(self, rows: int) -> str:
        has_slepc = importlib.util.find_spec("slepc4py") is not None
        if self.method == "slepc" and not has_slepc:
            raise InputError("method 'slepc' needs slepc4py; install it, or use 'arpack'")
        if self.method != "auto":
            return self.method
        return "dense" if rows <= DENSE_ROWS else "slepc" if has_slepc else "arpack"

    def _on_root(self, objective: Any, dimensions: int) -> np.ndarray:
        layout = objective.layout
        parts = layout.comm.gather(objective.matrix, root=0)
        null = layout.gather_rows(objective.null_vector)
        krylov = self._by_arpack
        if self._method(layout.rows) == "slepc":
            from thalweg.parallel import options_prefix
            from thalweg.parallel.petsc import slepc

            # All ranks start SLEPc and count its prefixes, though one solves.
            krylov = functools.partial(self._by_slepc, slepc(), options_prefix("eigen"))

        def solve() -> np.ndarray:
            matrix = scipy.sparse.vstack(parts).tocsc()
            try:
                return self._alone(krylov, matrix, null, dimensions)
            except (scipy.sparse.linalg.ArpackError, ValueError) as error:
                raise NumericalError(f"no eigenvectors were found: {error}; {ADVICE}") from error

        return np.array(on_root(layout.comm, solve)[layout.start : layout.stop], order="C")

    def _alone(self, krylov, matrix, null, dimensions):  # type: ignore[no-untyped-def]
        if self._method(len(null)) == "dense" or dimensions + 2 >= len(null):
            # The null vector's eigenvalue is moved above all others.
            top = 2.0 * float(abs(matrix).sum(axis=1).max()) or 1.0
            dense = matrix.toarray() + top * np.outer(null, null)
            return np.asarray(
                scipy.linalg.eigh(dense, subset_by_index=(0, dimensions - 1), check_finite=False)[1]
            )
        if self.method == "auto":
            top = float(abs(matrix).sum(axis=1).max()) or 1.0  # ARPACK takes small ones for zero
            find = _by_products(lambda x: x - matrix @ x / top, SMALLEST * self.tolerance, RESTARTS)
            with contextlib.suppress(scipy.sparse.linalg.ArpackError):
                values, vectors = _smallest(find, matrix, null, dimensions)
                if values[0] > SMALLEST * top:
                    return vectors
        with krylov(matrix, SHIFT * matrix.diagonal().mean()) as find:
            return _smallest(find, matrix, null, dimensions)[1]

    @contextlib.contextmanager
    def _by_arpack(self, matrix, shift):  # type: ignore[no-untyped-def]
        shifted = (matrix + shift * scipy.sparse.identity(matrix.shape[0])).tocsc()
        factor = scipy.sparse.linalg.splu(
            shifted, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
        yield _by_products(factor.solve, SHARE * self.tolerance)

    @contextlib.contextmanager
    def _by_slepc(self, SLEPc, prefix, matrix, shift):  # type: ignore[no-untyped-def]
        from thalweg.parallel import PETSc

        local, integer = matrix.tocsr().sorted_indices(), PETSc.IntType
        csr = (local.indptr.astype(integer), local.indices.astype(integer), local.data)
        operator = PETSc.Mat().createAIJ(size=matrix.shape, csr=csr, comm=PETSc.COMM_SELF)
        solver = SLEPc.EPS().create(PETSc.COMM_SELF)

        def find(count, known):  # type: ignore[no-untyped-def]
            """Like that of ARPACK."""
            one = PETSc.COMM_SELF
            known = [PETSc.Vec().createWithArray(vector.copy(), comm=one) for vector in known.T]
            solver.setDeflationSpace(known)
            solver.setDimensions(count)
            solver.solve()
            if (converged := solver.getConverged()) < count:
                raise NumericalError(f"SLEPc found {converged} of {count} eigenvectors; {ADVICE}")
            return np.column_stack([v.getArray() for v in solver.getInvariantSubspace()])

        try:
            solver.setOptionsPrefix(prefix)
            solver.setOperators(operator)
            solver.setProblemType(SLEPc.EPS.ProblemType.HEP)
            solver.setTolerances(SHARE * self.tolerance, 500)
            solver.setTarget(-shift)
            solver.setWhichEigenpairs(SLEPc.EPS.Which.TARGET_MAGNITUDE)
            solver.getST().setType("sinvert")
            inverse = solver.getST().getKSP()
            inverse.setType("preonly")
            inverse.getPC().setType("cholesky")
            has_mumps = PETSc.Sys.hasExternalPackage("mumps")
            inverse.getPC().setFactorSolverType("mumps" if has_mumps else "petsc")
            yield find
        finally:
            solver.destroy()
            operator.destroy()


def _by_products(apply, tolerance, restarts=None):  # type: ignore[no-untyped-def]
    """How ARPACK finds vectors of the largest eigenvalues of a positive operator."""
    stream = np.random.default_rng(0)  # products with one start reach one vector of an eigenvalue

    def find(count, known):  # type: ignore[no-untyped-def]
        """So many of those orthogonal to the vectors known."""
        outside = lambda x: x - known @ (known.T @ x)  # noqa: E731
        start = outside(stream.standard_normal(len(known)))
        shape, turned = (len(known), len(known)), lambda x: outside(apply(outside(x)))
        operator = scipy.sparse.linalg.LinearOperator(shape, turned, dtype=float)
        return scipy.sparse.linalg.eigsh(
            operator, count, which="LA", v0=start, tol=tolerance, maxiter=restarts
        )[1]

    return find


def _smallest(find, matrix, null, count):  # type: ignore[no-untyped-def]
    """The smallest eigenvalues beyond the null vector's, and their vectors.

    Krylov methods find a vector of an eigenvalue, behind which others of equal ones hide: they
    are sought beyond those found, until none has a smaller eigenvalue.
    """
    vectors, values, before = np.empty((len(null), 0)), np.zeros(0), np.inf
    while True:
        more = find(1 if len(values) else count, np.column_stack([null, vectors]))
        basis = np.linalg.qr(np.column_stack([vectors, more]))[0]
        values, turn = np.linalg.eigh(basis.T @ (matrix @ basis))
        values, vectors = values[:count], (basis @ turn)[:, :count]
        if values.sum() >= (1.0 - 1e-9) * before:
            return values, vectors
        before = values.sum()
