"""Specs of this plugin: nonlinear embeddings and their partial-Hessian strategies."""

from __future__ import annotations

from thalweg.plugins import ObjectiveSpec, PreconditionerSpec, SolverSpec, hookimpl

#: Where runs of staged families end: what is gained later is width more than neighbors.  A step
#: that the cap shortens lowers the objective by little, so that many count together.
STOP = {"iterations": 500, "decrease": 1e-2, "window": 20}


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """The embeddings."""
    code = "thalweg_embedding.objectives:"
    eigenmaps = "thalweg_embedding.eigenmaps.build:"
    estimate = "thalweg_embedding.estimate:estimate"
    return [
        ObjectiveSpec(
            name="elastic-embedding",
            summary="elastic embedding: neighbors attract by d, all points repel by exp(-d)",
            load=code + "elastic_embedding",
            aliases=("ElasticEmbedding",),
            preconditioner="spectral",
            estimate=estimate,
        ),
        ObjectiveSpec(
            name="s-sne",
            summary="symmetric SNE: KL divergence between affinities, Gaussian kernel in the map",
            load=code + "symmetric_sne",
            aliases=("SymmetricSNE",),
            preconditioner="spectral",
            stop=STOP,
            estimate=estimate,
        ),
        ObjectiveSpec(
            name="t-sne",
            summary="t-SNE: KL divergence between affinities, Student kernel in the map",
            load=code + "t_sne",
            aliases=("TSNE",),
            preconditioner="spectral",
            stop=STOP,
            estimate=estimate,
        ),
        ObjectiveSpec(
            name="t-ee",
            summary="elastic embedding with t-SNE's kernels: log(1 + d) and 1/(1 + d)",
            load=code + "t_elastic_embedding",
            preconditioner="spectral",
            estimate=estimate,
        ),
        ObjectiveSpec(
            name="umap",
            summary="UMAP: cross-entropy of fuzzy affinities, over all pairs and without sampling",
            load=code + "umap_embedding",
            aliases=("UMAP",),
            preconditioner="spectral",
            stop=STOP,
            estimate=estimate,
        ),
        ObjectiveSpec(
            name="largevis",
            summary="LargeVis: cross-entropy of entropic affinities with t-SNE's kernel",
            load=code + "largevis_embedding",
            aliases=("LargeVis",),
            preconditioner="spectral",
            stop=STOP,
            estimate=estimate,
        ),
        ObjectiveSpec(
            name="neg-t-sne",
            summary="Neg-t-SNE: t-SNE by negative sampling, its loss summed over all pairs",
            load=code + "negative_t_sne_embedding",
            aliases=("NegTSNE",),
            preconditioner="spectral",
            stop=STOP,
            estimate=estimate,
        ),
        ObjectiveSpec(
            name="pacmap",
            summary="PaCMAP: neighbors, mid-near and further pairs, chosen once, in three phases",
            load="thalweg_embedding.pacmap:pacmap",
            aliases=("PaCMAP",),
            preconditioner="spectral",
            stop=STOP,
            estimate="thalweg_embedding.estimate:estimate_pacmap",
        ),
        ObjectiveSpec(
            name="laplacian-eigenmaps",
            summary="Laplacian eigenmaps: neighbors close together, with orthonormal coordinates",
            load=eigenmaps + "laplacian_eigenmaps",
            aliases=("LaplacianEigenmaps",),
            solver="eigen",
        ),
        ObjectiveSpec(
            name="lle",
            summary="locally linear embedding: points as combinations of their neighbors",
            load=eigenmaps + "locally_linear_embedding",
            aliases=("LocallyLinearEmbedding",),
            solver="eigen",
        ),
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """The eigen-solver of Laplacian eigenmaps and locally linear embeddings."""
    return [
        SolverSpec(
            name="eigen",
            summary="eigenvectors of smallest eigenvalues, by SLEPc, ARPACK, LOBPCG or LAPACK",
            load="thalweg_embedding.eigenmaps.eigen:Eigen",
        )
    ]


@hookimpl
def thalweg_preconditioners() -> list[PreconditionerSpec]:
    """The partial-Hessian strategies."""
    code = "thalweg_embedding.preconditioners."
    return [
        PreconditionerSpec(
            name="fixed-point",
            summary="row sums of the affinities: the fixed-point iteration",
            load=code + "diagonal:FixedPoint",
        ),
        PreconditionerSpec(
            name="hessian-diagonal",
            summary="the positive part of the Hessian's diagonal",
            load=code + "diagonal:HessianDiagonalScaling",
        ),
        PreconditionerSpec(
            name="spectral",
            summary="spectral direction: the graph Laplacian of the affinities, set up once",
            load=code + "spectral:SpectralDirection",
        ),
        PreconditionerSpec(
            name="partial-hessian",
            summary="Laplacian plus the positive part of the repulsion, solved by inner CG",
            load=code + "partial_hessian:PartialHessian",
        ),
    ]
