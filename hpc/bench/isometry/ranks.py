"""What runs under ``mpirun``: the oracle's rate; full sets solved and certified, rank given or not.

Called as ``python -m hpc.bench.isometry.ranks PART SET FOLDER ROWS SECONDS CHECKPOINTS``; prints
one line of JSON.
"""

from __future__ import annotations

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
from hpc.bench.isometry.sets import large_set

import thalweg
from thalweg.engines.secants.secants import SecantSet
from thalweg.parallel import MPI, Layout, limit_threads
from thalweg_isometry import NearIsometry

#: Leading columns that are tried where further ones are not used.
ONE_STAGE = (48, 64, 96, 128, 192, 256)


def points_of(comm: MPI.Comm, folder: str, name: str, rows: int) -> tuple[np.ndarray, Layout]:
    """This rank's rows of a large set."""
    values = large_set(Path(folder) if folder else None, name, rows)
    layout = Layout(comm, *values.shape)
    return layout.local(values).copy(), layout


def product_rate(threads: int) -> float:
    """Single-precision products of this size by this rank, 1e9 operations a second."""
    # Two matrices: of one with itself, libraries compute half.
    a, b = np.random.default_rng(0).random((2, 2048, 784), dtype=np.float32)
    out = np.empty((2048, 2048), dtype=np.float32)
    best = 0.0
    for _ in range(12):
        began = time.perf_counter()
        np.matmul(a, b.T, out=out)
        best = max(best, 2 * 2048 * 2048 * 784 / (time.perf_counter() - began) / 1e9)
    return best


def fastest_columns(comm: MPI.Comm, secants: SecantSet, psi: np.ndarray) -> int:
    """Number of leading columns in products with which a scan without a second stage is fastest."""
    times = []
    for columns in ONE_STAGE:
        secants.scan(psi, n_leading=columns, fraction=0.001)
        comm.Barrier()
        began = time.perf_counter()
        secants.scan(psi, n_leading=columns, fraction=0.03)
        times.append(time.perf_counter() - began)
    return ONE_STAGE[int(np.argmin(comm.bcast(times)))]


def oracle(comm: MPI.Comm, folder: str, rows: int) -> dict[str, Any]:
    """Time of complete separation rounds: full products; leading columns in one stage, in two."""
    threads = limit_threads(comm)
    secants = SecantSet(*points_of(comm, folder, "mnist", rows))
    psi = secants.directions[:45] * 1.1
    rate = sum(comm.allgather(product_rate(threads)))
    found: dict[str, Any] = {"ranks": comm.size, "threads": threads, "product_rate": rate}
    one = fastest_columns(comm, secants, psi)
    for name, n_leading in (("full", 0), ("one stage", one), ("bounded", None)):
        secants.scan(psi, n_leading=n_leading, fraction=0.01)
        times = []
        for repeat in range(3):
            comm.Barrier()
            began = time.perf_counter()
            scan = secants.scan(psi * (1 + 1e-9 * repeat), n_leading=n_leading)
            comm.Barrier()
            times.append(time.perf_counter() - began)
        operations = 2.0 * scan.n_pairs * (secants.dimension + len(psi)) / 1e9
        found[name] = {
            "seconds": min(times),
            "rate": operations / min(times),
            "share": operations / min(times) / rate,
            "columns": scan.n_leading,
            "delta": scan.delta,
            "pair": list(scan.pair),
        }
    return found


def solved(
    comm: MPI.Comm,
    name: str,
    folder: str,
    rows: int,
    most: float,
    rank: int | None,
    checkpoints: str = "",
) -> dict[str, Any]:
    """Delta 0.4 at this rank, or at the least; and when each lower rank was certified.

    With a folder of checkpoints the run goes on from the newest; ``session`` says what this
    call did of it.
    """
    threads = limit_threads(comm)
    points, layout = points_of(comm, folder, name, rows)
    certified: list[dict[str, float]] = []
    last: dict[str, Any] = {}

    def note(iterate: Any) -> None:
        state = iterate.state
        rank = len(state.best.psi)
        if rank and (not certified or rank < certified[-1]["rank"]):
            at = {"seconds": setup + iterate.seconds, "processor": time.process_time() - used}
            certified.append({"rank": rank, "delta": state.best.delta, **at})
        before = state.progress.before
        last.update(points=state.subset.n_points, rank=state.attempt.rank)
        last["pairs"] = before.n_pairs if before else 0
        last["seconds"] = setup + iterate.seconds

    comm.Barrier()
    began, used = time.perf_counter(), time.process_time()
    objective = NearIsometry(SecantSet(points, layout), 0.4, rank)
    setup = time.perf_counter() - began
    result = thalweg.minimize(
        objective,
        solver="hinge-lbfgs",
        seconds=most,
        callback=note,
        checkpoint=checkpoints or None,
        resume=bool(checkpoints),
    )
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "set": name,
        "ranks": comm.size,
        "threads": threads,
        "seconds": seconds,
        "processor_seconds": comm.allreduce(time.process_time() - used, op=MPI.MAX),
        "status": result.status.name,
        **result.metrics,
        "certified": certified,
        "session": {
            "status": result.status.name,
            "seconds": seconds,
            "processor_seconds": time.process_time() - used,
            "at": last,
        },
        "active": int(result.trace["active"][-1]),
        "evaluations": result.evaluations,
        "notes": list(result.notes),
        "memory_gib": float(sum(comm.allgather(memory))),
    }


def launch(
    part: str,
    ranks: int,
    threads: int,
    folder: Path | None,
    rows: int,
    seconds: float = 0.0,
    name: str = "mnist",
    checkpoints: Path | None = None,
) -> dict[str, Any]:
    """Run a part under ``mpirun``; its answer."""
    program = shutil.which("mpirun") or shutil.which("mpiexec")
    if program is None:
        return {"error": "no mpirun found"}
    command = [program]
    if "Open MPI" in MPI.Get_library_version():
        command += ["--oversubscribe", "--bind-to", "none"]
        command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command += ["-n", str(ranks), sys.executable, "-m", "hpc.bench.isometry.ranks"]
    command += [part, name, str(folder or ""), str(rows), str(seconds), str(checkpoints or "")]
    environment = {**os.environ, "THALWEG_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1]}
    return dict(json.loads(lines[-1]))


if __name__ == "__main__":
    with thalweg.abort_on_error(MPI.COMM_WORLD):
        kind, of, where, count, limit, saved = sys.argv[1:7]
        if kind == "oracle":
            answer = oracle(MPI.COMM_WORLD, where, int(count))
        else:
            rank = 45 if kind == "full" else None
            answer = solved(MPI.COMM_WORLD, of, where, int(count), float(limit), rank, saved)
        if MPI.COMM_WORLD.rank == 0:
            print(json.dumps(answer))
