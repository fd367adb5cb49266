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
        SolverSpec(name=name, variant=variant, summary=summary, load=f"thalweg_descent.{code}")
        for name, variant, code, summary in (
            ("lbfgs", "", "lbfgs:LBFGS", "limited-memory BFGS with any preconditioner as H0"),
            ("gradient-descent", "", "gradient_descent:GradientDescent",
             "steepest descent in the metric of B, p = -B^-1 g, with a line search"),
            ("nonlinear-cg", "", "nonlinear_cg:NonlinearCG",
             "preconditioned nonlinear conjugate gradients"),
            ("tao", "type", "tao:Tao",
             "a solver of PETSc's TAO, for instance tao:lmvm, tao:nls or tao:ntr"),
            ("scipy", "method", "scipy_minimize:ScipyMinimize",
             "a method of scipy.optimize.minimize, run on rank 0, evaluated on all ranks"),
        )
    ]  # fmt: skip
