"""Specs of this plugin; options are declared on the code that takes them."""

from typing import Any

from thalweg.plugins import ObjectiveSpec, PreconditionerSpec, SolverSpec, hookimpl

#: What ``thalweg list`` says of networks.
NETWORKS = {
    "autoencoder": "training error of a deep autoencoder, data rows on the ranks",
    "mlp": "training error of a multilayer perceptron that predicts the labels",
    "deep-linear": "a product of matrices fitted to a given one, with saddles of every rank",
}


def _objective(name: str, summary: str, module: str, **more: Any) -> ObjectiveSpec:
    load = f"thalweg_saddlefree.{module}:build_{name.replace('-', '_')}"
    return ObjectiveSpec(name=name, summary=summary, load=load, **more)


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """Networks, functions of the user's own in JAX, and Rosenbrock's."""
    trained = {"solver": "saddle-free-subspace", "preconditioner": "kronecker"}
    of_data = {"estimate": "thalweg_saddlefree.memory_estimate:estimate"}
    plain = {"data": "none", "solver": "saddle-free"}
    in_jax = "a mean over rows in JAX, of a tree of arrays, with exact Hessian products"
    networks = [
        _objective(
            name, summary, "networks.build",
            **trained, **({"data": "none"} if name == "deep-linear" else of_data),
        )
        for name, summary in NETWORKS.items()
    ]  # fmt: skip
    return [
        *networks,
        _objective("jax", in_jax, "jax_objective", **plain),
        _objective("rosenbrock", "a curved valley in any dimension", "rosenbrock", **plain),
    ]


@hookimpl
def thalweg_preconditioners() -> list[PreconditionerSpec]:
    """The metric of networks."""
    return [
        PreconditionerSpec(
            name="kronecker",
            summary="Fisher matrix of a network as one Kronecker product per layer (K-FAC)",
            load="thalweg_saddlefree.kronecker:KroneckerPreconditioner",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """Saddle-free Newton and Hessian-free optimization."""
    return [
        SolverSpec(name=name, summary=summary, load=f"thalweg_saddlefree.{code}")
        for name, code, summary in (
            ("saddle-free-subspace", "subspace.solver:SubspaceSaddleFree",
             "|H| in the span of a few directions, on growing batches of data rows"),
            ("saddle-free", "saddle_free:SaddleFree",
             "Newton steps with |H| in place of H, from Hessian products alone"),
            ("hessian-free", "hessian_free:HessianFree",
             "Gauss-Newton steps by truncated conjugate gradients (Martens 2010)"),
        )
    ]  # fmt: skip
