"""Approximate nearest neighbors, for more points than exact search has time for."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import on_root
from thalweg.parallel.pairs import Ring


def approximate_neighbors(dataset: Dataset, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Most of the k nearest neighbors of each of this rank's rows.  Collective.

    Rank 0 gathers the data and runs pynndescent; distances are then measured exactly.

    Returns
    -------
    indices : ndarray of int64, shape (local_rows, k)
    squared : ndarray of float64, shape (local_rows, k)
        In ascending order.

    Raises
    ------
    InputError
        pynndescent is not installed.
    """
    if importlib.util.find_spec("pynndescent") is None:
        raise InputError(
            "approximate neighbors need pynndescent; install it with "
            "pip install 'thalweg[large]', or use neighbor_search = 'exact'"
        )
    layout = dataset.layout
    whole = layout.gather_rows(np.asarray(dataset.values, dtype=np.float32))

    def search() -> np.ndarray:
        from pynndescent import NNDescent

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            index = NNDescent(whole, n_neighbors=k + 1, random_state=seed)
            found = np.asarray(index.neighbor_graph[0], dtype=np.int64)
        return _without_self(found, k)

    indices = on_root(layout.comm, search)[layout.start : layout.stop]
    squared = _squared_distances(dataset, indices)
    order = np.lexsort((indices, squared))
    return np.take_along_axis(indices, order, 1), np.take_along_axis(squared, order, 1)


def _without_self(found: np.ndarray, k: int) -> np.ndarray:
    """Each row's neighbors but itself; where it is not among them, the last goes."""
    own = found == np.arange(len(found))[:, None]
    own[~own.any(axis=1), -1] = True
    return found[~own].reshape(len(found), k)


def _squared_distances(dataset: Dataset, indices: np.ndarray) -> np.ndarray:
    squared = np.empty(indices.shape)
    values = np.asarray(dataset.values, dtype=float)
    for block in Ring(dataset.layout).blocks(np.asarray(dataset.values)):
        rows, places = np.nonzero((indices >= block.start) & (indices < block.stop))
        for first in range(0, len(rows), 2**16):
            part = slice(first, first + 2**16)
            theirs = block.arrays[0][indices[rows[part], places[part]] - block.start]
            squared[rows[part], places[part]] = ((values[rows[part]] - theirs) ** 2).sum(axis=1)
    return squared
