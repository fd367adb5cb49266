"""What this plugin provides: near-isometric linear embeddings and their certificate."""

from __future__ import annotations

from thalweg.plugins import CommandSpec, ObjectiveSpec, Option, SolverSpec, hookimpl


def _shared(adjust: str, columns: int, all_below: int) -> tuple[Option, ...]:
    return (
        Option(
            "adjust",
            str,
            adjust,
            "how a free rank is sought: closing a bracket, or one by one as published",
            choices=("bracket", "published"),
        ),
        Option("start_rank", int, None, "rank of the first attempt", minimum=1),
        Option("columns", int, columns, "secants that a look at all secants adds", minimum=1),
        Option("per_row", int, 3, "of those, the most for one point in one tile", minimum=1),
        Option("precision", float, 0.02, "relative width of a closed bracket on delta", above=0),
        Option(
            "all_below",
            int,
            all_below,
            "with at most so many secants all are active from the start",
            minimum=0,
        ),
        Option("seed", int, 0, "chooses the tiles of sampled looks", minimum=0),
    )


_INNER = Option(
    "inner_solver",
    str,
    "auto",
    "how the linear equations of a step are solved",
    choices=("auto", "cholesky", "woodbury", "cg"),
)


def _budget(sweep: int, limit: int) -> tuple[Option, ...]:
    return (
        Option("sweep", int, sweep, "inner iterations of a step", minimum=1),
        Option("limit", int, limit, "inner iterations of an attempt", minimum=1),
    )


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """The near-isometry."""
    return [
        ObjectiveSpec(
            name="near-isometry",
            summary="a linear map that keeps the lengths of all secants within delta",
            load="thalweg_isometry.objective:build",
            options=(
                Option(
                    "delta",
                    float,
                    None,
                    "largest relative change of a squared length; 0.4 if no rank is given either",
                    above=0,
                    below=1,
                ),
                Option("rank", int, None, "rank of the map; the least that serves", minimum=1),
                Option(
                    "secants",
                    str,
                    "all",
                    "which pairs of points count",
                    choices=("all", "within-class", "neighbors"),
                ),
                Option(
                    "n_neighbors",
                    int,
                    10,
                    "with secants = neighbors: how many",
                    minimum=1,
                    formerly=("neighbors",),
                ),
            ),
            solver="hinge-lbfgs",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """The published methods, the framework's own, and the baselines."""
    return [
        SolverSpec(
            name="hinge-lbfgs",
            summary="near-isometry: squared hinge on the factor, L-BFGS, column generation",
            load="thalweg_isometry.hinge:HingeSearch",
            options=(
                *_shared("bracket", 30_000, 250_000),
                Option(
                    "margins",
                    list,
                    [0.9, 0.98],
                    "shares of delta at which the hinge sets in, tried in turn",
                    above=0,
                    below=1,
                ),
                Option("patience", int, 250, "evaluations a margin", minimum=1),
                Option("memory", int, 12, "pairs that L-BFGS remembers", minimum=1),
            ),
        ),
        SolverSpec(
            name="numax",
            summary="near-isometry: least nuclear norm, by ADMM with eigenvalue thresholding",
            load="thalweg_isometry.numax:NuMaxSearch",
            options=(
                *_shared("bracket", 3000, 5000),
                Option("beta1", float, 1.0, "penalty of P = L", above=0),
                Option("beta2", float, 1.0, "penalty of A(L) = q", above=0),
                Option("dual_step", float, 1.618, "step of the multipliers", above=0),
                Option("tolerance", float, 1e-4, "relative residuals to reach", above=0),
                _INNER,
                *_budget(100, 5000),
            ),
        ),
        SolverSpec(
            name="fromax",
            summary="near-isometry: a factor near a matrix within the bounds, by ADMM",
            load="thalweg_isometry.fromax:FroMaxSearch",
            options=(
                *_shared("published", 3000, 5000),
                Option("beta1", float, 1.0, "penalty of A(P) = q", above=0),
                Option("beta2", float, 1.0, "penalty of Y = X^T", above=0),
                Option("dual_step", float, 1.0, "step of the multipliers", above=0),
                _INNER,
                *_budget(100, 600),
            ),
        ),
        SolverSpec(
            name="nile-pro",
            summary="near-isometry: the largest distortion itself, by ADMM with l1-ball steps",
            load="thalweg_isometry.nile_pro:NileProSearch",
            options=(
                *_shared("published", 30_000, 250_000),
                Option("beta", float, None, "penalty of q = A(Psi^T Psi); 50/secants", above=0),
                Option(
                    "step_scale", float, 4.0, "gradient steps over the curvature bound", above=0
                ),
                Option("gradient_steps", int, 1, "gradient steps an iteration", minimum=1),
                *_budget(200, 2000),
            ),
        ),
        SolverSpec(
            name="secant-pca",
            summary="near-isometry, baseline: principal directions of the secants",
            load="thalweg_isometry.baselines:SecantPCA",
            options=(
                *_shared("bracket", 1, 0),
                Option("most_points", int, 4000, "sample of the points beyond so many", minimum=2),
            ),
        ),
        SolverSpec(
            name="random-projection",
            summary="near-isometry, baseline: Gaussian random projection",
            load="thalweg_isometry.baselines:RandomProjection",
            options=_shared("bracket", 1, 0),
        ),
    ]


@hookimpl
def thalweg_commands() -> list[CommandSpec]:
    """The certificate of any matrix."""
    return [
        CommandSpec(
            name="certify",
            summary="delta of a linear map over all secants of a data set, and a rank bound",
            load="thalweg_isometry.command:main",
        )
    ]
