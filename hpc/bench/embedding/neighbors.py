"""Nearest neighbors: exact, approximate, and by pynndescent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from hpc.bench.embedding.data import Images

from thalweg.engines.neighbors import nearest_neighbors
from thalweg.parallel import MPI, Layout
from thalweg.workbench.report import format_table
from thalweg_embedding.affinities.approximate_neighbors import approximate_neighbors

#: Neighbors of a point: three times a perplexity of 30.
COUNT = 90


def measure_neighbors(images: Images) -> dict[str, Any]:
    """Seconds of each search, compiling left out, and the share of the nearest that it found."""
    values = np.ascontiguousarray(images.values, dtype=np.float32)
    exact = _exact(values)
    found: dict[str, Any] = {"data": images.name, "shape": list(values.shape), "searches": {}}
    for name, search in SEARCHES.items():
        try:
            search(values[:3000])  # compiles
        except ImportError:
            continue
        begin, cpu = time.perf_counter(), time.process_time()
        numbers = search(values)
        spent = {"seconds": time.perf_counter() - begin, "CPU seconds": time.process_time() - cpu}
        rows = np.random.default_rng(0).choice(len(values), min(len(values), 5000), replace=False)
        same = numbers[rows][:, :, None] == exact[rows][:, None, :]
        found["searches"][name] = {**spent, "recall": float(same.any(axis=2).mean())}
    return found


def _exact(values: np.ndarray) -> np.ndarray:
    return nearest_neighbors(Layout(MPI.COMM_SELF, *values.shape), values, COUNT)[0]


def _approximate(values: np.ndarray) -> np.ndarray:
    return approximate_neighbors(Layout(MPI.COMM_SELF, *values.shape), values, COUNT, 0).indices


def _descent(values: np.ndarray) -> np.ndarray:
    from pynndescent import NNDescent

    index = NNDescent(values, n_neighbors=COUNT + 1, random_state=0, n_jobs=numba.get_num_threads())
    return np.asarray(index.neighbor_graph[0][:, 1:])  # without the point itself


SEARCHES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exact": _exact,
    "approximate": _approximate,
    "pynndescent": _descent,
}


def neighbors_section(found: dict[str, Any], stem: Any) -> list[str]:
    """A row for each search."""
    rows, columns = found["shape"]
    table = [{"search": name, **facts} for name, facts in found["searches"].items()]
    return [
        "## Nearest neighbors",
        "",
        f"{found['data']}, {rows:,} x {columns}, {COUNT} neighbors of each point, every program "
        "with its defaults, compiling left out. Recall is the share of the nearest that were "
        "found, of 5,000 points.",
        "",
        format_table(table, markdown=True),
        "",
    ]
