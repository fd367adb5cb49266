"""scikit-learn estimators of the embeddings."""

from thalweg_embedding.estimators.pairwise import TSNE, ElasticEmbedding, SymmetricSNE

__all__ = ["TSNE", "ElasticEmbedding", "SymmetricSNE"]
