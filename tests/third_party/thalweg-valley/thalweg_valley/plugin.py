"""What the distribution offers."""

from thalweg.plugins import ObjectiveSpec, Option, PreconditionerSpec, SolverSpec, hookimpl


@hookimpl
def thalweg_objectives():
    """Sammon's stress."""
    return [
        ObjectiveSpec(
            name="sammon",
            summary="Sammon's stress: small distances count most",
            load="thalweg_valley.sammon:SammonStress",
            options=(
                Option("dimension", int, 2, "dimensions of the map", minimum=1),
                Option("floor", float, 1e-3, "least distance, over the mean distance", above=0),
            ),
            solver="barzilai-borwein",
            preconditioner="absolute-diagonal",
        )
    ]


@hookimpl
def thalweg_preconditioners():
    """A diagonal."""
    return [
        PreconditionerSpec(
            name="absolute-diagonal",
            summary="absolute values of the Hessian diagonal",
            load="thalweg_valley.absolute_diagonal:AbsoluteDiagonal",
            options=(Option("floor", float, 0.05, "least entry, over the mean", unit="", above=0),),
        )
    ]


@hookimpl
def thalweg_solvers():
    """Steps from two points."""
    return [
        SolverSpec(
            name="barzilai-borwein",
            summary="Barzilai-Borwein steps with a non-monotone line search",
            load="thalweg_valley.barzilai_borwein:BarzilaiBorwein",
            options=(
                Option("memory", int, 8, "values that a step may not exceed", minimum=1),
                Option("first_step", float, 0.3, "length factor of the first step", above=0),
            ),
        )
    ]
