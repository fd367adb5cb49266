"""KDAC of many rows, over the ranks of ``mpirun``; prints one line of JSON.

Called as ``python -m hpc.bench.clustering.large --data DIR --rows 50000``.  Every
rank has one thread, so that one rank and two are compared core against core.  Without
``--data``, or with ``--features``, the rows are generated: four groups at the corners of a
tetrahedron in three features, whose three balanced splits are the labelings, and noise.
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
from thalweg import Dataset
from thalweg.parallel import MPI, Layout, limit_threads, max_over_ranks
from thalweg.parallel.threads import usable_cores
from thalweg_clustering import build_kdac
from thalweg_clustering.agreement import normalized_mutual_information

ROOT = Path(__file__).resolve().parents[3]

#: After which a run is given up.
SECONDS = 600


def launch(
    ranks: int, folder: Path | None, rows: int, approximation: str = "exact", features: int = 0
) -> dict[str, Any]:
    """Run this file under ``mpirun``, one thread per rank, and read its result."""
    mpi = [str(shutil.which("mpirun")), "-n", str(ranks), "--oversubscribe"]
    own = [sys.executable, "-m", "hpc.bench.clustering.large", "--rows", str(rows)]
    own += ["--approximation", approximation, "--features", str(features)]
    data = ["--data", str(folder)] if folder is not None else []
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM", "PMIX_", "PMI_"))
    }
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    try:
        finished = subprocess.run(
            mpi + own + data, capture_output=True, text=True, env={**clean, **threads}, cwd=ROOT,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"rows": rows, "ranks": ranks, "error": f"not done after {SECONDS} s"}
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
    parser.add_argument("--features", type=int, default=0, help="number of generated features")
    parser.add_argument("--approximation", default="exact")
    options = parser.parse_args(argv)
    comm = MPI.COMM_WORLD
    threads = limit_threads(comm)
    layout, mine, given, truth = _rows(comm, options.data, options.rows, options.features)
    few = Layout(comm, 3000)
    _solve(*_rows(comm, None, few.rows, max(4, options.features)), options.approximation)
    comm.Barrier()
    began, started = time.perf_counter(), time.process_time()
    result, labels = _solve(layout, mine, given, truth, options.approximation)
    seconds = max_over_ranks(comm, time.perf_counter() - began)
    spent = max_over_ranks(comm, time.process_time() - started)
    used = max_over_ranks(comm, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    cores = comm.allgather(usable_cores())
    # Four groups have three balanced splits: the given, the labeled, their product.
    product = normalized_mutual_information(labels, given ^ truth, comm)
    agreement = None
    if options.approximation != "exact" and layout.rows <= 20_000:
        exact = _solve(layout, mine, given, truth, "exact")[1]
        agreement = normalized_mutual_information(labels, exact, comm)
    if comm.rank == 0:
        found = {
            "rows": layout.rows,
            "features": layout.columns,
            "approximation": options.approximation,
            "ranks": comm.size,
            "threads": threads,
            "cores": len(set().union(*cores)),
            "seconds": seconds,
            "cpu_seconds": spent,
            "evaluations": result.evaluations,
            "mebibytes": used,
            "nmi": result.metrics["nmi"],
            "nmi_product": product,
            "nmi_exact": agreement,
            "novelty": result.metrics["novelty"],
            "cost": result.metrics["cost"],
            "status": result.status.name,
            "notes": list(result.notes),
        }
        sys.stdout.write(json.dumps(found) + "\n")
    return 0


def _rows(
    comm: MPI.Comm, folder: Path | None, count: int, features: int
) -> tuple[Layout, np.ndarray, np.ndarray, np.ndarray]:
    """Layout, and this rank's rows and two labelings."""
    if folder is not None and not features:
        stem = "Four_gaussian_3D_50000"
        points = np.loadtxt(folder / f"{stem}.csv", delimiter=",")
        given = np.loadtxt(folder / f"{stem}_original_label.csv").astype(int)
        truth = np.loadtxt(folder / f"{stem}_alt_label.csv").astype(int)
        chosen = np.linspace(0, len(points) - 1, min(count, len(points))).astype(int)
        layout = Layout(comm, len(chosen), points.shape[1])
        return layout, *(layout.local(part[chosen]) for part in (points, given, truth))
    layout = Layout(comm, count, max(4, features))
    # Each rank draws its own rows: the data differ with the number of ranks, not their law.
    stream = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(layout.start,)))
    n = layout.local_rows
    given, truth = stream.integers(0, 2, (2, n))
    corners = 5.0 * (2 * np.stack([given, truth, given ^ truth], axis=1) - 1)
    noise = stream.uniform(-5, 5, (n, layout.columns - 3))
    points = np.concatenate([corners + stream.standard_normal((n, 3)), noise], axis=1)
    return layout, points, given, truth


def _solve(
    layout: Layout, points: np.ndarray, given: np.ndarray, truth: np.ndarray, approximation: str
) -> tuple[thalweg.Result, np.ndarray]:
    dataset = Dataset(points, layout)
    objective = build_kdac(
        dataset, layout.comm, clusters=2, components=3, sigma=5.0, lambda_=_penalty(layout),
        condition=False, approximation=approximation, labelings=[given], true_labels=truth,
    )  # fmt: skip
    result = thalweg.minimize(objective, solver="ism")
    return result, np.asarray(result.solution)[:, 0].astype(int)


def _penalty(layout: Layout) -> float:
    """lambda: 2, as Table 1 has it for 1,000 rows like those of the file.

    The columns of U have length one, those of Y grow with the root of n: for the generated rows,
    which are compared at several n, lambda n stays what it is there.
    """
    return 2.0 if layout.columns == 4 else 2000.0 / layout.rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
