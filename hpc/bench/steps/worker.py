"""One case, on all ranks: its digest, seconds and peak of memory as a line of JSON."""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import tempfile
import time
from typing import Any

import numpy as np
from hpc.bench.steps.cases import DIGESTS, TIMES

import thalweg
from thalweg.parallel import MPI, Layout


def run(name: str) -> dict[str, Any]:
    """Run a case by name."""
    if name == "L-BFGS + spectral, 1,000,000 x 2, checkpoints":
        return springs()
    if name == "secant scan, 60,000 x 50":
        return scan()
    result = thalweg.run(DIGESTS.get(name) or TIMES[name])
    return {"evaluations": result.evaluations, "objective": result.objective.hex()} | {
        "digest": digest(result.gather(), result.objective),
        "seconds": round(result.seconds["optimize"] + result.seconds["setup"], 3),
    }


def springs() -> dict[str, Any]:
    """Twenty steps on a large chain of springs, with a checkpoint at each end."""
    from thalweg.testing import SpringProblem

    problem = SpringProblem(MPI.COMM_WORLD, rows=1_000_000)
    folder = MPI.COMM_WORLD.bcast(tempfile.mkdtemp())
    result = thalweg.minimize(problem, iterations=20, checkpoint=folder)
    seconds = result.seconds
    return {"evaluations": result.evaluations, "objective": result.objective.hex()} | {
        "seconds": round(seconds["optimize"], 3), "checkpoint": round(seconds["checkpoint"], 3)
    }  # fmt: skip


def scan() -> dict[str, Any]:
    """A certificate of a projection."""
    from thalweg_isometry import certify
    from thalweg_isometry.near_isometry import SecantSet

    layout = Layout(MPI.COMM_WORLD, 60_000, 50)
    points = SecantSet(layout.random_normal(0), layout)
    psi = np.linalg.qr(np.random.default_rng(1).normal(size=(50, 50)))[0][:40] * 1.1
    began = time.perf_counter()
    found = certify(points, psi)
    return {"seconds": round(time.perf_counter() - began, 3), "objective": float(found.delta).hex()}


def digest(array: np.ndarray, value: float) -> str:
    """First digits of a hash of the solution and of the objective there."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes() + value.hex().encode()).hexdigest()[
        :12
    ]


if __name__ == "__main__":
    for case in sys.argv[1:]:
        row = {"case": case, "ranks": MPI.COMM_WORLD.size} | run(case)
        peak = MPI.COMM_WORLD.allreduce(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, MPI.MAX)
        if MPI.COMM_WORLD.rank == 0:
            print(json.dumps(row | {"MiB": peak // 1024}), flush=True)
