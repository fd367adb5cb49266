"""Two ranks whose BLAS and LAPACK round differently: do they go the same way?

Rank 1 is told to use the kernels of an old processor.  Each case prints a line on rank 0:
its name, whether both ranks ended with the same numbers, and what they ended with.
"""

import os
import sys

RANK = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0"))
if RANK == "1":
    os.environ["OPENBLAS_CORETYPE"] = "Prescott"  # no fused multiplications, short vectors

import hashlib  # noqa: E402

import numpy as np  # noqa: E402
from sklearn.datasets import load_digits, load_wine  # noqa: E402

import thalweg  # noqa: E402
from thalweg.data import Dataset  # noqa: E402
from thalweg.errors import ThalwegError  # noqa: E402
from thalweg.parallel import MPI, abort_on_error  # noqa: E402
from thalweg.plugins import ObjectiveSpec, plugins  # noqa: E402

COMM = MPI.COMM_WORLD
DIGITS = load_digits()
WINE = load_wine()
FEW = {"delta": 0.3}
RANKED = {"rank": 5}
ODE = {"method": "ode", "tolerance": 0.9}

#: Objective, its options, solver, and further options of the call.
CASES = [
    ("near-isometry", FEW, "hinge-lbfgs", {}),
    ("near-isometry", RANKED, "hinge-lbfgs", {"precision": 0.3}),
    ("near-isometry", FEW, "numax", {"limit": 40}),
    ("near-isometry", FEW, "numax", {"limit": 20, "inner_solver": "cg"}),
    ("near-isometry", FEW, "fromax", {"limit": 25, "start_rank": 15}),
    ("near-isometry", FEW, "fromax", {"limit": 15, "start_rank": 15, "inner_solver": "cg"}),
    ("near-isometry", FEW, "nile-pro", {"limit": 30, "start_rank": 15}),
    ("near-isometry", FEW, "secant-avoidance", {"limit": 20}),
    ("near-isometry", {"delta": 0.8}, "hessian-descent", {"sweep": 1, "share": 0.1}),
    ("near-isometry", FEW, "secant-pca", {}),
    ("near-isometry", FEW, "random-projection", {}),
    ("near-isometry", {"delta": 0.3, "rank": 8}, "lbfgs", {"iterations": 30}),
    ("mlp", {}, "lbfgs", {"iterations": 30}),
    ("mlp", {}, "nonlinear-cg", {"iterations": 30}),
    ("mlp", {}, "gradient-descent", {"iterations": 30}),
    ("mlp", {}, "scipy:L-BFGS-B", {"iterations": 10}),
    ("mlp", {}, "saddle-free", {"iterations": 5}),
    ("mlp", {}, "saddle-free-subspace", {"iterations": 30}),
    ("mlp", {}, "hessian-free", {"iterations": 5}),
    ("kdac", {}, "ism", {"iterations": 10}),
    ("kdac", {}, "stiefel", {"iterations": 20}),
    ("kdac", {}, "dimension-growth", {"iterations": 20}),
    ("t-sne", {"init": "spectral"}, "lbfgs", {"iterations": 20}),
    ("mlp", {"layers": [64, 2, 10]}, "saddle-free", {**ODE, "iterations": 1}),
    ("laplacian-eigenmaps", {}, "eigen", {}),
]


def digest(value):
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]


def main(wanted):
    points = np.random.default_rng(0).standard_normal((30, 40))
    if len(set(COMM.allgather(digest(points @ points.T)))) == 1:
        print("the processors round alike", flush=True)
        return
    for number, (name, options, solver, further) in enumerate(CASES):
        if wanted and not {name, str(number)} & wanted:
            continue
        data = WINE if name == "kdac" else DIGITS
        few = 18 if name == "near-isometry" else 60  # all pairs of rows, in many iterations
        rows = np.asarray(data.data[:few] if data is DIGITS else data.data, float)
        rows = (rows - rows.mean(axis=0)) / rows.std() if data is DIGITS else rows
        dataset = Dataset.from_array(rows, data.target[: len(rows)], comm=COMM)
        objective = plugins().find(ObjectiveSpec, name)[0].build(dataset, COMM, options=options)
        try:
            result = thalweg.minimize(objective, solver=solver, **further)
        except ThalwegError as error:
            found = [f"{error} (rank {COMM.rank})"]
        else:
            found = [result.status.name, result.iterations, result.evaluations]
            if objective.layout.replicated:
                found += [digest(result.x)]
        every = COMM.allgather(found)
        if COMM.rank == 0:
            verdict = "same" if every[0] == every[1] else "differ"
            print(number, name, solver, verdict, every, flush=True)


with abort_on_error():
    main(set(sys.argv[1:]))
