"""Laplacian eigenmaps as the start of another embedding."""

from __future__ import annotations

import numpy as np

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import Layout
from thalweg_embedding.affinities.symmetric import Weights
from thalweg_embedding.eigenmaps.build import laplacian_eigenmaps
from thalweg_embedding.start import scaled


def eigenvectors(layout: Layout, weights: Weights, scale: float) -> np.ndarray:
    """This rank's rows of the first eigenvectors of the weights' normalized Laplacian.  Collective.

    The first column has deviation ``scale``; random numbers a thousandth of it are added.

    Raises
    ------
    InputError
        The graph of the weights is not connected.
    """
    rows = Dataset(np.empty((layout.local_rows, 0)), layout.with_columns(0))
    objective = laplacian_eigenmaps(
        rows, layout.comm, dimensions=layout.columns, affinity="precomputed", weights=weights
    )
    try:
        result = thalweg.minimize(objective, solver="eigen", seed=0)
        point = objective.layout.vec_from(result.x)
        found = objective.map_rows(point)
        point.destroy()
    finally:
        objective.destroy()
    return scaled(np.array(found), layout, scale)
