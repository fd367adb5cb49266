"""Nonlinear embeddings: t-SNE, UMAP, elastic embedding, and pairs of functions of your own.

>>> from thalweg_embedding import TSNE
>>> map_ = TSNE(perplexity=30).fit_transform(images)

Names are imported when first used, so that listing plugins stays quick.
"""

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg_embedding.affinities.affinities_from_data import Affinities, affinities_of
    from thalweg_embedding.alignment import aligned_maps
    from thalweg_embedding.attraction_repulsion import spectrum
    from thalweg_embedding.embedding_from_data import embedding
    from thalweg_embedding.estimators.eigenmaps import LaplacianEigenmaps, LocallyLinearEmbedding
    from thalweg_embedding.estimators.neighbor_embeddings import (
        TSNE,
        UMAP,
        ElasticEmbedding,
        LargeVis,
        LocalMAP,
        NegTSNE,
        PaCMAP,
        SymmetricSNE,
    )
    from thalweg_embedding.estimators.neighbors_transformer import NeighborsTransformer
    from thalweg_embedding.families import (
        ELASTIC_EMBEDDING,
        SYMMETRIC_SNE,
        T_ELASTIC_EMBEDDING,
        T_SNE,
        Family,
        largevis,
        negative_t_sne,
        student_sne,
        umap,
    )
    from thalweg_embedding.pairs.functions import PairFunction
    from thalweg_embedding.pairwise_embedding import PairwiseEmbedding
    from thalweg_embedding.point_quality import faithfulness
    from thalweg_embedding.quality import map_quality

__all__ = [
    "ELASTIC_EMBEDDING", "SYMMETRIC_SNE", "TSNE", "T_ELASTIC_EMBEDDING", "T_SNE", "UMAP",
    "Affinities", "ElasticEmbedding", "Family", "LaplacianEigenmaps", "LargeVis", "LocalMAP",
    "LocallyLinearEmbedding", "NegTSNE", "NeighborsTransformer", "PaCMAP", "PairFunction",
    "PairwiseEmbedding", "SymmetricSNE", "affinities_of", "aligned_maps", "embedding",
    "faithfulness", "largevis", "map_quality", "negative_t_sne", "spectrum", "student_sne", "umap",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
