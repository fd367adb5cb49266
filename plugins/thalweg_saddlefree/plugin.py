"""Specs of this plugin; options are declared on the code that takes them."""

from thalweg.plugins import ObjectiveSpec, PreconditionerSpec, SolverSpec, hookimpl


def _function(name: str, summary: str) -> ObjectiveSpec:
    return ObjectiveSpec(
        name=name,
        summary=summary,
        load=f"thalweg_saddlefree.functions.build:build_{name.replace('-', '_')}",
        data="none",
        solver="saddle-free",
    )


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """Networks, functions of the user's own in JAX, and classical test functions."""
    return [
        ObjectiveSpec(
            name="autoencoder",
            summary="training error of a deep autoencoder, data rows on the ranks",
            load="thalweg_saddlefree.networks.autoencoder:build_autoencoder",
            solver="saddle-free-subspace",
            preconditioner="kronecker",
            estimate="thalweg_saddlefree.estimate:estimate",
        ),
        ObjectiveSpec(
            name="mlp",
            summary="training error of a multilayer perceptron that predicts the labels",
            load="thalweg_saddlefree.networks.mlp:build_mlp",
            solver="saddle-free-subspace",
            preconditioner="kronecker",
            estimate="thalweg_saddlefree.estimate:estimate",
        ),
        ObjectiveSpec(
            name="jax",
            summary="any JAX function of a tree of arrays, with exact Hessian products",
            load="thalweg_saddlefree.jax_objective:build_jax",
            data="none",
            solver="saddle-free",
        ),
        ObjectiveSpec(
            name="deep-linear",
            summary="a product of matrices fitted to a given one, with saddles of every rank",
            load="thalweg_saddlefree.networks.deep_linear:build_deep_linear",
            data="none",
            solver="saddle-free-subspace",
            preconditioner="kronecker",
        ),
        _function("rosenbrock", "Rosenbrock's curved valley in any dimension"),
        _function("powell-singular", "Powell's function with a singular Hessian at its minimum"),
        _function("broyden-tridiagonal", "Broyden's tridiagonal least squares"),
        _function("monkey-saddle", "the monkey saddle, bounded below by a quartic term"),
        _function("styblinski-tang", "separable quartic with saddles of every index"),
        _function("ginzburg-landau", "a chain of double wells, from beside a saddle"),
        _function("himmelblau", "Himmelblau's function, from beside a saddle"),
    ]


@hookimpl
def thalweg_preconditioners() -> list[PreconditionerSpec]:
    """The metric of networks."""
    return [
        PreconditionerSpec(
            name="kronecker",
            summary="Fisher matrix of a network as one Kronecker product per layer (K-FAC)",
            load="thalweg_saddlefree.kronecker.preconditioner:KroneckerPreconditioner",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """Saddle-free Newton and Hessian-free optimization."""
    return [
        SolverSpec(
            name="saddle-free-subspace",
            summary="|H| in the span of a few directions, on growing batches of data rows",
            load="thalweg_saddlefree.subspace.solver:SubspaceSaddleFree",
        ),
        SolverSpec(
            name="saddle-free",
            summary="Newton steps with |H| in place of H, from Hessian products alone",
            load="thalweg_saddlefree.saddle_free:SaddleFree",
        ),
        SolverSpec(
            name="hessian-free",
            summary="Gauss-Newton steps by truncated conjugate gradients (Martens 2010)",
            load="thalweg_saddlefree.hessian_free:HessianFree",
        ),
    ]
