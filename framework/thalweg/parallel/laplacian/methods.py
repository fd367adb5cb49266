"""The ways to solve with a Laplacian, by name."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from mpi4py import MPI

from thalweg.parallel.laplacian.dense_cholesky import DenseCholesky
from thalweg.parallel.laplacian.interface import Method
from thalweg.parallel.laplacian.jacobi import JacobiIterations
from thalweg.parallel.laplacian.on_root import OnRoot
from thalweg.parallel.laplacian.petsc_solver import KSP_OPTIONS, PetscSolver, user_options
from thalweg.parallel.layout import Layout
from thalweg.parallel.petsc import PETSc, options_prefix

#: Their names.
METHODS = (*KSP_OPTIONS, "dense")

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
    plain = scipy.sparse.issparse(rows) and not null_vectors and not user_options()
    if name == "jacobi" and layout.comm.allreduce(int(plain), op=MPI.MIN):
        return JacobiIterations(layout, scipy.sparse.csr_matrix(rows), rtol, iterations)
    if name not in SERIAL:
        return PetscSolver(layout, rows, name, rtol, iterations, null_vectors, prefix)

    def build(alone: Layout, whole: scipy.sparse.csr_matrix | np.ndarray) -> Method:
        if name == "dense":
            return DenseCholesky(whole if isinstance(whole, np.ndarray) else whole.toarray())
        return PetscSolver(alone, whole, name, rtol, iterations, [], prefix)

    return OnRoot(layout, rows, build)
