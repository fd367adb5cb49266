"""Speed of curvature products beside plain matrix products, and of two ranks beside one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg_saddlefree.networks.build import build_autoencoder
from thalweg_saddlefree.networks.objective import NetworkObjective

ROOT = Path(__file__).resolve().parents[3]

LAYERS = [784, 1000, 500, 250, 30]


def built(rows: int, precision: str) -> NetworkObjective:
    """The full-size autoencoder on random pixels."""
    values = np.random.default_rng(0).random((rows, LAYERS[0]))
    data = Dataset.from_array(values, comm=MPI.COMM_WORLD)
    return build_autoencoder(data, MPI.COMM_WORLD, layers=LAYERS, precision=precision)


def seconds_of(action: Callable[[], object], least: float = 1.5) -> float:
    """Mean time of an action, repeated for at least that long after one warming call."""
    action()
    start, repeats = time.perf_counter(), 0
    while time.perf_counter() - start < least:
        action()
        repeats += 1
    return (time.perf_counter() - start) / repeats


def matrix_rate(dtype: type) -> float:
    """Operations a second of a square matrix product."""
    size = 2000
    a = np.ones((size, size), dtype=dtype)
    return 2.0 * size**3 / seconds_of(lambda: a @ a)


def measure_products(rows: int, precision: str) -> dict[str, Any]:
    """Rates beside that of the matrix product, in turns, best of three pairs."""
    objective = built(rows, precision)
    x = objective.initial_point(0)
    along = objective.layout.random_normal(1)
    dtype = np.float64 if precision == "double" else np.float32
    actions: dict[str, Callable[[], object]] = {
        "hessian": lambda: objective.hessian_product(x, along),
        "gauss-newton": lambda: objective.gauss_newton_product(x, along),
        "gradient": lambda: objective.value_and_gradient(x),
    }
    found: dict[str, Any] = {"precision": precision, "rows": rows}
    best: dict[str, float] = dict.fromkeys(actions, 0.0)
    for _ in range(3):
        reference = matrix_rate(dtype)
        found["matrix_gflops"] = max(found.get("matrix_gflops", 0.0), reference / 1e9)
        for kind, action in actions.items():
            rate = objective.network.flops(kind) * rows / seconds_of(action)
            best[kind] = max(best[kind], rate)
    for kind, rate in best.items():
        found[f"{kind}_gflops"] = rate / 1e9
        found[f"{kind}_share"] = rate / 1e9 / found["matrix_gflops"]
    return found


def measure_rates(rows: int) -> dict[str, Any]:
    """Rates on one rank, and seconds of a full-batch gradient on one and on two ranks."""
    with threadpoolctl.threadpool_limits(1):
        products = [measure_products(2048, precision) for precision in ("double", "single")]
    times: dict[str, list[float]] = {"1": [], "2": []}
    for _ in range(2):
        for ranks in (1, 2):
            times[str(ranks)].append(_gradient_seconds(ranks, rows))
    speedup = min(times["1"]) / min(times["2"])
    return {"products": products, "gradient_rows": rows, "seconds": times, "speedup": speedup}


def _gradient_seconds(ranks: int, rows: int) -> float:
    """Run this file on that many ranks, one thread each."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PMI_"))},
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    module = "hpc.bench.saddlefree.rates"
    command = ["mpirun", "-n", str(ranks), sys.executable, "-m", module, str(rows)]
    finished = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT, timeout=600
    )
    return float(json.loads(finished.stdout.strip().splitlines()[-1]))


def _worker(rows: int) -> None:
    comm = MPI.COMM_WORLD
    objective = built(rows, "double")
    x = objective.initial_point(0)
    times = []
    for _ in range(3):
        comm.Barrier()
        start = time.perf_counter()
        objective.value_and_gradient(x)
        comm.Barrier()
        times.append(time.perf_counter() - start)
    if comm.rank == 0:
        sys.stdout.write(json.dumps(min(times)) + "\n")


if __name__ == "__main__":
    _worker(int(sys.argv[1]))
