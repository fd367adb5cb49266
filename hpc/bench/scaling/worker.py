"""Cases at one number of ranks: ``mpirun -n P python -m hpc.bench.scaling.worker CASE ROWS ...``.

Rank 0 prints a line of JSON for each case: of each figure the most that a rank has.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from hpc.bench.scaling.cases import WARM_ROWS, configuration

import thalweg
from thalweg.config import read_configuration
from thalweg.driver import drive
from thalweg.job.building import build_objective, built_method, starting_point
from thalweg.parallel import MPI, LaplacianSolver, Layout, limit_threads, phases

comm = MPI.COMM_WORLD


def held(name: str) -> float:
    """Bytes of this process in memory: ``VmRSS`` now, ``VmHWM`` at most since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024.0 * float(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}: memory is measured on Linux alone")


def sent() -> np.ndarray:
    """Bytes and messages that this rank has sent, as its engines count them."""
    found = phases().values()
    return np.array([sum(p.bytes for p in found), sum(p.messages for p in found)], dtype=float)


def run(case: str, rows: int) -> list[np.ndarray]:
    """Run a case; what had been sent before the first iteration, and after each."""
    if case == "Laplacian":
        return solves(rows)
    chosen = read_configuration(configuration(case, rows))
    _, objective = build_objective(chosen, comm)
    solver = built_method(chosen, objective)
    counts: list[np.ndarray] = []

    def count(_: Any) -> None:
        counts.append(sent())

    start = starting_point(chosen, objective)
    drive(objective, solver, start, stop=chosen.stopping(), callbacks=(count,))
    objective.destroy()
    return counts


def solves(rows: int) -> list[np.ndarray]:
    """Ten solves of two columns with the Laplacian of a lattice's 8-neighbor graph, by CG."""
    side = int(rows**0.5)
    layout = Layout(comm, side * side, 2)
    own = np.arange(layout.start, layout.stop)
    steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    edges = []
    for i, j in steps:
        row, column = own // side + i, own % side + j
        inside = (row >= 0) & (row < side) & (column >= 0) & (column < side)
        edges.append(np.stack([own[inside] - layout.start, (row * side + column)[inside]]))
    first, second = np.concatenate(edges, axis=1)
    shape = (layout.local_rows, layout.rows)
    weights = scipy.sparse.csr_matrix((np.ones(len(first)), (first, second)), shape=shape)
    solver = LaplacianSolver(layout, weights, shift=0.5, method="jacobi")
    right, left = layout.vec_from(layout.random_normal(0)), layout.create_vec()
    counts = [sent()]
    for _ in range(10):
        solver.solve(right, left)
        counts.append(sent())
    for thing in (solver, right, left):
        thing.destroy()
    return counts


def measured(case: str, rows: int, work: Callable[[str, int], list[np.ndarray]]) -> dict[str, Any]:
    """Memory beyond that of the interpreter and compiled code, and what is sent."""
    work(case, WARM_ROWS * comm.size)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forget the most until now
    base, before, began = held("VmRSS"), sent(), time.process_time()
    counts = work(case, rows)
    peak = held("VmHWM")
    iterations = np.diff(counts, axis=0) if len(counts) > 1 else np.zeros((1, 2))
    mine = {
        "memory": peak - base,
        "base": base,
        "setup_bytes": float((counts[0] - before)[0]),
        "setup_messages": float((counts[0] - before)[1]),
        "bytes": float(iterations[:, 0].mean()),
        "messages": float(iterations[:, 1].mean()),
        "cpu_seconds": time.process_time() - began,
    }
    ranks = comm.allgather(mine)
    return {
        "case": case,
        "rows": rows,
        "ranks": comm.size,
        **{name: max(rank[name] for rank in ranks) for name in mine},
    }


if __name__ == "__main__":
    limit_threads(comm)
    for name, count in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        try:
            found = measured(name, int(count), run)
        except thalweg.ThalwegError as error:
            sys.exit(str(error))
        if comm.rank == 0:
            print(json.dumps(found), flush=True)
