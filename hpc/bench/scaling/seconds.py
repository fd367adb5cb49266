"""Seconds by phase: ``mpirun -n P python -m hpc.bench.scaling.seconds CASE ROWS ...``.

Threads of each rank are those of ``THALWEG_THREADS``.  Rank 0 prints a line of JSON for the
machine's ceilings, and one for each case: for each phase the seconds of the slowest rank, and the
mean of the ranks.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from hpc.bench.scaling.cases import TIMED, WARM_ROWS, configuration
from hpc.bench.scaling.ceilings import ceilings, messages
from hpc.bench.scaling.factorization import graph

import thalweg
from thalweg.driver import drive
from thalweg.driver.assembly import build_method, starting_point
from thalweg.engines.laplacian import LaplacianSolver
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.engines.secants import SecantSet
from thalweg.parallel import MPI, Layout, limit_threads
from thalweg.parallel.traffic import phase, phases
from thalweg.workbench.config import read_configuration
from thalweg.workbench.run.single_run import build_objective
from thalweg_embedding.affinities.approximate_neighbors import approximate_neighbors

comm = MPI.COMM_WORLD

#: Neighbors that are sought, and columns of the points.
SOUGHT, COLUMNS = 90, 50

#: Columns of the secants that are scanned, and rank of the map that is certified.
SECANT_COLUMNS, CERTIFIED_RANK = 200, 30

#: Solves of two columns with a Laplacian.
SOLVES = 10


#: Seconds of this rank in the parts of a case that are no phases of the code.
PARTS: dict[str, float] = {}


@contextmanager
def timed(name: str) -> Iterator[None]:
    """A part of a case, which all ranks begin together."""
    comm.barrier()
    began = time.perf_counter()
    yield
    PARTS[name] = PARTS.get(name, 0.0) + time.perf_counter() - began


def minimized(case: str, rows: int) -> None:
    """A run from data to its last iterate."""
    chosen = read_configuration(configuration(case, rows))
    with phase("data and objective"):
        _, objective = build_objective(chosen, comm)
    solver = build_method(objective, chosen.solver, chosen.preconditioner)
    start = starting_point(objective, None, chosen.run["seed"])
    drive(objective, solver, start, stop=chosen.stopping(), measure=False)


def laplacian(rows: int) -> None:
    """Set-up and solves by each engine with the Laplacian of a t-SNE."""
    layout, weights, degrees = graph(rows)
    right = layout.random_normal(0)
    for method in ("jacobi", "icc", "amg"):
        with timed(f"set-up, {method}"):
            solver = LaplacianSolver(layout, weights, degrees=degrees, method=method, rtol=1e-2)
        with timed(f"{SOLVES} solves to 0.01, {method}"):
            for _ in range(SOLVES):
                solver.solve(right)
        solver.close()


def neighbors(rows: int) -> None:
    """Exact and approximate neighbors of groups of points."""
    layout = Layout(comm, rows, COLUMNS)
    centers = np.random.default_rng(0).normal(scale=3.0, size=(40, COLUMNS))
    values = layout.random_normal(0)
    values += centers[np.arange(layout.start, layout.stop) % 40]
    with timed("exact"):
        nearest_neighbors(layout, values, SOUGHT)
    with timed("approximate"):
        approximate_neighbors(layout, values.astype(np.float32), SOUGHT)


def scan(rows: int) -> None:
    """The certificate of the leading coordinates over all pairs of points."""
    layout = Layout(comm, rows, SECANT_COLUMNS)
    points = layout.random_normal(0) * np.linspace(3.0, 0.1, SECANT_COLUMNS)
    secants = SecantSet(points, layout)
    components = np.eye(CERTIFIED_RANK, SECANT_COLUMNS)
    with timed("scan"):
        secants.scan(components)


SPECIAL: dict[str, Callable[[int], None]] = {
    "Laplacian": laplacian, "neighbors": neighbors, "secant scan": scan,
}  # fmt: skip


def measured(case: str, rows: int) -> dict[str, Any]:
    """Slowest and mean seconds of the phases of a case."""
    work = SPECIAL.get(case) or (lambda rows: minimized(case, rows))
    work(WARM_ROWS * 2 * comm.size)
    before = phases()
    PARTS.clear()
    comm.barrier()
    began = time.perf_counter()
    work(rows)
    comm.barrier()
    total = time.perf_counter() - began
    mine = dict(PARTS)
    if case not in SPECIAL:  # the code's own phases; what they do not name is in the first part
        for name, found in phases().items():
            if name != "other":
                before_it = before[name].seconds if name in before else 0.0
                mine[name] = found.seconds - before_it
    ranks = comm.allgather(mine)
    named = {name: [rank.get(name, 0.0) for rank in ranks] for name in mine}
    named["total"] = [total]
    return {
        name: [round(max(seconds), 4), round(sum(seconds) / len(seconds), 4)]
        for name, seconds in named.items()
        if max(seconds) > 1e-3
    }


def main(arguments: list[str]) -> None:
    """Measure the ceilings, then the cases that the arguments name, each with its rows."""
    threads = limit_threads(comm)
    print_line = print if comm.rank == 0 else (lambda *_, **__: None)
    line = {"ranks": comm.size, "threads": threads}
    latency, byte = messages(comm)
    found = {"ceilings": ceilings(comm, threads), "latency": latency, "seconds per byte": byte}
    print_line(json.dumps({**line, **found}), flush=True)
    for case, count in zip(arguments[::2], arguments[1::2], strict=True):
        try:
            seconds = measured(case, int(count))
        except thalweg.ThalwegError as error:
            sys.exit(str(error))
        entry = {"case": case, "rows": int(count), **line, "seconds": seconds}
        print_line(json.dumps(entry), flush=True)


if __name__ == "__main__":
    assert set(SPECIAL) <= set(TIMED)
    main(sys.argv[1:])
