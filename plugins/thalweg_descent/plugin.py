"""Specs of this plugin; options are declared on the classes that take them."""

from thalweg.plugins import PreconditionerSpec, SolverSpec, hookimpl

THALWEG_API = 1


@hookimpl
def thalweg_preconditioners() -> list[PreconditionerSpec]:
    """The identity; problems bring others."""
    return [
        PreconditionerSpec(
            name="identity",
            summary="no preconditioning: B = I",
            load="thalweg_descent.descent:Identity",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """Native descent solvers, and the adapters to TAO and SciPy."""
    return [
        SolverSpec(
            name="lbfgs",
            summary="limited-memory BFGS with any preconditioner as H0",
            load="thalweg_descent.lbfgs:LBFGS",
        ),
        SolverSpec(
            name="gradient-descent",
            summary="steepest descent in the metric of B, p = -B^-1 g, with a line search",
            load="thalweg_descent.gradient_descent:GradientDescent",
        ),
        SolverSpec(
            name="nonlinear-cg",
            summary="preconditioned nonlinear conjugate gradients",
            load="thalweg_descent.nonlinear_cg:NonlinearCG",
        ),
        SolverSpec(
            name="tao",
            variant="type",
            summary="a solver of PETSc's TAO, for instance tao:lmvm, tao:nls or tao:ntr",
            load="thalweg_descent.tao:Tao",
        ),
        SolverSpec(
            name="scipy",
            variant="method",
            summary="a method of scipy.optimize.minimize, run on rank 0, evaluated on all ranks",
            load="thalweg_descent.scipy_minimize:ScipyMinimize",
        ),
    ]
