"""Exact ISM on many rows, over the ranks of ``mpirun``; prints one line of JSON.

Called as ``python -m hpc.bench.clustering.large --data DIR --rows 50000``.  Every
rank has one thread, so that one rank and two are compared core against core.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import thalweg
from thalweg.parallel import MPI, Layout, limit_threads, max_over_ranks
from thalweg_clustering.agreement import normalized_mutual_information
from thalweg_clustering.kdac import make_kdac
from thalweg_clustering.prepared_data import centred_points

ROOT = Path(__file__).resolve().parents[3]


def launch(ranks: int, folder: Path | None, rows: int) -> dict[str, Any]:
    """Run this file under ``mpirun``, one thread a rank, and read its result."""
    mpi = [str(shutil.which("mpirun")), "-n", str(ranks), "--oversubscribe"]
    own = [sys.executable, "-m", "hpc.bench.clustering.large", "--rows", str(rows)]
    data = ["--data", str(folder)] if folder is not None else []
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM", "PMIX_", "PMI_"))
    }
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    finished = subprocess.run(
        mpi + own + data, capture_output=True, text=True, env={**clean, **threads}, cwd=ROOT,
        timeout=900,
    )  # fmt: skip
    lines = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode or not lines:
        return {"rows": rows, "ranks": ranks, "error": finished.stderr[-2000:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def main(argv: list[str]) -> int:
    """Run and report from rank 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with Four_gaussian_3D_50000.csv")
    parser.add_argument("--rows", type=int, default=50000)
    options = parser.parse_args(argv)
    comm = MPI.COMM_WORLD
    threads = limit_threads(comm)
    points, given, truth = _rows(options.data, options.rows)
    _solve(comm, points[:: max(1, len(points) // 3000)], given[:: max(1, len(points) // 3000)],
           None)  # fmt: skip
    comm.Barrier()
    began, started = time.perf_counter(), time.process_time()
    result = _solve(comm, points, given, truth)
    seconds = max_over_ranks(comm, time.perf_counter() - began)
    spent = max_over_ranks(comm, time.process_time() - started)
    used = max_over_ranks(comm, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    labels = result.gather()[:, 0]
    if comm.rank == 0:
        found = {
            "rows": len(points),
            "ranks": comm.size,
            "threads": threads,
            "seconds": seconds,
            "cpu_seconds": spent,
            "evaluations": result.evaluations,
            "mebibytes": used,
            "nmi": result.metrics["nmi"],
            # Four groups have three balanced splits: the given, the labelled, their product.
            "nmi_product": normalized_mutual_information(labels, given ^ truth),
            "novelty": result.metrics["novelty"],
            "cost": result.metrics["cost"],
        }
        sys.stdout.write(json.dumps(found) + "\n")
    return 0


def _rows(folder: Path | None, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if folder is not None:
        stem = "Four_gaussian_3D_50000"
        points = np.loadtxt(folder / f"{stem}.csv", delimiter=",")
        given = np.loadtxt(folder / f"{stem}_original_label.csv").astype(int)
        truth = np.loadtxt(folder / f"{stem}_alt_label.csv").astype(int)
        chosen = np.linspace(0, len(points) - 1, min(count, len(points))).astype(int)
        return points[chosen], given[chosen], truth[chosen]
    stream = np.random.default_rng(0)
    given, truth = stream.integers(0, 2, (2, count))
    centres = 10.0 * np.stack([given, truth, given + truth], axis=1)
    points = np.concatenate(
        [centres + stream.standard_normal((count, 3)), stream.uniform(-20, 20, (count, 1))], axis=1
    )
    return points, given, truth


def _solve(
    comm: MPI.Comm, points: np.ndarray, given: np.ndarray, truth: np.ndarray | None
) -> thalweg.Result:
    layout = Layout(comm, *points.shape)
    mine = centred_points(layout, layout.local(points))
    objective = make_kdac(layout, mine, given, 2, 3, 5.0, 2.0, truth=truth, bound=False)
    return thalweg.minimize(objective, solver="ism")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
