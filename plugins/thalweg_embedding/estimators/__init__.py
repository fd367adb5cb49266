"""scikit-learn estimators of the embeddings."""

from thalweg_embedding.estimators.pairwise import TSNE, ElasticEmbedding, SymmetricSNE
from thalweg_embedding.estimators.spectral import LaplacianEigenmaps, LocallyLinearEmbedding

__all__ = [
    "TSNE",
    "ElasticEmbedding",
    "LaplacianEigenmaps",
    "LocallyLinearEmbedding",
    "SymmetricSNE",
]
