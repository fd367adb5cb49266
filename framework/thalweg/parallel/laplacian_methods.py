"""Ways to solve with a symmetric positive definite matrix, for several columns at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse
from mpi4py import MPI

from thalweg.errors import InputError, NumericalError
from thalweg.parallel.jacobi import JacobiIterations
from thalweg.parallel.layout import Layout
from thalweg.parallel.petsc import PETSc, options_prefix, temporary_options

#: Options under this prefix, for instance in ``PETSC_OPTIONS``, override those of a method.
USER_PREFIX = "thalweg_laplacian_"

#: KSP options of each method.
METHODS: dict[str, dict[str, Any]] = {
    "cholmod": {
        "ksp_type": "preonly",
        "pc_type": "cholesky",
        "pc_factor_mat_solver_type": "cholmod",
    },
    "mumps": {
        "ksp_type": "preonly",
        "pc_type": "cholesky",
        "pc_factor_mat_solver_type": "mumps",
    },
    "mumps-serial": {
        "ksp_type": "preonly",
        "pc_type": "cholesky",
        "pc_factor_mat_solver_type": "mumps",
    },
    "petsc": {
        "ksp_type": "preonly",
        "pc_type": "cholesky",
        "pc_factor_mat_solver_type": "petsc",
        "pc_factor_mat_ordering_type": "nd",
    },
    "amg": {"ksp_type": "cg", "pc_type": "gamg"},
    "icc": {"ksp_type": "cg", "pc_type": "icc"},
    "jacobi": {"ksp_type": "cg", "pc_type": "jacobi"},
    "dense": {},
}

_HYPRE = {
    "pc_type": "hypre",
    "pc_hypre_type": "boomeramg",
    "pc_hypre_boomeramg_coarsen_type": "HMIS",
}
_BLOCKS = {"pc_type": "bjacobi", "sub_pc_type": "icc"}


#: Methods that run on rank 0 alone.
SERIAL = frozenset({"dense", "cholmod", "mumps-serial", "petsc"})


def available(method: str) -> bool:
    """Whether this PETSc has what a method needs."""
    # Older versions of PETSc know CHOLMOD by the name of its collection.
    names = {
        "cholmod": ("cholmod", "suitesparse"),
        "mumps": ("mumps",),
        "mumps-serial": ("mumps",),
    }.get(method)
    return names is None or any(PETSc.Sys.hasExternalPackage(name) for name in names)


class Method(Protocol):
    """What a way to solve offers."""

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""

    def destroy(self) -> None:
        """Free what PETSc holds.  Collective."""


def create_method(
    layout: Layout,
    rows: scipy.sparse.csr_matrix | np.ndarray,
    name: str,
    rtol: float,
    iterations: int,
    null_vectors: list[np.ndarray],
) -> Method:
    """The solver called ``name`` for the matrix of which ``rows`` are this rank's.  Collective.

    See :class:`PetscSolver` for the parameters.

    Raises
    ------
    NumericalError
        The matrix could not be factored.
    """
    prefix = options_prefix("laplacian")
    plain = scipy.sparse.issparse(rows) and not null_vectors and not _user_options()
    if name == "jacobi" and layout.comm.allreduce(int(plain), op=MPI.MIN):
        return JacobiIterations(layout, scipy.sparse.csr_matrix(rows), rtol, iterations)
    if name not in SERIAL:
        return PetscSolver(layout, rows, name, rtol, iterations, null_vectors, prefix)

    def build(alone: Layout, whole: scipy.sparse.csr_matrix | np.ndarray) -> Method:
        if name == "dense":
            return DenseCholesky(whole if isinstance(whole, np.ndarray) else whole.toarray())
        return PetscSolver(alone, whole, name, rtol, iterations, [], prefix)

    return OnRoot(layout, rows, build)


class OnRoot:
    """A method that runs on rank 0, which gathers right-hand sides and scatters solutions.

    The arithmetic is that of one rank: the answer has the same bits at any number of
    ranks and every time, which no parallel factorization promises.
    """

    def __init__(
        self,
        layout: Layout,
        rows: scipy.sparse.csr_matrix | np.ndarray,
        build: Callable[[Layout, scipy.sparse.csr_matrix | np.ndarray], Method],
    ) -> None:
        self.layout, comm = layout, layout.comm
        self.method: Method | None = None
        whole = (
            _csr_on_root(layout, rows) if scipy.sparse.issparse(rows) else (_on_root(layout, rows))
        )
        trouble = None
        if comm.rank == 0:
            try:
                self.method = build(Layout(MPI.COMM_SELF, layout.rows, layout.columns), whole)
            except NumericalError as error:
                trouble = str(error)
        trouble = comm.bcast(trouble, root=0)
        if trouble is not None:
            raise NumericalError(trouble)

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""
        whole = _on_root(self.layout, block)
        if self.method is not None:
            whole = self.method.solve(whole)
        return _from_root(self.layout, whole, block)

    def destroy(self) -> None:
        """Free what PETSc holds.  Collective."""
        if self.method is not None:
            self.method.destroy()


def _on_root(layout: Layout, block: np.ndarray) -> np.ndarray:
    """All ranks' blocks on rank 0, an array of no rows on the others."""
    if layout.comm.size == 1:
        return block
    row = MPI.DOUBLE.Create_contiguous(max(1, block.shape[1])).Commit()
    whole = np.empty((layout.rows if layout.comm.rank == 0 else 0, block.shape[1]))
    try:
        layout.comm.Gatherv(
            [np.ascontiguousarray(block), layout.local_rows, row],
            [whole, layout.counts(), layout.starts[:-1], row],
            root=0,
        )
    finally:
        row.Free()
    return whole


def _from_root(layout: Layout, whole: np.ndarray, like: np.ndarray) -> np.ndarray:
    if layout.comm.size == 1:
        return whole
    block = np.empty(like.shape)
    row = MPI.DOUBLE.Create_contiguous(max(1, like.shape[1])).Commit()
    try:
        layout.comm.Scatterv(
            [np.ascontiguousarray(whole), layout.counts(), layout.starts[:-1], row],
            [block, layout.local_rows, row],
            root=0,
        )
    finally:
        row.Free()
    return block


def _csr_on_root(layout: Layout, rows: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    comm = layout.comm
    if comm.size == 1:
        return rows
    entries = np.asarray(comm.allgather(int(rows.nnz)), dtype=np.int64)
    by_entry = Layout.__new__(Layout)
    by_entry.comm, by_entry.rows, by_entry.columns = comm, int(entries.sum()), 1
    by_entry.starts = np.concatenate([[0], np.cumsum(entries)])
    # Numbers below 2**53 pass unharmed through float64, and share its way.
    columns = _on_root(by_entry, rows.indices.astype(float)[:, None])
    data = _on_root(by_entry, np.asarray(rows.data, dtype=float)[:, None])
    lengths = _on_root(layout, np.diff(rows.indptr).astype(float)[:, None])
    if comm.rank != 0:
        return rows[:0]
    pointers = np.concatenate([[0], np.cumsum(lengths[:, 0].astype(np.int64))])
    return scipy.sparse.csr_matrix(
        (data[:, 0], columns[:, 0].astype(np.int64), pointers), shape=(layout.rows, layout.rows)
    )


class DenseCholesky:
    """LAPACK's Cholesky factor of a whole matrix."""

    def __init__(self, whole: np.ndarray) -> None:
        try:
            # The transpose is the same matrix, and in LAPACK's order without a copy.
            self.factor = scipy.linalg.cho_factor(
                whole.T, lower=True, overwrite_a=True, check_finite=False
            )
        except np.linalg.LinAlgError as error:
            raise NumericalError(f"the Laplacian is not positive definite: {error}") from error

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for the right-hand sides."""
        return np.asarray(scipy.linalg.cho_solve(self.factor, block, check_finite=False))

    def destroy(self) -> None:
        """Nothing to free."""


class PetscSolver:
    """A KSP: a factorization applied to all columns at once, or Krylov iterations on each.

    Parameters
    ----------
    layout
        Its columns are the right-hand sides of a solve.
    rows
        This rank's rows of the matrix, a CSR matrix or a dense array.
    method
        A key of :data:`METHODS` other than ``"dense"``.
    rtol, iterations
        Where Krylov iterations end: relative residual, and their number.
    null_vectors
        This rank's rows of orthonormal vectors to keep out of Krylov solutions.
    prefix
        Options prefix of its own.
    """

    def __init__(
        self,
        layout: Layout,
        rows: scipy.sparse.csr_matrix | np.ndarray,
        method: str,
        rtol: float,
        iterations: int,
        null_vectors: list[np.ndarray],
        prefix: str,
    ) -> None:
        self.layout = layout
        self._held: list[Any] = []
        self.matrix = self._hold(_matrix(layout, rows))
        for vector in null_vectors:
            self._hold(layout.with_columns(1).vec_from(vector))
        if null_vectors:
            space = self._hold(
                PETSc.NullSpace().create(constant=False, vectors=self._held[1:], comm=layout.comm)
            )
            self.null_space = space
        defaults = dict(METHODS[method])
        if method == "amg" and PETSc.Sys.hasExternalPackage("hypre"):
            defaults.update(_HYPRE)
        if method == "icc" and layout.comm.size > 1:
            defaults.update(_BLOCKS)
        defaults.update(_user_options())
        self.ksp = self._hold(PETSc.KSP().create(layout.comm))
        self.ksp.setOptionsPrefix(prefix)
        self.ksp.setOperators(self.matrix)
        self.ksp.setTolerances(rtol=rtol, atol=0.0, max_it=iterations)
        with temporary_options(prefix, defaults):
            self.ksp.setFromOptions()
            self.direct = self.ksp.getType() == "preonly" and self.ksp.getPC().getType() in {
                "cholesky",
                "lu",
            }
            if null_vectors and not self.direct:
                self.matrix.setNullSpace(self.null_space)
            self.ksp.setErrorIfNotConverged(self.direct)
            try:
                self.ksp.setUp()
            except PETSc.Error as error:
                self.destroy()
                raise NumericalError(
                    f"the Laplacian could not be factored by '{method}' (PETSc error "
                    f"{error.ierr}); try another method"
                ) from error
            if not self.direct:
                self.ksp.setUpOnBlocks()
        if self.direct:
            self.factor = self._hold(self.ksp.getPC().getFactorMatrix())
            shape = ((layout.local_rows, layout.rows), (PETSc.DECIDE, layout.columns))
            self.right = self._hold(_dense(layout, shape))
            self.left = self._hold(_dense(layout, shape))
        else:
            self.right, self.left = map(self._hold, self.matrix.createVecs())
        self.iterations = 0

    def _hold(self, thing: Any) -> Any:
        self._held.append(thing)
        return thing

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""
        if self.direct:
            array = self.right.getDenseArray()
            array[...] = block
            del array
            self.right.stateIncrease()
            self.factor.matSolve(self.right, self.left)
            return self.left.getDenseArray(readonly=True)
        solution = np.empty(block.shape)
        self.iterations = 0
        for column in range(block.shape[1]):
            self.right.getArray()[...] = block[:, column]
            self.right.stateIncrease()
            self.ksp.solve(self.right, self.left)
            reason = self.ksp.getConvergedReason()
            # Iterations cut short still give a descent direction; a breakdown does not.
            if reason < 0 and reason != PETSc.KSP.ConvergedReason.DIVERGED_MAX_IT:
                raise NumericalError(f"the Laplacian's iterations broke down (KSP reason {reason})")
            self.iterations += self.ksp.getIterationNumber()
            solution[:, column] = self.left.getArray(readonly=True)
        return solution

    def destroy(self) -> None:
        """Free what PETSc holds.  Collective."""
        while self._held:
            self._held.pop().destroy()


def _user_options() -> dict[str, Any]:
    given = PETSc.Options(USER_PREFIX).getAll()
    return {name: "" if value is None else value for name, value in given.items()}


def _matrix(layout: Layout, rows: scipy.sparse.csr_matrix | np.ndarray) -> PETSc.Mat:
    size = ((layout.local_rows, layout.rows), (layout.local_rows, layout.rows))
    if not isinstance(rows, np.ndarray):
        limit = np.iinfo(PETSc.IntType).max
        if rows.nnz > limit:
            raise InputError(
                f"this rank holds {rows.nnz} weights, more than PETSc's integers count; "
                "use more ranks or fewer neighbours"
            )
        csr = (
            rows.indptr.astype(PETSc.IntType, copy=False),
            rows.indices.astype(PETSc.IntType, copy=False),
            np.asarray(rows.data, dtype=PETSc.ScalarType),
        )
        matrix = PETSc.Mat().createAIJ(size, csr=csr, comm=layout.comm)
    else:
        matrix = _dense(layout, size)
        array = matrix.getDenseArray()
        array[...] = rows
        del array
        matrix.stateIncrease()
    matrix.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    matrix.setOption(PETSc.Mat.Option.SPD, True)
    return matrix


def _dense(layout: Layout, size: Any) -> PETSc.Mat:
    matrix = PETSc.Mat().createDense(size, comm=layout.comm)
    matrix.setUp()
    matrix.assemble()
    return matrix
