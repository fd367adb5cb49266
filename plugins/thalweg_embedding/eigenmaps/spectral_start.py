"""Laplacian eigenmaps as the start of another embedding."""

from __future__ import annotations

import numpy as np

import thalweg
from thalweg.data import Dataset
from thalweg.engines.laplacian import Relocation
from thalweg.parallel import Layout
from thalweg_embedding.affinities.symmetric import Weights
from thalweg_embedding.eigenmaps.eigenmaps_from_data import laplacian_eigenmaps
from thalweg_embedding.start import scaled


def eigenvectors(
    layout: Layout, weights: Weights, scale: float, places: Relocation | None = None
) -> np.ndarray:
    """This rank's rows of the first eigenvectors of the weights' normalized Laplacian.  Collective.

    The first column has deviation ``scale``.
    ``places``: where the rows of ``weights`` lie, if not where those of ``layout`` do.

    Raises
    ------
    InputError
        The graph of the weights is not connected.
    """
    inner = layout if places is None else places.layout
    rows = Dataset(np.empty((inner.local_rows, 0)), inner.with_columns(0))
    objective = laplacian_eigenmaps(
        rows, layout.comm, dimensions=layout.columns, affinity="precomputed", weights=weights
    )
    result = thalweg.minimize(objective, solver="eigen", seed=0)
    rows_of_map = objective.map_rows(result.x)
    return scaled(rows_of_map if places is None else places.backward(rows_of_map), layout, scale)
