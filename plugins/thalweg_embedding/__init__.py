"""Nonlinear embeddings: s-SNE, t-SNE, elastic embedding, and pairs of functions of your own.

>>> from thalweg_embedding import TSNE
>>> map_ = TSNE(perplexity=30).fit_transform(images)

Names are imported when first used, so that listing plugins stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_WHERE = {
    "ELASTIC_EMBEDDING": "objectives",
    "SYMMETRIC_SNE": "objectives",
    "TSNE": "estimators",
    "T_ELASTIC_EMBEDDING": "objectives",
    "T_SNE": "objectives",
    "ElasticEmbedding": "estimators",
    "LaplacianEigenmaps": "estimators",
    "LocallyLinearEmbedding": "estimators",
    "Family": "objectives",
    "PairFunction": "pairs.functions",
    "PairwiseEmbedding": "objective",
    "SymmetricSNE": "estimators",
    "embedding": "objectives",
    "map_quality": "quality",
}

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


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
