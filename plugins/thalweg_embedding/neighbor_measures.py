"""Quality of an embedding: neighbors kept, classes apart.

All measures take a seeded sample of at most :data:`SAMPLE` rows, whose
neighbors are sought among *all* rows, so that they stay cheap for a million.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.data import Dataset
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.parallel import MPI, Layout, on_root

#: Rows that are measured, at most.
SAMPLE = 2000

#: Neighbors that are compared.
NEIGHBORS = 10

#: Products of the search for neighbors, at most; it decides the sample of wide data.
_BUDGET = 5e10


def embedding_quality(solution: np.ndarray, dataset: Dataset | None, comm: MPI.Comm) -> dict:
    """Measures of an embedding, for ``result.json``.  Collective.

    Parameters
    ----------
    solution
        This rank's rows, shape ``(local_rows, d)``.

    Returns
    -------
    dict
        ``neighbor_preservation``, and with labels ``nearest_neighbor_error``,
        both between 0 and 1; empty if the solution holds labels, or its rows are not
        those of the data, or fewer than three.
    """
    if dataset is None:
        return {}
    layout = dataset.layout
    # Integers are labels, not places in a map.
    fits = (
        solution.ndim == 2
        and len(solution) == layout.local_rows
        and np.issubdtype(solution.dtype, np.floating)
    )
    if not all(comm.allgather(bool(fits))) or layout.rows < 3:
        return {}
    finite = bool(np.isfinite(solution).all())
    if not all(comm.allgather(finite)):
        return {}
    # One search in the embedding serves both measures.
    sample = _sample(layout, layout.columns, seed=0)
    count = min(NEIGHBORS, layout.rows - 1)
    before = nearest_rows(dataset.values, sample, layout, count)
    after = nearest_rows(solution, sample, layout, count)
    measures: dict[str, Any] = {"neighbor_preservation": share_kept(before, after)}
    labels = dataset.gather_labels()
    if labels is not None:
        measures["nearest_neighbor_error"] = float(np.mean(labels[after[:, 0]] != labels[sample]))
    return measures


def trustworthiness(
    values: np.ndarray,
    embedding: np.ndarray,
    layout: Layout,
    neighbors: int = NEIGHBORS,
    seed: int = 0,
) -> float:
    """Trustworthiness: neighbors in the embedding are neighbors in the data (Venna and Kaski 2001).

    Measured within the sample alone, since it needs the rank of every distance.

    Returns
    -------
    float
        Between 0 and 1; 1 if every neighbor in the embedding is one in the data.
    """
    sample = _sample(layout, 1, seed)
    data, shown = (
        layout.gather_some(np.asarray(rows, dtype=float), sample) for rows in (values, embedding)
    )
    count = min(neighbors, (len(sample) - 1) // 2)

    def measure() -> float:
        from sklearn.manifold import trustworthiness as of_whole

        return float(of_whole(data, shown, n_neighbors=count))

    return on_root(layout.comm, measure)


def nearest_rows(values: np.ndarray, sample: np.ndarray, layout: Layout, count: int) -> np.ndarray:
    """Nearest other rows of the sampled rows, the nearest first.  Collective.

    Global row numbers, equal on all ranks, as those in ``sample`` are; ties go to the smaller.
    """
    mine = layout.own(sample)
    indices, _ = nearest_neighbors(layout, values, count, mine)
    return Layout(layout.comm, len(sample), count, local_rows=len(mine)).gather_rows(indices)


def _sample(layout: Layout, columns: int, seed: int) -> np.ndarray:
    """Row numbers to measure, ascending; all of them if there are few."""
    affordable = int(_BUDGET / max(1.0, float(layout.rows) * columns))
    return sampled_rows(layout, min(SAMPLE, max(200, affordable)), seed)


def sampled_rows(layout: Layout, count: int, seed: int) -> np.ndarray:
    """Numbers of at most ``count`` rows, ascending, the same on all ranks."""
    if layout.rows <= count:
        return np.arange(layout.rows)
    return np.sort(np.random.default_rng(seed).choice(layout.rows, count, replace=False))


def share_kept(before: np.ndarray, after: np.ndarray) -> float:
    """Share of the nearest rows of each that are among its nearest afterwards."""
    return float((before[:, :, None] == after[:, None, :]).any(axis=2).mean())
