"""The named objectives: pairs of functions, whose options are those of the embedding."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg.plugins import with_options
from thalweg_embedding.embedding_from_data import embedding
from thalweg_embedding.families import (
    ELASTIC_EMBEDDING,
    SYMMETRIC_SNE,
    T_ELASTIC_EMBEDDING,
    Family,
    largevis,
    negative_t_sne,
    student_sne,
    umap,
)
from thalweg_embedding.options import EmbeddingOptions
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding


def _named(family: Family | Callable[..., Family]) -> Callable[..., Any]:
    """Builder of a family's objective from configured options, which are :func:`embedding`'s.

    A function that makes the family adds its own.
    """
    own = {} if isinstance(family, Family) else inspect.signature(family).parameters

    def build(dataset: Dataset, comm: MPI.Comm, **options: Any) -> PairwiseEmbedding:
        """The family's objective for a data set."""
        of_family = {name: options.pop(name) for name in own if name in options}
        return embedding(family(**of_family) if callable(family) else family, dataset, **options)

    made = family if isinstance(family, Family) else family()
    build.__name__ = build.__qualname__ = made.name
    left_out = ("repulsive_weights",) if made.normalized else ()
    sources = (EmbeddingOptions,) if isinstance(family, Family) else (family, EmbeddingOptions)
    return with_options(*sources, left_out=left_out)(build)


#: The functions that plugins' specs name: ``build(dataset, comm, **options)``.
# sum w+ d + lambda sum w- exp(-d), of Carreira-Perpinan (2010)
elastic_embedding = _named(ELASTIC_EMBEDDING)
t_elastic_embedding = _named(T_ELASTIC_EMBEDDING)  # the same with log(1 + d) and 1/(1 + d)
# sum p log p + sum p d + lambda log sum exp(-d)
symmetric_sne = _named(SYMMETRIC_SNE)
# sum p log p - sum p log k + lambda log sum k, k = 1/(1 + d) or lighter
t_sne = _named(student_sne)
# -sum p log k - lambda sum w- log(1 - k), k = 1/(1 + a (d + 0.001)^b)
umap_embedding = _named(umap)
largevis_embedding = _named(largevis)  # k = 1/(1.001 + d)
negative_t_sne_embedding = _named(negative_t_sne)  # k = 1/(1 + c (1 + d))
