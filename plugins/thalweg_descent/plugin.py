"""What this plugin provides."""

from __future__ import annotations

from thalweg.plugins import Option, PreconditionerSpec, SolverSpec, hookimpl


def _line_search(
    default: str, curvature: float, step_cap: float | None = None
) -> tuple[Option, ...]:
    return (
        Option(
            "line_search",
            str,
            default,
            "how the step along a direction is chosen",
            choices=("backtracking", "strong-wolfe"),
        ),
        Option(
            "armijo",
            float,
            1e-4,
            "share of the decrease that the slope promises which a step must bring",
            above=0,
            below=0.5,
        ),
        Option(
            "curvature",
            float,
            curvature,
            "share of the slope that may be left at the end of a step (strong-wolfe)",
            above=0,
            below=1,
        ),
        Option(
            "shrink",
            float,
            0.8,
            "largest ratio of a step to the rejected one before it (backtracking)",
            minimum=0.1,
            below=1,
        ),
        Option("trials", int, 40, "most evaluations of one line search", minimum=1),
        Option(
            "step_cap",
            float,
            step_cap,
            "most that a row may move in one step, in extents of the iterate; no cap if not given",
            above=0,
        ),
        Option(
            "step_cap_unit",
            str,
            "extent",
            "what the step cap is measured in: the iterate's extent, or the variable's own unit",
            choices=("extent", "absolute"),
        ),
    )


_RESTART_FOREIGN = Option(
    "restart",
    int,
    200,
    "iterations after which the foreign solver starts afresh; a resumed run repeats up to as many",
    minimum=1,
)


@hookimpl
def thalweg_preconditioners() -> list[PreconditionerSpec]:
    """The identity; problems bring others."""
    return [
        PreconditionerSpec(
            name="identity",
            summary="no preconditioning: B = I",
            load="thalweg_descent.identity:Identity",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """Native descent solvers, and the adapters to TAO and SciPy."""
    return [
        SolverSpec(
            name="gradient-descent",
            summary="p = -B^-1 g with a line search: GD, fixed point, spectral direction, by B",
            load="thalweg_descent.gradient_descent:GradientDescent",
            options=(
                *_line_search("backtracking", 0.9),
                Option(
                    "growth",
                    float,
                    2.0,
                    "factor by which a step that was too short grows for the next one",
                    minimum=1,
                ),
                Option(
                    "first_step",
                    float,
                    None,
                    "step to try first; chosen by the problem's scale if not given",
                    above=0,
                ),
            ),
        ),
        SolverSpec(
            name="nonlinear-cg",
            summary="preconditioned nonlinear conjugate gradients",
            load="thalweg_descent.nonlinear_cg:NonlinearCG",
            options=(
                *_line_search("strong-wolfe", 0.1),
                Option(
                    "beta",
                    str,
                    "polak-ribiere+",
                    "rule that makes directions conjugate",
                    choices=("polak-ribiere+", "hager-zhang", "fletcher-reeves", "dai-yuan"),
                ),
                Option(
                    "restart",
                    int,
                    None,
                    "steps between restarts along -B^-1 g; as many as unknowns if not given",
                    minimum=1,
                ),
            ),
        ),
        SolverSpec(
            name="lbfgs",
            summary="limited-memory BFGS with any preconditioner as H0",
            load="thalweg_descent.lbfgs:LBFGS",
            options=(
                *_line_search("backtracking", 0.9, step_cap=1.0),
                Option("memory", int, 10, "number of curvature pairs", minimum=1),
                Option(
                    "scaling",
                    str,
                    "secant",
                    "factor of H0: by the last curvature pair, or none",
                    choices=("secant", "none"),
                ),
                Option(
                    "damping",
                    str,
                    "skip",
                    "what to do with a step that shows too little curvature",
                    choices=("skip", "powell"),
                ),
            ),
        ),
        SolverSpec(
            name="tao",
            variant="type",
            summary="a solver of PETSc's TAO, for instance tao:lmvm, tao:nls or tao:ntr",
            load="thalweg_descent.tao:Tao",
            options=(
                Option("type", str, "lmvm", "TAO type"),
                _RESTART_FOREIGN,
            ),
        ),
        SolverSpec(
            name="scipy",
            variant="method",
            summary="a method of scipy.optimize.minimize, run on rank 0, evaluated on all ranks",
            load="thalweg_descent.scipy_minimize:ScipyMinimize",
            options=(
                Option("method", str, "L-BFGS-B", "method of scipy.optimize.minimize"),
                _RESTART_FOREIGN,
            ),
        ),
    ]
