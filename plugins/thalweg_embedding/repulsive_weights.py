"""Weights of the repulsion of a pair: equal ones, squared distances, or complements."""

import numpy as np
import scipy.sparse

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import max_over_ranks, sum_over_ranks
from thalweg_embedding.affinities.affinities_from_data import Affinities
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.families import Family
from thalweg_embedding.options import EmbeddingOptions


def repulsive_weights(
    dataset: Dataset, family: Family, affinities: Affinities, options: EmbeddingOptions
) -> tuple[float, np.ndarray | None]:
    """Factor of E-, and this rank's rows of w-, None for weights of one.  Collective."""
    n, kind = dataset.layout.rows, options.repulsive_weights
    if family.per_point:
        return 1.0 / n, None
    if family.normalized or kind == "one":
        return 1.0, None
    if kind == "complement":
        sparse = scipy.sparse.issparse(affinities.weights)
        values = np.asarray(affinities.weights.data if sparse else affinities.weights)
        largest = affinities.total * max_over_ranks(dataset.comm, float(values.max(initial=0.0)))
        if largest > 1.0 + 1e-9:
            raise InputError(
                "repulsive_weights = 'complement' needs affinities of at most 1, and one is "
                f"{largest:g}; divide them by the largest, or use 'uniform'"
            )
        return 1.0 / affinities.total, None
    if kind == "uniform":
        return 1.0 / (n * (n - 1)), None
    dense = not isinstance(dataset, SparseDataset) and options.affinity != "precomputed"
    if not dense or options.metric != "euclidean":
        raise InputError(
            "repulsive_weights = 'squared-distances' are Euclidean ones of dense rows, and here "
            "are sparse rows, affinities or another metric; use repulsive_weights = 'uniform'"
        )
    layout, own = dataset.layout, np.arange(dataset.layout.local_rows)
    sums = np.asarray(sum_over_ranks(layout.comm, dataset.values.sum(axis=0, dtype=float)))
    whole = layout.gather_rows(dataset.values - sums / n)
    squares = (whole**2).sum(axis=1)
    squared = -2.0 * layout.local(whole) @ whole.T
    squared += layout.local(squares)[:, None]
    squared += squares
    np.maximum(squared, 0.0, out=squared)
    squared[own, layout.start + own] = 0.0
    total = float(sum_over_ranks(layout.comm, float(squared.sum())))
    if total == 0.0:
        raise InputError(
            "repulsive weights from squared distances need points that differ, and all are "
            "equal; use repulsive_weights = 'uniform'"
        )
    return 1.0 / total, squared
