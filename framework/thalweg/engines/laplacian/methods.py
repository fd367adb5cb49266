"""The methods that solve with a Laplacian, by name, and those that run on rank 0 alone."""

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import splu

from thalweg.engines.laplacian.contract import SolutionMethod, System
from thalweg.engines.laplacian.jacobi import JacobiIterations
from thalweg.errors import InputError, NumericalError
from thalweg.parallel import MPI, raise_on_all_ranks
from thalweg.parallel.layout import MPI_COUNT, Layout

#: Methods, by name, in words; those that need no PETSc; those that run on rank 0 alone.
METHODS = {
    "cholmod": "CHOLMOD's factor on rank 0",
    "mumps": "MUMPS's factor, distributed by PETSc",
    "mumps-serial": "MUMPS's factor on rank 0",
    "petsc": "PETSc's factor on rank 0",
    "superlu": "SuperLU's factor on rank 0",
    "dense": "LAPACK's dense factor on rank 0",
    "blocks": "PETSc's conjugate gradients and complete factors of each rank's block",
    "amg": "PETSc's conjugate gradients and algebraic multigrid",
    "icc": "PETSc's conjugate gradients and incomplete factors of each rank's block",
    "jacobi": "conjugate gradients and the diagonal",
}
OWN = frozenset({"jacobi", "dense", "superlu"})
SERIAL = frozenset({"dense", "cholmod", "mumps-serial", "petsc", "superlu"})


def describe(system: System, entries: int, factor_entries: int) -> str:
    """A method, where it ends if it iterates, and its cost, in words."""
    words = f"'{system.name}': {METHODS[system.name]}"
    if system.name in ("blocks", "amg", "icc", "jacobi"):
        words += f", to a residual of {system.rtol:g} in at most {system.iterations} iterations"
    if has_petsc():
        from thalweg.engines.laplacian.petsc_solver import USER_PREFIX, user_options

        words += "".join(f", with -{USER_PREFIX}{name} {v}" for name, v in user_options().items())
    factor = f", {factor_entries:,} in the factor" if factor_entries else ""
    return f"{words} ({entries:,} weights{factor})"


@cache
def has_petsc() -> bool:
    """Whether petsc4py is installed."""
    return importlib.util.find_spec("petsc4py") is not None


def available(method: str) -> bool:
    """Whether there is a PETSc, and has what a method needs."""
    if method in OWN or not has_petsc():
        return method in OWN
    from thalweg.parallel import PETSc

    # Older versions of PETSc know CHOLMOD by the name of its collection.
    packages = {"cholmod": ("cholmod", "suitesparse"), "mumps": ("mumps",)}
    names = packages.get(method.removesuffix("-serial"))
    return names is None or any(PETSc.Sys.hasExternalPackage(name) for name in names)


def create_method(system: System) -> SolutionMethod:
    """The solver of the system's name.  Collective.

    A ``NumericalError`` where the matrix cannot be factored.
    """
    layout, rows, name = system.layout, system.rows, system.name
    plain = scipy.sparse.issparse(rows) and not system.null_vectors
    if has_petsc():
        from thalweg.engines.laplacian.petsc_solver import PetscSolver, user_options
        from thalweg.parallel import options_prefix

        prefix, plain = options_prefix("laplacian"), plain and not user_options()
    if name == "jacobi" and (not has_petsc() or layout.comm.allreduce(int(plain), op=MPI.MIN)):
        rows = scipy.sparse.csr_matrix(rows)
        return JacobiIterations(layout, rows, system.rtol, system.iterations)
    if name not in SERIAL:
        return PetscSolver(system, prefix)
    return OnRoot(system, SciPyFactor if name in OWN else partial(PetscSolver, prefix=prefix))


class SciPyFactor(SolutionMethod):
    """LAPACK's Cholesky factor of a whole matrix, or SuperLU's in an order for symmetric ones."""

    def __init__(self, system: System) -> None:
        # The transpose is the same matrix, by columns, as both want it.
        whole = system.rows.T
        try:
            if system.name == "dense":
                whole = whole if isinstance(whole, np.ndarray) else whole.toarray(order="F")
                factor = cho_factor(whole, lower=True, overwrite_a=True, check_finite=False)
                self._solve: Callable[..., Any] = partial(cho_solve, factor, check_finite=False)
            else:
                symmetric = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}
                self._solve = splu(whole, diag_pivot_thresh=0.0, **symmetric).solve
        except np.linalg.LinAlgError as error:
            raise NumericalError(f"the Laplacian is not positive definite: {error}") from error
        except RuntimeError as error:
            raise NumericalError(f"the Laplacian could not be factored: {error}") from error

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for the right-hand sides."""
        return np.asarray(self._solve(np.ascontiguousarray(block)))


class OnRoot(SolutionMethod):
    """A method that runs on rank 0, which gathers right-hand sides and scatters solutions.

    The arithmetic is that of one rank: the answer has the same bits at any number of
    ranks and every time, which no parallel factorization promises.
    """

    def __init__(self, system: System, build: Callable[[System], SolutionMethod]) -> None:
        self.layout = layout = system.layout
        self.method: SolutionMethod | None = None
        gather = _csr_on_root if scipy.sparse.issparse(system.rows) else Layout.gather_on_root
        whole = gather(layout, system.rows)
        with raise_on_all_ranks(layout.comm):
            if layout.comm.rank == 0:
                alone = Layout(MPI.COMM_SELF, layout.rows, layout.columns)
                self.method = build(replace(system, layout=alone, rows=whole, null_vectors=()))
        self.factor_entries = layout.comm.bcast(self.method.factor_entries if self.method else 0)

    def solve(self, block: np.ndarray) -> np.ndarray:
        """Solution for this rank's rows of the right-hand sides.  Collective."""
        whole = self.layout.gather_on_root(block)
        with raise_on_all_ranks(self.layout.comm):
            if self.method is not None:
                whole = self.method.solve(whole)
        return self.layout.scatter_from_root(whole, block.shape[1:], block.dtype)

    def close(self) -> None:
        """Free what PETSc holds.  Collective."""
        if self.method is not None:
            self.method.close()


def _csr_on_root(layout: Layout, rows: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    comm = layout.comm
    if comm.size == 1:
        return rows
    total = comm.allreduce(int(rows.nnz))
    if total > MPI_COUNT:
        raise InputError(
            f"a matrix of {total} entries is too large for one rank, since MPI counts to "
            f"{MPI_COUNT}; use a distributed method: 'mumps', 'amg', 'icc' or 'jacobi'"
        )
    by_entry = Layout(comm, total, local_rows=rows.nnz)
    columns = by_entry.gather_on_root(rows.indices.astype(np.int64))
    data = by_entry.gather_on_root(np.asarray(rows.data, dtype=float))
    lengths = layout.gather_on_root(np.diff(rows.indptr).astype(np.int64))
    if comm.rank != 0:
        return rows[:0]
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_matrix((data, columns, pointers), shape=(layout.rows, layout.rows))
