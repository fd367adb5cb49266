"""Specs of this plugin."""

from thalweg.plugins import ObjectiveSpec, SolverSpec, hookimpl


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """KDAC."""
    return [
        ObjectiveSpec(
            name="kdac",
            summary="alternative clustering: a subspace and clusters unlike those given (labels)",
            load="thalweg_clustering.build:build_kdac",
            solver="ism",
            aliases=("KDAC",),
            estimate="thalweg_clustering.estimate:estimate",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """Solvers on the Stiefel manifold."""
    return [
        SolverSpec(
            name="ism",
            summary="Iterative Spectral Method with a safeguard (Wu et al.)",
            load="thalweg_clustering.ism:ISM",
        ),
        SolverSpec(
            name="stiefel",
            summary="gradient descent along Cayley curves (Wen and Yin)",
            load="thalweg_clustering.curvilinear:Curvilinear",
        ),
        SolverSpec(
            name="dimension-growth",
            summary="columns one after the other by gradient descent (Niu et al.)",
            load="thalweg_clustering.dimension_growth:DimensionGrowth",
        ),
        SolverSpec(
            name="stiefel-trust-region",
            summary="Riemannian trust region with Hessian products",
            load="thalweg_clustering.trust_region:TrustRegion",
        ),
    ]
