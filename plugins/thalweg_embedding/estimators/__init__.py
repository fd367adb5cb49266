"""scikit-learn estimators of the embeddings."""

from thalweg_embedding.estimators.eigenmaps import LaplacianEigenmaps, LocallyLinearEmbedding
from thalweg_embedding.estimators.neighbor_embeddings import TSNE, ElasticEmbedding, SymmetricSNE

__all__ = [
    "TSNE",
    "ElasticEmbedding",
    "LaplacianEigenmaps",
    "LocallyLinearEmbedding",
    "SymmetricSNE",
]
