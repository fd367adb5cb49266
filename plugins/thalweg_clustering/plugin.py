"""What this plugin provides."""

from __future__ import annotations

from thalweg.plugins import ObjectiveSpec, Option, SolverSpec, hookimpl


def _rounds(tolerance: float, steps: int) -> tuple[Option, ...]:
    return (
        Option(
            "inner_tolerance",
            float,
            tolerance,
            "relative decrease of a step below which a round ends",
            minimum=0,
        ),
        Option("inner_iterations", int, steps, "most steps of a round", minimum=1),
        Option(
            "outer_tolerance",
            float,
            1e-3,
            "change of W and U from round to round (0 to 1) at which the run ends",
            minimum=0,
            maximum=1,
        ),
        Option(
            "outer_decrease",
            float,
            1e-5,
            "relative change of the objective from round to round at which the run ends",
            minimum=0,
        ),
        Option("rounds", int, 50, "most rounds of the alternation", minimum=1),
    )


_ARMIJO = Option(
    "armijo", float, 1e-4, "share of the promised decrease a step must bring", above=0, below=0.5
)


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """KDAC."""
    return [
        ObjectiveSpec(
            name="kdac",
            summary="alternative clustering: a subspace and clusters unlike those given (labels)",
            load="thalweg_clustering.build:build_kdac",
            solver="ism",
            options=(
                Option(
                    "clusters", int, None, "clusters to find; as many as given if none", minimum=2
                ),
                Option(
                    "components",
                    int,
                    None,
                    "dimension q of the subspace; the number of clusters if none. The run writes "
                    "the labels; W is x of the result in Python, components_ of the class KDAC",
                    minimum=1,
                ),
                Option(
                    "sigma",
                    float,
                    None,
                    "width of the Gaussian kernel; half the median distance if none",
                    unit="of the features",
                    above=0,
                ),
                Option("lambda", float, 1.0, "weight of the novelty", minimum=0),
                Option("init", str, "spectral", "first W", choices=("spectral", "random")),
                Option(
                    "search",
                    bool,
                    False,
                    "choose sigma, lambda and, if none is given, the components by a search",
                ),
                Option(
                    "embedding",
                    str,
                    "auto",
                    "eigen-solver of the U-step",
                    choices=("auto", "lapack", "lobpcg", "slepc"),
                ),
                Option(
                    "fourier_features",
                    int,
                    0,
                    "random Fourier features in place of the exact kernel; 0 is exact",
                    minimum=0,
                ),
                Option(
                    "stored_rows",
                    int,
                    1500,
                    "up to this many rows the kernel matrix is kept in memory",
                    unit="rows",
                    minimum=0,
                ),
                Option("truth", str, None, "file of labels to compare the result with"),
                Option("condition", bool, True, "evaluate condition (10)"),
                Option("seed", int, 0, "seed of k-means and of the features", minimum=0),
            ),
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
            options=(
                *_rounds(1e-4, 100),
                Option("mixing", int, 6, "matrices that are mixed; 0 mixes none", minimum=0),
                Option(
                    "eigensolver",
                    str,
                    "lapack",
                    "eigen-solver of the W-step",
                    choices=("lapack", "lobpcg", "cpm", "slepc"),
                ),
                Option(
                    "safeguard",
                    str,
                    "level-shift",
                    "what makes a refused step shorter",
                    choices=("level-shift", "damping", "none"),
                ),
                Option(
                    "finish",
                    str,
                    "none",
                    "second-order steps once the iteration is slow",
                    choices=("none", "trust-region"),
                ),
            ),
        ),
        SolverSpec(
            name="stiefel",
            summary="gradient descent along Cayley curves (Wen and Yin)",
            load="thalweg_clustering.curvilinear:Curvilinear",
            options=(
                *_rounds(1e-6, 1000),
                Option(
                    "memory",
                    float,
                    0.0,
                    "0 accepts only a decrease; towards 1, less and less so (Zhang and Hager)",
                    minimum=0,
                    below=1,
                ),
                _ARMIJO,
                Option(
                    "shrink", float, 0.2, "ratio of a length to the refused one", above=0, below=1
                ),
                Option(
                    "gradient_tolerance",
                    float,
                    1e-6,
                    "share of the gradient left along the manifold at which a round ends",
                    minimum=0,
                ),
                Option(
                    "lengths",
                    str,
                    "barzilai-borwein",
                    "rule for the first length of a step",
                    choices=("barzilai-borwein", "armijo"),
                ),
            ),
        ),
        SolverSpec(
            name="dimension-growth",
            summary="columns one after the other by gradient descent (Niu et al.)",
            load="thalweg_clustering.dimension_growth:DimensionGrowth",
            options=(
                *_rounds(1e-6, 1_000_000),
                Option("column_iterations", int, 200, "most steps on one column", minimum=1),
                _ARMIJO,
                Option(
                    "shrink", float, 0.5, "ratio of a length to the refused one", above=0, below=1
                ),
            ),
        ),
        SolverSpec(
            name="stiefel-trust-region",
            summary="Riemannian trust region with Hessian products",
            load="thalweg_clustering.trust_region:TrustRegion",
            options=(
                *_rounds(1e-10, 100),
                Option(
                    "gradient_tolerance",
                    float,
                    1e-9,
                    "share of the gradient left along the manifold at which a round ends",
                    minimum=0,
                ),
                Option("inner_products", int, 50, "most Hessian products of a step", minimum=1),
            ),
        ),
    ]
