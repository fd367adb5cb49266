"""Starting maps: random numbers, principal components, given points."""

from __future__ import annotations

import numpy as np

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.numerics import principal_components as projected
from thalweg.parallel import Layout, any_over_ranks, sum_over_ranks
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.defaults import START_SCALE

#: Deviations from the mean beyond which a principal component is an outlier's.
FAR = 10.0

#: Times that they are moved at most, which suffices for one point of 150.
MOVES = 100


class Start:
    """A starting map.

    Parameters
    ----------
    layout
        Rows and dimension of the map.
    given
        This rank's rows of a map to start from, or None for random numbers.
    scale
        Standard deviation of the random numbers, in map units.
    noise
        Standard deviation of those that are added to given rows.
    """

    def __init__(
        self,
        layout: Layout,
        given: np.ndarray | None = None,
        scale: float = START_SCALE,
        noise: float = 0.0,
    ) -> None:
        self._layout = layout
        self._given = given
        self._scale = scale
        self._noise = noise

    @property
    def random(self) -> bool:
        """Whether the rows are random numbers and nothing else."""
        return self._given is None

    def rows(self, seed: int) -> np.ndarray:
        """This rank's rows, shape (local_rows, d); the same at any number of ranks."""
        if self._given is not None:
            return self._given + self._layout.random_normal(seed, self._noise)
        return self._layout.random_normal(seed, self._scale)


def principal_components(dataset: Dataset, dimensions: int, scale: float) -> np.ndarray:
    """This rank's rows of the leading principal components, the first of deviation ``scale``.

    Signs are fixed by the largest entry of each direction.  Outliers, further than ten
    deviations, are moved nearer until none is left: beside them the others would coincide.
    Where the data have fewer directions than ``dimensions``, or are constant, the missing
    columns are zero.

    Raises
    ------
    InputError
        More dimensions asked for than the data have columns.
    """
    layout = dataset.layout
    if dimensions > layout.columns:
        raise InputError(
            f"a start from principal components has at most {layout.columns} dimensions "
            f"(the data's columns), not {dimensions}; use init = 'random'"
        )
    rows = dataset.sparse if isinstance(dataset, SparseDataset) else dataset.values
    scores = projected(rows.astype(float), layout, dimensions)
    return scaled(_without_outliers(scores, layout), layout.with_columns(dimensions), scale)


def _without_outliers(rows: np.ndarray, layout: Layout) -> np.ndarray:
    """Centered columns, their outliers moved to the limit again and again; collective."""
    for _ in range(MOVES):
        squares = np.asarray(sum_over_ranks(layout.comm, (rows**2).sum(axis=0)))
        limit = FAR * np.sqrt(squares / layout.rows)
        if not any_over_ranks(layout.comm, bool((np.abs(rows) > limit).any())):
            break
        rows = np.clip(rows, -limit, limit)
        rows -= np.asarray(sum_over_ranks(layout.comm, rows.sum(axis=0))) / layout.rows
    return rows


def scaled(rows: np.ndarray, layout: Layout, scale: float) -> np.ndarray:
    """The same rows with the largest deviation of a column ``scale``.  Collective."""
    squares = np.asarray(sum_over_ranks(layout.comm, (rows**2).sum(axis=0)))
    deviation = float(np.sqrt(squares.max(initial=0.0) / max(1, layout.rows)))
    return np.asarray(rows * (scale / deviation if deviation > 0.0 else 0.0))
