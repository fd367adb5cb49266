"""What the distribution offers."""

from thalweg.plugins import ObjectiveSpec, Option, PreconditionerSpec, SolverSpec, hookimpl


@hookimpl
def thalweg_objectives():
    """Sammon's stress, and springs with a repulsion."""
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
        ),
        ObjectiveSpec(
            name="spring-map",
            summary="springs between nearest neighbors, and a repulsion of all pairs",
            load="thalweg_valley.spring_map:SpringMap",
            options=(
                Option("dimension", int, 2, "dimensions of the map", minimum=1),
                Option("neighbors", int, 5, "nearest neighbors of a row", minimum=1),
            ),
            preconditioner="graph-laplacian",
        ),
    ]


@hookimpl
def thalweg_preconditioners():
    """A diagonal, and a graph Laplacian."""
    return [
        PreconditionerSpec(
            name="absolute-diagonal",
            summary="absolute values of the Hessian diagonal",
            load="thalweg_valley.absolute_diagonal:AbsoluteDiagonal",
            options=(Option("floor", float, 0.05, "least entry, over the mean", unit="", above=0),),
        ),
        PreconditionerSpec(
            name="graph-laplacian",
            summary="the Laplacian of the attraction, and a multiple of the identity",
            load="thalweg_valley.spring_map:GraphLaplacian",
            options=(Option("shift", float, 1.0, "that multiple", above=0),),
        ),
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
