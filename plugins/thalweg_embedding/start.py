"""Starting maps: random numbers, principal components, eigenvectors, given points."""

from dataclasses import dataclass

import numpy as np

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.numerics import principal_components as projected
from thalweg.parallel import Layout, any_over_ranks, raise_on_all_ranks, sum_over_ranks
from thalweg_embedding.affinities.distances import own_rows
from thalweg_embedding.affinities.symmetric import Weights
from thalweg_embedding.defaults import START_SCALE
from thalweg_embedding.eigenmaps.eigenmaps_from_data import laplacian_eigenmaps

#: Deviations from the mean beyond which a principal component is an outlier's.
FAR = 10.0

#: Times that they are moved at most, which suffices for one point of 150.
MOVES = 100


@dataclass(frozen=True)
class Start:
    """A starting map: random numbers, or this rank's rows of one, and noise that is added."""

    layout: Layout
    fixed: np.ndarray | None = None
    #: Standard deviation of the random numbers, in map units, and of the noise.
    scale: float = START_SCALE
    noise: float = 0.0

    def rows(self, seed: int) -> np.ndarray:
        """This rank's rows, shape (local_rows, d); the same at any number of ranks."""
        if self.fixed is not None:
            return self.fixed + self.layout.random_normal(seed, self.noise)
        return self.layout.random_normal(seed, self.scale)


def check_start(start: np.ndarray | None, layout: Layout) -> None:
    """Refuse a start that is not this rank's rows of a map.  Collective."""
    shape = layout.local_rows, layout.columns
    with raise_on_all_ranks(layout.comm):
        if start is not None and np.shape(start) != shape:
            raise InputError(f"start must be an array of shape {shape}")


def check_dimensions(layout: Layout) -> None:
    """Refuse a map of more columns than the N - 1 that N points use."""
    if layout.columns > max(1, layout.rows - 1):
        raise InputError(
            f"a map of {layout.rows:,} points has at most {layout.rows - 1:,} dimensions, not "
            f"{layout.columns:,}"
        )


def principal_components(dataset: Dataset, dimensions: int, scale: float) -> np.ndarray:
    """This rank's rows of the leading principal components, the first of deviation ``scale``.

    Signs are fixed by the largest entry of each direction.  Outliers, further than ten
    deviations, are moved nearer until none is left: beside them the others would coincide.
    Where the data have fewer directions than ``dimensions``, or are constant, the missing
    columns are zero.  More dimensions than the data have columns are refused.
    """
    layout = dataset.layout
    if dimensions > layout.columns:
        raise InputError(
            f"a start from principal components has at most {layout.columns} dimensions "
            f"(the data's columns), not {dimensions}; use init = 'random'"
        )
    rows = projected(own_rows(dataset).astype(float), layout, dimensions)
    for _ in range(MOVES):
        squares = np.asarray(sum_over_ranks(layout.comm, (rows**2).sum(axis=0)))
        limit = FAR * np.sqrt(squares / layout.rows)
        if not any_over_ranks(layout.comm, bool((np.abs(rows) > limit).any())):
            break
        rows = np.clip(rows, -limit, limit)
        rows -= np.asarray(sum_over_ranks(layout.comm, rows.sum(axis=0))) / layout.rows
    return scaled(rows, layout.with_columns(dimensions), scale)


def eigenvectors(layout: Layout, weights: Weights, scale: float) -> np.ndarray:
    """This rank's rows of the first eigenvectors of the weights' normalized Laplacian.  Collective.

    The first column has deviation ``scale``.  A graph of weights that is not connected is refused.
    """
    rows = Dataset(np.empty((layout.local_rows, 0)), layout.with_columns(0))
    objective = laplacian_eigenmaps(
        rows, layout.comm, dimensions=layout.columns, affinity="precomputed", weights=weights
    )
    result = thalweg.minimize(objective, solver="eigen", seed=0)
    return scaled(objective.solution(result.x), layout, scale)


def scaled(rows: np.ndarray, layout: Layout, scale: float) -> np.ndarray:
    """The same rows with the largest deviation of a column ``scale``.  Collective."""
    squares = np.asarray(sum_over_ranks(layout.comm, (rows**2).sum(axis=0)))
    deviation = float(np.sqrt(squares.max(initial=0.0) / max(1, layout.rows)))
    return np.asarray(rows * (scale / deviation if deviation > 0.0 else 0.0))
