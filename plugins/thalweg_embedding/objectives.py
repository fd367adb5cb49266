"""The named objectives: pairs of functions, whose options are those of the embedding."""

import inspect
from collections.abc import Callable
from typing import Any

from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg.plugins import with_options
from thalweg_embedding import families
from thalweg_embedding.embedding_from_data import embedding
from thalweg_embedding.options import EmbeddingOptions
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding


def _named(family: families.Family | Callable[..., families.Family]) -> Callable[..., Any]:
    """Builder of a family's objective from configured options, which are :func:`embedding`'s.

    A function that makes the family adds its own.
    """
    make = family if callable(family) else lambda: family
    made, own = make(), inspect.signature(make).parameters

    def build(dataset: Dataset, comm: MPI.Comm, **options: Any) -> PairwiseEmbedding:
        """The family's objective for a data set."""
        of_family = {name: options.pop(name) for name in own if name in options}
        return embedding(make(**of_family), dataset, **options)

    build.__name__ = build.__qualname__ = made.name
    left_out = ("repulsive_weights",) if made.normalized or made.per_point else ()
    return with_options(make, EmbeddingOptions, left_out=left_out)(build)


#: The functions that plugins' specs name: ``build(dataset, comm, **options)``.
# sum w+ d + lambda sum w- exp(-d), of Carreira-Perpinan (2010)
elastic_embedding = _named(families.ELASTIC_EMBEDDING)
t_elastic_embedding = _named(families.T_ELASTIC_EMBEDDING)  # the same with log(1 + d) and 1/(1 + d)
# sum p d + (lambda / N) sum_n log sum_m exp(-d_nm)
plain_sne = _named(families.PLAIN_SNE)
# sum p log p + sum p d + lambda log sum exp(-d)
symmetric_sne = _named(families.SYMMETRIC_SNE)
# sum p log p - sum p log k + lambda log sum k, k = 1/(1 + d) or lighter
t_sne = _named(families.student_sne)
# -sum p log k - lambda sum w- log(1 - k), k = 1/(1 + a (d + 0.001)^b)
umap_embedding = _named(families.umap)
largevis_embedding = _named(families.largevis)  # k = 1/(1.001 + d)
negative_t_sne_embedding = _named(families.negative_t_sne)  # k = 1/(1 + c (1 + d))
