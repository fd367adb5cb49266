"""Runs whose solutions are digested, and runs that are timed, as configurations by name."""

from __future__ import annotations

from typing import Any

DIGITS = {"name": "digits", "rows": 500}
SPLITS = {"name": "moons", "rows": 400}


def configuration(
    objective: dict[str, Any], solver: str | dict[str, Any], data: dict[str, Any] | None = None,
    iterations: int = 40, **sections: Any,
) -> dict[str, Any]:  # fmt: skip
    """A configuration without pictures and metrics that take long."""
    named = {"name": solver} if isinstance(solver, str) else solver
    found = {"objective": objective, "solver": named, "stop": {"iterations": iterations}}
    return found | ({"data": data} if data else {}) | sections


#: Small runs of every family, each by its default solvers: their digests are compared.
DIGESTS: dict[str, dict[str, Any]] = {
    **{
        f"{name} by {solver}": configuration({"name": name}, solver, DIGITS)
        for name, solver in (
            ("t-sne", "lbfgs"),
            ("t-sne", "gradient-descent"),
            ("s-sne", "nonlinear-cg"),
            ("elastic-embedding", "lbfgs"),
            ("umap", "lbfgs"),
            ("pacmap", "lbfgs"),
            ("laplacian-eigenmaps", "eigen"),
            ("lle", "eigen"),
        )
    },
    **{
        f"kdac by {solver}": configuration(
            {"name": "kdac", "clusters": 2, "components": 1}, solver, SPLITS
        )
        for solver in ("ism", "stiefel", "dimension-growth")
    },
    **{
        f"near-isometry by {solver}": configuration(
            {"name": "near-isometry", "delta": 0.4}, solver, {"name": "digits", "rows": 150}
        )
        for solver in ("hinge-lbfgs", "numax", "nile-pro")
    },
    **{
        f"autoencoder by {solver}": configuration(
            {"name": "autoencoder", "layers": [64, 20, 5]}, solver, DIGITS, iterations=10
        )
        for solver in ("saddle-free-subspace", "hessian-free")
    },
    "rosenbrock by saddle-free": configuration({"name": "rosenbrock"}, "saddle-free"),
    "rosenbrock by tao:ntr": configuration({"name": "rosenbrock"}, "tao:ntr"),
}

#: Large runs, for their times and peaks of memory.
TIMES: dict[str, dict[str, Any]] = {
    "t-SNE, 60,000 x 50": configuration(
        {"name": "t-sne"}, "lbfgs", {"name": "blobs", "rows": 60_000, "dimension": 50}, 60
    ),
    "KDAC exact, 20,000": configuration(
        {"name": "kdac", "clusters": 2, "components": 1, "approximation": "exact"},
        "ism", {"name": "moons", "rows": 20_000}, 5,
    ),
    "autoencoder, ten epochs": configuration(
        {"name": "autoencoder", "layers": [64, 100, 10]}, "saddle-free-subspace",
        {"name": "digits"}, 10_000, stop={"epochs": 10},
    ),
    "tao:ntr": configuration({"name": "rosenbrock", "size": 1000}, "tao:ntr", None, 200),
}  # fmt: skip
