"""Specs of this plugin: nonlinear embeddings and their partial-Hessian strategies."""

from thalweg.plugins import MetricSpec, ObjectiveSpec, PreconditionerSpec, SolverSpec, hookimpl

#: Where runs of staged families end: what is gained later is width more than neighbors.  A step
#: that the cap shortens lowers the objective by little, so that many count together.
STOP = {"iterations": 500, "decrease": 1e-2, "window": 20}

#: What ``thalweg list`` says of the embeddings and their preconditioners.
SUMMARIES = {
    "elastic-embedding": "elastic embedding: neighbors attract by d, all points repel by exp(-d)",
    "sne": "SNE: mean KL divergence of each point's affinities from a Gaussian kernel in the map",
    "s-sne": "symmetric SNE: KL divergence between affinities, Gaussian kernel in the map",
    "t-sne": "t-SNE: KL divergence between affinities, Student kernel in the map",
    "t-ee": "elastic embedding with t-SNE's kernels: log(1 + d) and 1/(1 + d)",
    "umap": "UMAP: cross-entropy of fuzzy affinities, over all pairs and without sampling",
    "largevis": "LargeVis: cross-entropy of entropic affinities with t-SNE's kernel",
    "neg-t-sne": "Neg-t-SNE: t-SNE by negative sampling, its loss summed over all pairs",
    "pacmap": "PaCMAP: neighbors, mid-near and further pairs, chosen once, in three phases",
    "localmap": "LocalMAP: PaCMAP whose last further pairs are of points that are near in the map",
    "laplacian-eigenmaps": "Laplacian eigenmaps: near neighbors, with orthonormal coordinates",
    "lle": "locally linear embedding: points as combinations of their neighbors",
    "spectral": "spectral direction: the graph Laplacian of the affinities, set up once",
    "partial-hessian": "Laplacian plus the positive part of the repulsion, solved by inner CG",
    "fixed-point": "row sums of the affinities: the fixed-point iteration",
    "hessian-diagonal": "the positive part of the Hessian's diagonal",
}


def _pairwise(name: str, code: str, *estimators: str, staged: bool = True) -> ObjectiveSpec:
    estimate = "estimate_pacmap" if name in ("pacmap", "localmap") else "estimate"
    return ObjectiveSpec(
        name=name, summary=SUMMARIES[name], load=f"thalweg_embedding.{code}", aliases=estimators,
        preconditioner="spectral", stop=STOP if staged else {},
        estimate=f"thalweg_embedding.memory_estimate:{estimate}",
    )  # fmt: skip


def _eigenproblem(name: str, builder: str, estimator: str) -> ObjectiveSpec:
    return ObjectiveSpec(
        name=name,
        summary=SUMMARIES[name],
        load=f"thalweg_embedding.eigenmaps.eigenmaps_from_data:{builder}",
        aliases=(estimator,),
        solver="eigen",
    )


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """The embeddings."""
    code = "objectives:"
    return [
        _pairwise("t-sne", code + "t_sne", "TSNE"),
        _pairwise("umap", code + "umap_embedding", "UMAP"),
        _pairwise("pacmap", "pacmap:pacmap", "PaCMAP"),
        _pairwise("localmap", "localmap:localmap", "LocalMAP"),
        _pairwise("largevis", code + "largevis_embedding", "LargeVis"),
        _pairwise("neg-t-sne", code + "negative_t_sne_embedding", "NegTSNE"),
        _pairwise("s-sne", code + "symmetric_sne", "SymmetricSNE"),
        _pairwise(
            "elastic-embedding", code + "elastic_embedding", "ElasticEmbedding", staged=False
        ),
        _pairwise("sne", code + "plain_sne", staged=False),
        _pairwise("t-ee", code + "t_elastic_embedding", staged=False),
        _eigenproblem("laplacian-eigenmaps", "laplacian_eigenmaps", "LaplacianEigenmaps"),
        _eigenproblem("lle", "locally_linear_embedding", "LocallyLinearEmbedding"),
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """The eigen-solver of Laplacian eigenmaps and locally linear embeddings."""
    return [
        SolverSpec(
            name="eigen",
            summary="eigenvectors of smallest eigenvalues, by SLEPc, ARPACK or LAPACK",
            load="thalweg_embedding.eigenmaps.eigen_solver:Eigen",
        )
    ]


@hookimpl
def thalweg_preconditioners() -> list[PreconditionerSpec]:
    """The partial-Hessian strategies."""
    code = {
        "spectral": "spectral:SpectralDirection",
        "partial-hessian": "partial_hessian:PartialHessian",
        "fixed-point": "diagonal:FixedPoint",
        "hessian-diagonal": "diagonal:HessianDiagonalScaling",
    }
    package = "thalweg_embedding.preconditioners."
    return [
        PreconditionerSpec(name=name, summary=SUMMARIES[name], load=package + load)
        for name, load in code.items()
    ]


@hookimpl
def thalweg_metrics() -> list[MetricSpec]:
    """Neighbors kept, and classes apart."""
    return [
        MetricSpec(
            name="embedding-quality",
            summary="neighbors kept, and nearest-neighbor error if there are labels",
            load="thalweg_embedding.quality:embedding_quality",
            data="required",
            objective=True,
        )
    ]
