"""Factor a Laplacian: ``mpirun -n P python -m hpc.bench.scaling.factorization ROWS METHOD ...``.

The Laplacian is that of the spectral direction of a t-SNE.  Rank 0 prints a line of JSON for each
method: seconds of the set-up and of a solve of two columns to 1e-8, memory of the rank that takes
most, and entries of a complete factor.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import numpy as np
from hpc.bench.scaling.cases import configuration
from hpc.bench.scaling.memory import held, reset_peak

from thalweg.driver.assembly import starting_point
from thalweg.engines.laplacian import LaplacianSolver
from thalweg.parallel import MPI, Layout, limit_threads
from thalweg.workbench.config import read_configuration
from thalweg.workbench.run.single_run import build_objective
from thalweg_embedding.preconditioners.spectral import strongest
from thalweg_embedding.relocation import placed_weights

comm = MPI.COMM_WORLD

#: Weights kept in a row, and the relative residual of a solve.
NEIGHBORS, RESIDUAL = 7, 1e-8

#: Solves of which the quickest counts.
SOLVES = 3

METHODS = ("mumps", "blocks", "icc", "amg", "jacobi")


def graph(rows: int) -> tuple[Layout, Any, np.ndarray]:
    """Layout, weights and degrees of a generated set's affinities."""
    chosen = read_configuration(configuration("t-SNE", rows))
    _, objective = build_objective(chosen, comm)
    x = starting_point(objective, None, chosen.run["seed"])
    weights, places = placed_weights(objective, x)
    layout = objective.layout if places is None else places.layout.with_columns(2)
    degrees = np.asarray(weights.sum(axis=1), dtype=float).ravel()
    return layout, strongest(layout, weights, NEIGHBORS), degrees


def measured(layout: Layout, weights: Any, degrees: np.ndarray, method: str) -> dict[str, Any]:
    """Seconds, memory and fill of a method."""
    right = layout.random_normal(0)
    gc.collect()
    base = reset_peak()
    comm.barrier()
    began = time.perf_counter()
    solver = LaplacianSolver(layout, weights, degrees=degrees, method=method, rtol=RESIDUAL)
    comm.barrier()
    built, solves = time.perf_counter() - began, []
    for _ in range(SOLVES):
        comm.barrier()
        began = time.perf_counter()
        solver.solve(right)
        solves.append(time.perf_counter() - began)
    memory = comm.allreduce(held("VmHWM") - base, op=MPI.MAX)
    entries = comm.allreduce(int(weights.nnz))
    fill = solver.method.factor_entries / entries
    solver.close()
    return {
        "rows": layout.rows, "ranks": comm.size, "method": method, "entries": entries,
        "set-up": comm.allreduce(built, op=MPI.MAX), "solve": comm.allreduce(min(solves), MPI.MAX),
        "memory": memory, "fill": fill,
    }  # fmt: skip


if __name__ == "__main__":
    limit_threads(comm)
    problem = graph(int(sys.argv[1]))
    for name in sys.argv[2:] or METHODS:
        found = measured(*problem, name)
        if comm.rank == 0:
            print(json.dumps(found), flush=True)
