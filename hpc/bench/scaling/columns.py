"""Normal equations of secants: ``mpirun -n P python -m hpc.bench.scaling.columns COUNT COLUMNS``.

Rank 0 prints a line of JSON for each way of solving: seconds and processor seconds of set-up and
one solve, the quickest of three, the relative residual, and memory of the rank that takes most.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import numpy as np
from hpc.bench.scaling.memory import held, reset_peak

import thalweg_isometry.normal_equations as equations
from thalweg.engines.secants import SecantColumns
from thalweg.parallel import MPI, limit_threads

comm = MPI.COMM_WORLD

#: Penalty, secants of which products are kept, and name of each way.
WAYS = {
    "products kept": ("cg", equations.SQUARED),
    "shell": ("cg", 0),
    "Woodbury on every rank": ("woodbury", 0),
}
BETA, TURNS = 1.0, 3


def secants(count: int, columns: int) -> SecantColumns:
    """This rank's of so many differences of points near 30 dimensions."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((2 * count, 30)) @ rng.standard_normal((30, columns))
    points += 0.5 * rng.standard_normal(points.shape)
    rows = (points[:count] - points[count:])[comm.rank :: comm.size]
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return SecantColumns(comm, rows.astype(np.float32))


def measured(rows: SecantColumns, name: str) -> dict[str, Any]:
    """Seconds, residual and memory of a way."""
    kind, equations.SQUARED = WAYS[name]
    columns = rows.rows.shape[1]
    right = rows.adjoint(np.ones(len(rows.rows))) / rows.count + np.eye(columns)
    guess = np.eye(columns)
    gc.collect()
    base, walls, processors = reset_peak(), [], []
    for _ in range(TURNS):
        comm.barrier()
        began, work = time.perf_counter(), time.process_time()
        solution = equations.normal_equations(kind, rows, BETA).solve(right, guess)
        walls.append(time.perf_counter() - began)
        processors.append(time.process_time() - work)
    left = right - solution - BETA * rows.adjoint(rows.forward(solution))
    return {
        "way": name, "secants": rows.count, "columns": columns, "ranks": comm.size,
        "seconds": comm.allreduce(min(walls), MPI.MAX),
        "processor seconds": comm.allreduce(min(processors), MPI.MAX),
        "memory": comm.allreduce(held("VmHWM") - base, MPI.MAX),
        "residual": float(np.linalg.norm(left) / np.linalg.norm(right)),
    }  # fmt: skip


if __name__ == "__main__":
    limit_threads(comm)
    columns_of = secants(int(sys.argv[1]), int(sys.argv[2]))
    for way in sys.argv[3:] or WAYS:
        found = measured(columns_of, way)
        if comm.rank == 0:
            print(json.dumps(found), flush=True)
