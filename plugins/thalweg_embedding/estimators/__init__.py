"""scikit-learn estimators of the embeddings."""

from thalweg_embedding.estimators.elastic_embedding import ElasticEmbedding
from thalweg_embedding.estimators.laplacian_eigenmaps import LaplacianEigenmaps
from thalweg_embedding.estimators.locally_linear_embedding import LocallyLinearEmbedding
from thalweg_embedding.estimators.symmetric_sne import SymmetricSNE
from thalweg_embedding.estimators.tsne import TSNE

__all__ = [
    "TSNE",
    "ElasticEmbedding",
    "LaplacianEigenmaps",
    "LocallyLinearEmbedding",
    "SymmetricSNE",
]
