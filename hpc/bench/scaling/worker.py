"""Cases at one number of ranks: ``mpirun -n P python -m hpc.bench.scaling.worker CASE ROWS ...``.

Rank 0 prints a line of JSON for each case: of each figure the most that a rank has.  In the folder
that ``THALWEG_SCALING_FOLDER`` names a case keeps checkpoints, from which it goes on, and its map;
it ends ``THALWEG_SCALING_SECONDS`` after it began, or when there is a file ``stop``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from hpc.bench.scaling.cases import UNCERTIFIED, WARM_ROWS, configuration
from hpc.bench.scaling.memory import held, reset_peak

import thalweg
from thalweg.driver import Checkpoints, Iterate, drive
from thalweg.driver.assembly import build_method, starting_point
from thalweg.engines.laplacian import LaplacianSolver
from thalweg.parallel import MPI, Layout, limit_threads
from thalweg.parallel.traffic import phases
from thalweg.workbench.config import read_configuration
from thalweg.workbench.run.directory import save_rows
from thalweg.workbench.run.single_run import build_objective
from thalweg_embedding.quality import embedding_quality

comm = MPI.COMM_WORLD

#: Seconds between checkpoints.
INTERVAL = 600.0


def sent() -> np.ndarray:
    """Bytes and messages that this rank has sent, as its engines count them."""
    found = phases().values()
    return np.array([sum(p.bytes for p in found), sum(p.messages for p in found)], dtype=float)


class Ran(NamedTuple):
    """A case that was run.

    Attributes
    ----------
    counts
        What had been sent before the first iteration, and after each.
    peak
        Bytes in memory at most until the run's end.
    facts
        What else is known of a run to a map that is kept, the same on all ranks.
    """

    counts: list[np.ndarray]
    peak: float
    facts: dict[str, Any]


def run(case: str, rows: int, folder: Path | None = None) -> Ran:
    """Run a case; ``folder``: where it keeps checkpoints and its map, if it does."""
    if case == "Laplacian":
        return Ran(solves(rows), held("VmHWM"), {})
    began = time.perf_counter()
    chosen = read_configuration(configuration(case, rows))
    data, objective = build_objective(chosen, comm)
    solver = build_method(objective, chosen.solver, chosen.preconditioner)
    counts: list[np.ndarray] = []
    built = time.perf_counter() - began

    def count(at: Iterate) -> bool:
        counts.append(sent())
        if folder is None:
            return False
        if comm.rank == 0:
            print(f"{at.iteration} {at.seconds:.1f} s {at.objective:.6g}", file=sys.stderr)
        return (folder / "stop").exists()

    start = starting_point(objective, None, chosen.run["seed"])
    stop = chosen.stopping()
    if folder is not None:
        limit = float(os.environ.get("THALWEG_SCALING_SECONDS", "inf"))
        stop = replace(stop, seconds=max(0.0, limit - built), iterations=None)
    result = drive(
        objective,
        solver,
        start,
        stop=stop,
        callbacks=(count,),
        checkpoints=Checkpoints(folder, INTERVAL, chosen.identity()) if folder else None,
        resume=folder is not None,
        measure=(case, rows) not in UNCERTIFIED,
    )
    peak, facts = held("VmHWM"), {}
    if folder is not None:
        assert result.solution is not None
        save_rows(comm, folder / "map.npy", data.layout.with_columns(2), result.solution)
        facts = {
            "iterations": result.iterations,
            "status": result.status.value,
            "evaluations": result.evaluations,
            "objective": [float(result.trace["objective"][0]), result.objective],
            "seconds": {"build": built, **result.seconds},
            **embedding_quality(result.solution, data, comm),
        }
    return Ran(counts, peak, facts)


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
    right = layout.random_normal(0)
    counts = [sent()]
    for _ in range(10):
        solver.solve(right)
        counts.append(sent())
    return counts


def measured(case: str, rows: int, folder: Path | None) -> dict[str, Any]:
    """Memory beyond that of the interpreter and compiled code, and what is sent."""
    run(case, WARM_ROWS * comm.size)
    gc.collect()
    base, before, began = reset_peak(), sent(), time.process_time()
    counts, peak, facts = run(case, rows, folder)
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
        **({"run": facts} if facts else {}),
    }


if __name__ == "__main__":
    limit_threads(comm)
    kept = os.environ.get("THALWEG_SCALING_FOLDER", "")
    for name, count in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        try:
            found = measured(name, int(count), Path(kept) if kept else None)
        except thalweg.ThalwegError as error:
            sys.exit(str(error))
        if comm.rank == 0:
            print(json.dumps(found), flush=True)
