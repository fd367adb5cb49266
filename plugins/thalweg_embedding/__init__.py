"""Nonlinear embeddings: s-SNE, t-SNE, elastic embedding, and pairs of functions of your own.

>>> from thalweg_embedding import TSNE
>>> map_ = TSNE(perplexity=30).fit_transform(images)

Names are imported when first used, so that listing plugins stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg_embedding.estimators import (
        TSNE,
        ElasticEmbedding,
        LaplacianEigenmaps,
        LocallyLinearEmbedding,
        SymmetricSNE,
    )
    from thalweg_embedding.objective import PairwiseEmbedding
    from thalweg_embedding.objectives import (
        ELASTIC_EMBEDDING,
        SYMMETRIC_SNE,
        T_ELASTIC_EMBEDDING,
        T_SNE,
        Family,
        embedding,
    )
    from thalweg_embedding.pairs.functions import PairFunction
    from thalweg_embedding.quality import map_quality

__all__ = [
    "ELASTIC_EMBEDDING",
    "SYMMETRIC_SNE",
    "TSNE",
    "T_ELASTIC_EMBEDDING",
    "T_SNE",
    "ElasticEmbedding",
    "Family",
    "LaplacianEigenmaps",
    "LocallyLinearEmbedding",
    "PairFunction",
    "PairwiseEmbedding",
    "SymmetricSNE",
    "embedding",
    "map_quality",
]

__getattr__, __dir__ = lazy_names(__name__)
