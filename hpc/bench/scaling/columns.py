"""NuMax on generated points: ``mpirun -n P python -m hpc.bench.scaling.columns COLUMNS [POINTS]``.

Rank 0 prints a line of JSON for each inner solver: seconds and memory of the rank that takes most,
ADMM's iterations and those of conjugate gradients, and the end value, which is the nuclear norm.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import numpy as np
from hpc.bench.scaling.memory import held, reset_peak

import thalweg
from thalweg.parallel import MPI, limit_threads
from thalweg_isometry import normal_equations
from thalweg_isometry.near_isometry import build

comm = MPI.COMM_WORLD

#: Points, whose pairs are all secants; directions along which they vary; delta.
POINTS, DIRECTIONS, DELTA = 78, 60, 0.3

#: Iterations at most, by columns: to the end, or few where each is long; and seed of the points.
LIMITS, SEED = {100: 500, 400: 500, 2000: 5}, 0

METHODS = {"dense": "woodbury", "columns": "cg"}

_conjugate_gradients = normal_equations.conjugate_gradients
inner = [0]


def _counted(times: Any, *arguments: Any) -> Any:
    """Conjugate gradients, with the products that they take counted."""

    def product(u: np.ndarray) -> np.ndarray:
        inner[0] += 1
        return np.asarray(times(u))

    return _conjugate_gradients(product, *arguments)


def points(columns: int, count: int) -> thalweg.Dataset:
    """Points near a subspace, the same on all ranks."""
    random = np.random.default_rng(SEED)
    scores = random.standard_normal((count, DIRECTIONS)) * np.geomspace(1.0, 0.05, DIRECTIONS)
    rows = scores @ random.standard_normal((DIRECTIONS, columns))
    return thalweg.Dataset.from_array(rows + 0.05 * random.standard_normal((count, columns)))


def measured(columns: int, count: int, method: str) -> dict[str, Any]:
    """Figures of a run."""
    objective = build(points(columns, count), comm, delta=DELTA)
    gc.collect()
    base, inner[0] = reset_peak(), 0
    comm.barrier()
    began, cpu = time.perf_counter(), time.process_time()
    result = thalweg.minimize(
        objective, solver="numax", inner_solver=METHODS[method], sweep=5,
        iterations=LIMITS[columns] // 5,
    )  # fmt: skip
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    memory = held("VmHWM") - base
    return {
        "columns": columns, "secants": objective.secants.n_pairs, "ranks": comm.size,
        "method": method, "seconds": comm.allreduce(seconds, op=MPI.MAX),
        "cpu": comm.allreduce(cpu, op=MPI.MAX), "memory": comm.allreduce(memory, op=MPI.MAX),
        "iterations": result.evaluations, "inner": inner[0], "value": float((result.x**2).sum()),
        "status": result.status.name,
    }  # fmt: skip


if __name__ == "__main__":
    limit_threads(comm)
    normal_equations.conjugate_gradients = _counted
    for name in METHODS:  # what is imported and compiled, is so before memory is measured
        measured(100, 12, name)
    for name in METHODS:
        found = measured(int(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else POINTS, name)
        if comm.rank == 0:
            print(json.dumps(found), flush=True)
