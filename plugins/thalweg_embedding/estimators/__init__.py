"""scikit-learn estimators of the embeddings."""

from thalweg_embedding.estimators.eigenmaps import LaplacianEigenmaps, LocallyLinearEmbedding
from thalweg_embedding.estimators.neighbor_embeddings import (
    TSNE,
    UMAP,
    ElasticEmbedding,
    LargeVis,
    NegTSNE,
    PaCMAP,
    SymmetricSNE,
)

__all__ = [
    "TSNE", "UMAP", "ElasticEmbedding", "LaplacianEigenmaps", "LargeVis",
    "LocallyLinearEmbedding", "NegTSNE", "PaCMAP", "SymmetricSNE",
]  # fmt: skip
