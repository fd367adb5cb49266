"""Specs of this plugin."""

from thalweg.plugins import ObjectiveSpec, SolverSpec, hookimpl


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """KDAC."""
    return [
        ObjectiveSpec(
            name="kdac",
            summary="alternative clustering: a subspace and clusters unlike those given (labels)",
            load="thalweg_clustering.alternatives:build_search",
            solver="ism",
            aliases=("KDAC",),
            estimate="thalweg_clustering.memory_estimate:estimate",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """Solvers on the Stiefel manifold."""
    return [
        SolverSpec(name=name, summary=summary, load=f"thalweg_clustering.{code}")
        for name, code, summary in (
            ("ism", "ism:ISM", "Iterative Spectral Method with a safeguard (Wu et al.)"),
            ("stiefel", "curvilinear:Curvilinear",
             "gradient descent along Cayley curves (Wen and Yin)"),
            ("dimension-growth", "dimension_growth:DimensionGrowth",
             "columns one after the other by gradient descent (Niu et al.)"),
        )
    ]  # fmt: skip
