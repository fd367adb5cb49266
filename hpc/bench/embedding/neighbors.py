"""Nearest neighbors: exact, approximate, and by other programs; of images and of a million patches.

Other programs run in the interpreter that RIVALS_PYTHON names, by default this one: an environment
of their own with pynndescent, hnswlib and faiss-cpu serves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from hpc.bench.embedding.data import mnist

from thalweg.engines.neighbors import nearest_neighbors
from thalweg.parallel import MPI, Layout
from thalweg.workbench.report import format_table
from thalweg_embedding.affinities.approximate_neighbors import approximate_neighbors

#: Rows on which the recall is measured.
JUDGED = 1000

#: Rows of the smallest set with an exact search of all of them left out.
MANY = 500_000


def measure_neighbors(
    folder: Path | None,
    chosen: tuple[str, ...],
    searches: tuple[str, ...],
    before: dict[str, Any],
    note: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Seconds of each search, compiling left out, and the share of the nearest that it found.

    Sets and searches that are not chosen keep what an earlier call found.
    """
    found: dict[str, Any] = {"sets": dict(before.get("sets", {}))}
    for name in chosen or SETS:
        values, k = SETS[name](folder)
        kept = found["sets"].setdefault(name, {"searches": {}})
        kept |= {"shape": list(values.shape), "neighbors": k}
        sample = np.random.default_rng(0).choice(len(values), JUDGED, replace=False)
        sample.sort()
        layout = Layout(MPI.COMM_SELF, *values.shape)
        true = nearest_neighbors(layout, values, k, sample)[0]
        for search in searches or SEARCHES:
            if search == "exact" and len(values) > MANY:
                continue
            numbers, spent = SEARCHES[search](values, k)
            same = (numbers[sample][:, :, None] == true[:, None, :]).any(axis=2)
            kept["searches"][search] = {**spent, "recall": float(same.mean())}
            note(found)
    return found


def _images(folder: Path | None) -> tuple[np.ndarray, int]:
    return np.ascontiguousarray(mnist(folder, 70_000).values, dtype=np.float32), 90


def _patches(folder: Path | None) -> tuple[np.ndarray, int]:
    file = (folder or Path()) / "patches" / "scene15_patches8x8_1M.npy"
    return np.load(file, allow_pickle=False).astype(np.float32), 30


#: Sets of points, and how many neighbors of each: three times a perplexity of 30, or of 10.
SETS: dict[str, Callable[[Path | None], tuple[np.ndarray, int]]] = {
    "mnist": _images,
    "patches": _patches,
    "some patches": lambda folder: (_patches(folder)[0][::5].copy(), 30),
}


def _ours(
    search: Callable[[Layout, np.ndarray, int], Any],
) -> Callable[[np.ndarray, int], tuple[np.ndarray, dict[str, float]]]:
    def run(values: np.ndarray, k: int) -> tuple[np.ndarray, dict[str, float]]:
        few = values[:30_000]
        search(Layout(MPI.COMM_SELF, *few.shape), few, k)  # compiles
        begin, cpu = time.perf_counter(), time.process_time()
        numbers = search(Layout(MPI.COMM_SELF, *values.shape), values, k)[0]
        spent = time.perf_counter() - begin, time.process_time() - cpu
        return numbers, dict(zip(("seconds", "CPU seconds"), spent, strict=True))

    return run


def _theirs(body: str) -> Callable[[np.ndarray, int], tuple[np.ndarray, dict[str, float]]]:
    def run(values: np.ndarray, k: int) -> tuple[np.ndarray, dict[str, float]]:
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/values.npy", values)
            program = os.environ.get("RIVALS_PYTHON", sys.executable)
            threads = str(numba.get_num_threads())
            call = [program, "-c", _AROUND.format(body=body), folder, str(k), threads]
            keep = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True, env=keep)
            spent = json.loads(done.stdout.splitlines()[-1])
            return np.load(f"{folder}/numbers.npy"), spent

    return run


_AROUND = """
import json, sys, time
import numpy as np
folder, k, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
{body}
values = np.load(folder + "/values.npy")
search(values[:3000])  # compiles
begin, cpu = time.perf_counter(), time.process_time()
numbers = search(values)
spent = {{"seconds": time.perf_counter() - begin, "CPU seconds": time.process_time() - cpu}}
others = numbers != np.arange(len(values))[:, None]
order = np.argsort(~others, axis=1, kind="stable")[:, :k]  # without the point itself
np.save(folder + "/numbers.npy", np.take_along_axis(numbers, order, 1))
print(json.dumps(spent))
"""

_PYNNDESCENT = """
import numba
from pynndescent import NNDescent
numba.set_num_threads(threads)
def search(values):
    index = NNDescent(values, n_neighbors=k + 1, random_state=0, n_jobs=threads)
    return index.neighbor_graph[0]
"""

_HNSWLIB = """
import hnswlib
def search(values):
    index = hnswlib.Index(space="l2", dim=values.shape[1])
    index.init_index(max_elements=len(values), M=16, ef_construction=100)
    index.set_num_threads(threads)
    index.add_items(values)
    index.set_ef(max(2 * k, 60))
    return index.knn_query(values, k=k + 1, num_threads=threads)[0].astype(np.int64)
"""

_FAISS = """
import faiss
faiss.omp_set_num_threads(threads)
def search(values):
    cells = int(4 * len(values) ** 0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(values.shape[1]), values.shape[1], cells)
    index.cp.min_points_per_centroid = 1
    index.train(values[np.random.default_rng(0).permutation(len(values))[: 40 * cells]])
    index.add(values)
    index.nprobe = 16
    return index.search(values, k + 1)[1]
"""

SEARCHES: dict[str, Callable[[np.ndarray, int], tuple[np.ndarray, dict[str, float]]]] = {
    "exact": _ours(nearest_neighbors),
    "approximate": _ours(approximate_neighbors),
    "pynndescent": _theirs(_PYNNDESCENT),
    "hnswlib": _theirs(_HNSWLIB),
    "faiss": _theirs(_FAISS),
}


def neighbors_section(found: dict[str, Any], stem: Any) -> list[str]:
    """A row for each search of each set."""
    table = [
        {
            "data": name,
            "rows": facts["shape"][0],
            "columns": facts["shape"][1],
            "neighbors": facts["neighbors"],
            "search": search,
            **spent,
        }
        for name, facts in found["sets"].items()
        for search, spent in facts["searches"].items()
    ]
    return [
        "## Nearest neighbors",
        "",
        "Exact and approximate search here and pynndescent with their defaults; hnswlib with M = "
        "16, ef_construction = 100 and ef = 2 k; faiss's IndexIVFFlat with 4 cells for each root "
        "of the number of rows, of which 16 are searched. Compiling left out. Recall is the share "
        f"of the nearest that were found, of {JUDGED:,} points.",
        "",
        format_table(table, markdown=True),
        "",
    ]
