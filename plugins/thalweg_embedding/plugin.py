"""What this plugin provides: nonlinear embeddings and their partial-Hessian strategies."""

from __future__ import annotations

from thalweg.plugins import ObjectiveSpec, Option, PreconditionerSpec, SolverSpec, hookimpl

_MAP = (
    Option("dimensions", int, 2, "columns of the map", minimum=1),
    Option(
        "perplexity",
        float,
        None,
        "effective number of neighbours; 30, fewer for small data",
        above=1,
    ),
    Option(
        "affinity",
        str,
        "entropic",
        "affinities made from the data, or the data are affinities themselves",
        choices=("entropic", "precomputed"),
    ),
    Option(
        "graph",
        str,
        "auto",
        "affinities of all pairs, or of the nearest neighbours",
        choices=("auto", "dense", "sparse"),
    ),
    Option(
        "neighbours",
        str,
        "exact",
        "how nearest neighbours are found",
        choices=("exact", "approximate"),
    ),
    Option("init", str, "random", "where the map starts", choices=("random", "pca")),
    Option("init_scale", float, None, "deviation of the starting map", unit="map units", above=0),
    Option(
        "repulsion",
        str,
        "auto",
        "how all pairs are summed",
        choices=("auto", "exact", "grid"),
    ),
    Option(
        "repulsion_error",
        float,
        1e-2,
        "what a grid may lose of a pair's force, relative to the strongest force",
        minimum=1e-9,
        maximum=0.1,
    ),
    Option(
        "exaggeration",
        float,
        None,
        "early exaggeration: lambda starts at lambda/exaggeration; 4 for many points, else 1",
        minimum=1,
    ),
)

_REPULSIVE = Option(
    "repulsive_weights",
    str,
    "uniform",
    "w-: 1/(N(N-1)), squared distances of the data scaled to sum 1, or 1",
    choices=("uniform", "squared-distances", "one"),
)


def _strength(default: float) -> Option:
    return Option("lambda", float, default, "strength of the repulsion", minimum=0)


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """The embeddings."""
    code = "thalweg_embedding.objectives:"
    return [
        ObjectiveSpec(
            name="elastic-embedding",
            summary="sum w+ d + lambda sum w- exp(-d)",
            load=code + "elastic_embedding",
            options=(*_MAP, _strength(100.0), _REPULSIVE),
            preconditioner="spectral",
        ),
        ObjectiveSpec(
            name="s-sne",
            summary="symmetric SNE: KL divergence, Gaussian kernel",
            load=code + "symmetric_sne",
            options=(*_MAP, _strength(1.0)),
            preconditioner="spectral",
        ),
        ObjectiveSpec(
            name="t-sne",
            summary="t-SNE: KL divergence, Student kernel",
            load=code + "t_sne",
            options=(*_MAP, _strength(1.0)),
            preconditioner="spectral",
        ),
        ObjectiveSpec(
            name="t-ee",
            summary="sum w+ log(1 + d) + lambda sum w-/(1 + d)",
            load=code + "t_elastic_embedding",
            options=(*_MAP, _strength(100.0), _REPULSIVE),
            preconditioner="spectral",
        ),
        ObjectiveSpec(
            name="laplacian-eigenmaps",
            summary="Laplacian eigenmaps: sum w d with X'DX = I",
            load="thalweg_embedding.spectral.build:laplacian_eigenmaps",
            options=(
                _MAP[0],
                Option(
                    "affinity",
                    str,
                    "neighbours",
                    "weights: 1 for near neighbours, entropic, or the data themselves",
                    choices=("neighbours", "entropic", "precomputed"),
                ),
                Option(
                    "count",
                    int,
                    10,
                    "nearest neighbours of a point; doubled until their graph is in one piece",
                    minimum=1,
                ),
                _MAP[1],
                Option("normalised", bool, True, "constraint with the degrees D"),
            ),
            solver="eigen",
        ),
        ObjectiveSpec(
            name="lle",
            summary="locally linear embedding: points rebuilt from their neighbours",
            load="thalweg_embedding.spectral.build:locally_linear_embedding",
            options=(
                _MAP[0],
                Option(
                    "count",
                    int,
                    12,
                    "nearest neighbours of a point; doubled until their graph is in one piece",
                    minimum=1,
                ),
                Option(
                    "regularisation",
                    float,
                    1e-3,
                    "share of the trace added to the diagonal of local Gram matrices",
                    above=0,
                ),
            ),
            solver="eigen",
        ),
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """The eigen-solver of spectral embeddings."""
    return [
        SolverSpec(
            name="eigen",
            summary="eigenvectors of smallest eigenvalues, by SLEPc, ARPACK, LOBPCG or LAPACK",
            load="thalweg_embedding.spectral.eigen:Eigen",
            options=(
                Option(
                    "method",
                    str,
                    "auto",
                    "how the eigenproblem is solved",
                    choices=("auto", "dense", "slepc", "arpack", "lobpcg"),
                ),
                Option("tolerance", float, 1e-9, "relative residual", above=0, below=0.1),
            ),
        )
    ]


@hookimpl
def thalweg_preconditioners() -> list[PreconditionerSpec]:
    """The partial-Hessian strategies."""
    code = "thalweg_embedding.preconditioners."
    return [
        PreconditionerSpec(
            name="fixed-point",
            summary="FP: the degrees 4 D+ of the attractive graph",
            load=code + "fixed_point:FixedPoint",
        ),
        PreconditionerSpec(
            name="hessian-diagonal",
            summary="DiagH: 4 D+ + 8 lambda diag(L^xx), or any Hessian's diagonal made positive",
            load=code + "hessian_diagonal:HessianDiagonalScaling",
        ),
        PreconditionerSpec(
            name="spectral",
            summary="SD: the attractive Laplacian 4 L+, factored once",
            load=code + "spectral:SpectralDirection",
            options=(
                Option(
                    "neighbors",
                    int,
                    None,
                    "kappa, largest weights kept in a row; all up to 3,000 points, else 7 to 20",
                    minimum=0,
                ),
                Option(
                    "method",
                    str,
                    "auto",
                    "how the Laplacian is solved with",
                    choices=("auto", "cholmod", "petsc", "mumps", "dense", "amg", "icc", "jacobi"),
                ),
            ),
        ),
        PreconditionerSpec(
            name="partial-hessian",
            summary="SD-: 4 L+ + 8 lambda L^xx, block diagonal over columns, by inner CG",
            load=code + "partial_hessian:PartialHessian",
            options=(
                Option(
                    "neighbors",
                    int,
                    None,
                    "kappa of the factor that preconditions the inner CG",
                    minimum=0,
                ),
                Option("tolerance", float, 0.1, "relative residual of the inner CG", above=0),
                Option("inner_iterations", int, 50, "most steps of the inner CG", minimum=1),
                Option(
                    "inner",
                    str,
                    "spectral",
                    "preconditioner of the inner CG",
                    choices=("spectral", "none"),
                ),
            ),
        ),
    ]
