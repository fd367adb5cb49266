"""The solver ``eigen``: the eigenvectors of smallest eigenvalues, in one step."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

from thalweg.errors import InputError, NumericalError
from thalweg.interfaces import Capability, Objective, Solver, SolverState
from thalweg.parallel import PETSc, on_root, options_prefix, sum_over_ranks, temporary_options
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_embedding.eigenmaps.objective import SmallestEigenvectors

#: Rows up to which a dense eigenproblem on one rank is quickest.
DENSE_ROWS = 1500

#: The matrix is shifted by this share of its mean diagonal entry before it is factored.
SHIFT = 1e-6


@dataclass(kw_only=True)
class EigenState(SolverState):
    """State of ``eigen``: whether the step is taken, and the residual."""

    done: bool = False


@dataclass(frozen=True, kw_only=True)
class Eigen(Solver[EigenState]):
    """Eigenvectors of the smallest eigenvalues beyond a known null vector.

    Attributes
    ----------
    method
        ``"slepc"``: Krylov-Schur over the ranks, the matrix factored on one; ``"arpack"``: the
        same on rank 0; ``"lobpcg"``: SciPy's block method on rank 0, nothing factored;
        ``"dense"``: LAPACK on rank 0; ``"auto"``: dense up to 1,500 rows, then SLEPc where it
        is installed, else ARPACK.
    tolerance
        Relative residual.
    """

    method: Annotated[
        Literal["auto", "dense", "slepc", "arpack", "lobpcg"],
        Help("how the eigenproblem is solved"),
    ] = "auto"
    tolerance: Annotated[float, Help("relative residual", above=0, below=0.1)] = 1e-9

    requires: ClassVar[tuple[type[Capability], ...]] = (SmallestEigenvectors,)

    def init(self, objective: Objective, x: PETSc.Vec) -> EigenState:
        """Evaluate the start."""
        gradient = x.duplicate()
        value = objective.value_and_gradient(x, gradient)
        return EigenState(
            objective=objective,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=gradient.norm(),
            evaluations=1,
        )

    def step(self, state: EigenState) -> EigenState:
        """Solve the eigenproblem."""
        objective = state.objective
        assert isinstance(objective, SmallestEigenvectors)
        assert state.gradient is not None
        layout = objective.layout
        wanted = layout.columns
        if wanted >= layout.rows:
            raise InputError(
                f"a map of {layout.rows} points by eigenvectors has at most {layout.rows - 1} "
                f"dimensions, not {wanted}"
            )
        if self._method(layout.rows) == "slepc":
            vectors = self._by_slepc(objective, wanted)
        else:
            vectors = self._on_root(objective, wanted)
        with layout.writing(state.x) as rows:
            rows[...] = vectors
        state.value = objective.value_and_gradient(state.x, state.gradient)
        state.gradient_norm = state.gradient.norm()
        state.evaluations += 1
        state.done = True
        return state

    def status(self, state: EigenState) -> Status:
        """Converged after the one step."""
        return Status.CONVERGED if state.done else Status.RUNNING

    def _method(self, rows: int) -> str:
        if self.method != "auto":
            if self.method == "slepc" and importlib.util.find_spec("slepc4py") is None:
                raise InputError("method 'slepc' needs slepc4py; install it, or use 'arpack'")
            return self.method
        if rows <= DENSE_ROWS:
            return "dense"
        return "slepc" if importlib.util.find_spec("slepc4py") is not None else "arpack"

    def _by_slepc(self, objective: Any, wanted: int) -> np.ndarray:
        import slepc4py

        slepc4py.init()
        from slepc4py import SLEPc

        layout = objective.layout
        matrix = _petsc_matrix(objective)
        shift = SHIFT * _mean_diagonal(objective)
        null = layout.with_columns(1).vec_from(objective.null_vector)
        prefix = options_prefix("eigen")
        solver = SLEPc.EPS().create(layout.comm)
        try:
            solver.setOptionsPrefix(prefix)
            solver.setOperators(matrix)
            solver.setProblemType(SLEPc.EPS.ProblemType.HEP)
            solver.setDeflationSpace(null)
            solver.setDimensions(wanted)
            solver.setTolerances(self.tolerance, 500)
            solver.setTarget(-shift)
            solver.setWhichEigenpairs(SLEPc.EPS.Which.TARGET_MAGNITUDE)
            package = "mumps" if PETSc.Sys.hasExternalPackage("mumps") else "petsc"
            # Factored on one rank: on several, MUMPS adds in the order in which messages come,
            # and no two runs would give the same bits.
            factor = {
                "st_type": "sinvert",
                "st_ksp_type": "preonly",
                "st_pc_type": "telescope",
                "st_pc_telescope_reduction_factor": layout.comm.size,
                "st_telescope_ksp_type": "preonly",
                "st_telescope_pc_type": "cholesky",
                "st_telescope_pc_factor_mat_solver_type": package,
            }
            with temporary_options(prefix, factor):
                solver.setFromOptions()
                solver.solve()
            if solver.getConverged() < wanted:
                raise NumericalError(
                    f"SLEPc found {solver.getConverged()} of {wanted} eigenvectors; "
                    "try method = 'arpack' or a looser tolerance"
                )
            vectors = np.empty((layout.local_rows, wanted))
            vector = null.duplicate()
            for i in range(wanted):
                solver.getEigenvector(i, vector)
                vectors[:, i] = vector.getArray(readonly=True)
            vector.destroy()
            return vectors
        finally:
            solver.destroy()
            matrix.destroy()
            null.destroy()

    def _on_root(self, objective: Any, wanted: int) -> np.ndarray:
        layout = objective.layout
        comm = layout.comm
        parts = comm.gather(objective.matrix, root=0)
        null = layout.gather_rows(objective.null_vector)
        shift = SHIFT * _mean_diagonal(objective)

        def solve() -> np.ndarray:
            matrix = scipy.sparse.vstack(parts).tocsc()
            return self._alone(matrix, null, shift, wanted)

        whole = on_root(comm, solve)
        return np.array(whole[layout.start : layout.stop])

    def _alone(
        self, matrix: scipy.sparse.csc_matrix, null: np.ndarray, shift: float, wanted: int
    ) -> np.ndarray:
        rows = matrix.shape[0]
        method = self._method(rows)
        if method == "slepc" or wanted + 2 >= rows:
            method = "dense"
        if method == "dense":
            # The null vector's eigenvalue is moved above all others.
            top = 2.0 * float(abs(matrix).sum(axis=1).max()) + 1.0
            dense = matrix.toarray() + top * np.outer(null, null)
            return np.asarray(
                scipy.linalg.eigh(dense, subset_by_index=(0, wanted - 1), check_finite=False)[1]
            )
        start = np.random.default_rng(0).standard_normal((rows, wanted + 2))
        start -= np.outer(null, null @ start)
        if method == "lobpcg":
            scale = 1.0 / np.maximum(matrix.diagonal() + shift, 1e-300)
            _, vectors = scipy.sparse.linalg.lobpcg(
                matrix,
                start,
                M=scipy.sparse.diags(scale),
                Y=null[:, None],
                tol=np.sqrt(self.tolerance),
                maxiter=2000,
                largest=False,
            )
            return np.asarray(vectors)[:, :wanted]
        _, vectors = scipy.sparse.linalg.eigsh(
            matrix,
            wanted + 1,
            sigma=-shift,
            which="LM",
            v0=start[:, 0],
            tol=self.tolerance,
        )
        # One direction of these, the nearest to the null vector, is taken out.
        overlap = null @ vectors
        away = scipy.linalg.null_space(overlap[None, :])
        inside = vectors @ away
        values, turn = np.linalg.eigh(inside.T @ (matrix @ inside))
        return np.asarray(inside @ turn[:, np.argsort(values)])[:, :wanted]


def _petsc_matrix(objective: Any) -> PETSc.Mat:
    layout = objective.layout
    local = objective.matrix.tocsr().sorted_indices()
    size = (layout.local_rows, layout.rows)
    integer = PETSc.IntType
    return PETSc.Mat().createAIJ(
        size=(size, size),
        csr=(local.indptr.astype(integer), local.indices.astype(integer), local.data),
        comm=layout.comm,
    )


def _mean_diagonal(objective: Any) -> float:
    layout = objective.layout
    own = objective.matrix.diagonal(k=layout.start) if layout.local_rows else np.zeros(1)
    return float(sum_over_ranks(layout.comm, float(own.sum()))) / layout.rows
