"""PETSc's factorizations and preconditioned iterations, for several columns at once."""

from typing import Any

import numpy as np

from thalweg.engines.laplacian.contract import MatrixRows, SolutionMethod, System
from thalweg.engines.laplacian.methods import available
from thalweg.errors import InputError, NumericalError, RankError
from thalweg.parallel import Layout, PETSc, raise_on_all_ranks
from thalweg.parallel.petsc import temporary_options, unused_options, vec_over

#: Options under this prefix, for instance in ``PETSC_OPTIONS``, override those of a method.
USER_PREFIX = "thalweg_laplacian_"


def _cholesky(package: str, **more: str) -> dict[str, Any]:
    factor = {"pc_type": "cholesky", "pc_factor_mat_solver_type": package}
    return {"ksp_type": "preonly", **factor, **more}


#: Conjugate gradients that end by the residual itself, before they precondition it once more.
_CG = {"ksp_type": "cg", "ksp_norm_type": "unpreconditioned"}

#: KSP options of each method that PETSc runs.
KSP_OPTIONS: dict[str, dict[str, Any]] = {
    "cholmod": _cholesky("cholmod"),
    "mumps": _cholesky("mumps"),
    "mumps-serial": _cholesky("mumps"),
    "petsc": _cholesky("petsc", pc_factor_mat_ordering_type="nd"),
    "blocks": {**_CG, "pc_type": "bjacobi", "sub_pc_type": "cholesky"},
    "amg": {**_CG, "pc_type": "gamg"},
    "icc": {**_CG, "pc_type": "icc", "pc_factor_mat_ordering_type": "rcm"},
    "jacobi": {**_CG, "pc_type": "jacobi"},
}

_HYPRE = {
    "pc_type": "hypre",
    "pc_hypre_type": "boomeramg",
    "pc_hypre_boomeramg_coarsen_type": "HMIS",
}
_BLOCKS = {"pc_type": "bjacobi", "sub_pc_type": "icc", "sub_pc_factor_mat_ordering_type": "rcm"}


class PetscSolver(SolutionMethod):
    """A KSP: a factorization applied to all columns at once, or Krylov iterations on each.

    The system's name is a key of :data:`KSP_OPTIONS`; ``prefix`` is an options prefix of its own.
    """

    def __init__(self, system: System, prefix: str) -> None:
        self.layout = layout = system.layout
        method, null_vectors = system.name, system.null_vectors
        self._owned: list[Any] = []
        self.matrix = self._own(_matrix(layout, system.rows))
        for vector in null_vectors:
            self._own(vec_over(layout.with_columns(1), vector.copy()))
        if null_vectors:
            vectors = self._owned[1:]
            space = PETSc.NullSpace().create(constant=False, vectors=vectors, comm=layout.comm)
            self.null_space = self._own(space)
        defaults = dict(KSP_OPTIONS[method])
        if method == "amg" and PETSc.Sys.hasExternalPackage("hypre"):
            defaults.update(_HYPRE)
        if method == "icc" and layout.comm.size > 1:
            defaults.update(_BLOCKS)
        if method == "blocks":
            package = next((p for p in ("cholmod", "mumps-serial") if available(p)), "petsc")
            factor = KSP_OPTIONS[package]
            defaults.update({f"sub_{k}": v for k, v in factor.items() if k.startswith("pc_")})
            if not layout.local_rows:  # CHOLMOD factors no empty block
                defaults["sub_pc_type"] = "none"
        options_of_user = user_options()
        defaults.update(options_of_user)
        self.ksp = self._own(PETSc.KSP().create(layout.comm))
        self.ksp.setOptionsPrefix(prefix)
        self.ksp.setOperators(self.matrix)
        self.ksp.setTolerances(rtol=system.rtol, atol=0.0, max_it=system.iterations)
        with temporary_options(prefix, defaults):
            try:
                with raise_on_all_ranks(layout.comm):  # a block fails on its rank alone
                    self.ksp.setFromOptions()
                    factored = self.ksp.getPC().getType() in ("cholesky", "lu")
                    if not factored and "ksp_type" not in options_of_user:
                        self.ksp.setType("cg")  # where options replace a factor
                    self.direct = factored and self.ksp.getType() == "preonly"
                    if null_vectors and not self.direct:
                        self.matrix.setNullSpace(self.null_space)
                    self.ksp.setErrorIfNotConverged(self.direct)
                    self.ksp.setUp()
                    self.ksp.setUpOnBlocks()
            except (PETSc.Error, RankError) as error:
                self.close()
                raise NumericalError(
                    f"the Laplacian could not be factored by '{method}' (PETSc error "
                    f"{getattr(error, 'ierr', 'of another rank')}); try another method"
                ) from error
            for name in options_of_user:
                if not unused_options([prefix + name]):
                    PETSc.Options().getString(USER_PREFIX + name)  # which counts as a use
        if self.direct:
            self.factor = self._own(self.ksp.getPC().getFactorMatrix())
            self.factor_entries = int(self.factor.getInfo(PETSc.Mat.InfoType.GLOBAL_SUM)["nz_used"])
            shape = ((layout.local_rows, layout.rows), (PETSc.DECIDE, layout.columns))
            self.right = self._own(_dense(layout, shape))
            self.left = self._own(_dense(layout, shape))
        else:
            self.right, self.left = map(self._own, self.matrix.createVecs())

    def _own(self, thing: Any) -> Any:
        self._owned.append(thing)
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
        for column in range(block.shape[1]):
            self.right.getArray()[...] = block[:, column]
            self.right.stateIncrease()
            self.ksp.solve(self.right, self.left)
            reason = self.ksp.getConvergedReason()
            # Iterations cut short still give a descent direction; a breakdown does not.
            if reason < 0 and reason != PETSc.KSP.ConvergedReason.DIVERGED_MAX_IT:
                raise NumericalError(f"the Laplacian's iterations broke down (KSP reason {reason})")
            solution[:, column] = self.left.getArray(readonly=True)
        return solution

    def close(self) -> None:
        """Free what PETSc holds.  Collective."""
        while self._owned:
            self._owned.pop().destroy()


def user_options() -> dict[str, Any]:
    """The user's options under :data:`USER_PREFIX`."""
    options = PETSc.Options(USER_PREFIX).getAll()
    return {name: "" if value is None else value for name, value in options.items()}


def _matrix(layout: Layout, rows: MatrixRows) -> PETSc.Mat:
    size = ((layout.local_rows, layout.rows), (layout.local_rows, layout.rows))
    if not isinstance(rows, np.ndarray):
        limit = np.iinfo(PETSc.IntType).max
        with raise_on_all_ranks(layout.comm):
            if rows.nnz > limit:
                raise InputError(
                    f"rank {layout.comm.rank} holds {rows.nnz} weights, and PETSc counts to "
                    f"{limit} here; use more ranks, fewer neighbors, or a PETSc configured "
                    "with 64-bit indices"
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
