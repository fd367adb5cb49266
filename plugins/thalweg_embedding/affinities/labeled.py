"""Affinities that follow labels: classes come apart, points without a label join where they fit."""

import math

import numpy as np

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import any_over_ranks
from thalweg_embedding.relocation import Relocation

#: Distances, at a weight of 1/2, of different labels and of an unknown one: those of umap-learn.
DIFFERENT, UNKNOWN = 5.0, 1.0


def follow_labels(
    values: np.ndarray,
    indices: np.ndarray,
    dataset: Dataset,
    places: Relocation | None,
    weight: float,
    fuzzy: bool,
) -> None:
    """Multiply affinities of points to their neighbors by what their labels say.  Collective.

    With r = w/(1 - w), w the weight, the factors are exp(-5 r) between different labels, and
    exp(-min(r, 1)) where one is unknown.  Each row then gets back its maximum, if fuzzy, or its
    sum.  ``values`` and ``indices``, shape (n, k), are of this rank's rows at their ``places``.
    """
    labels, layout = dataset.partial_labels(), dataset.layout
    if labels is None:
        raise InputError(
            f"target_weight = {weight:g} needs labels, as y of fit or as those of the data set; "
            "give them, -1 for points without one, or leave target_weight at 0"
        )
    if places is not None:
        labels, layout = places.forward(labels), places.layout
    everyone, size = layout.gather_rows(labels), np.max if fuzzy else np.sum
    ratio = weight / (1.0 - weight) if weight < 1.0 else math.inf
    different, unknown = math.exp(-DIFFERENT * ratio), math.exp(-UNKNOWN * min(ratio, 1.0))
    before = size(values, axis=1)
    for column, neighbors in enumerate(indices.T):
        theirs = everyone[neighbors]
        factors = np.where(labels == theirs, 1.0, different)
        factors[(labels < 0) | (theirs < 0)] = unknown
        values[:, column] *= factors
    after = size(values, axis=1)
    some = after > np.finfo(float).tiny  # else the quotient may overflow
    values *= np.divide(before, after, out=np.zeros_like(after), where=some)[:, None]
    if not any_over_ranks(layout.comm, bool(values.any())):
        raise InputError(
            f"no point has a neighbor of its own label, so that target_weight = {weight:g} leaves "
            "no affinity; lower it, or give labels that points share"
        )
