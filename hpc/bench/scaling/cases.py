"""The problems of the study, as configurations of ``thalweg run``."""

from __future__ import annotations

import copy
from typing import Any

#: Ranks of the study, and most rows of a case on more than 8.
RANKS, FEW_ROWS = (1, 2, 4, 8, 16), 50_000

#: Rows of the warm-up, which compiles: for each rank.
WARM_ROWS = 1_100

_RUN = {"run": {"seed": 0}, "output": {"pictures": False}}

#: Name of a case to its configuration.
CASES: dict[str, dict[str, Any]] = {
    "t-SNE": {
        "data": {"name": "blobs", "dimension": 16, "clusters": 40},
        "objective": {"name": "t-sne", "perplexity": 10, "neighbor_search": "approximate"},
        "preconditioner": {"name": "spectral"},
        "solver": {"name": "lbfgs"},
        "stop": {"iterations": 5},
        **_RUN,
    },
    "near-isometry": {
        "data": {"name": "blobs", "dimension": 64, "clusters": 40},
        "objective": {"name": "near-isometry", "delta": 0.4, "rank": 30},
        # Cuts among all points, which are most of what a run holds, from the first iteration.
        "solver": {"name": "hinge-lbfgs", "smallest_subset": 0},
        "stop": {"iterations": 5},
        **_RUN,
    },
    "KDAC": {
        "data": {"name": "blobs", "dimension": 20, "clusters": 4},
        "objective": {
            "name": "kdac", "clusters": 4, "components": 3, "approximation": "nystrom",
        },
        "solver": {"name": "ism"},
        "stop": {"iterations": 5},
        **_RUN,
    },
    "network": {
        "data": {"name": "blobs", "dimension": 64, "clusters": 10},
        "objective": {"name": "mlp", "layers": [64, 256, 256, 10]},
        "preconditioner": {"name": "identity"},
        "solver": {"name": "lbfgs"},
        "stop": {"iterations": 5},
        **_RUN,
    },
    "t-SNE, few columns": {
        "data": {"name": "blobs", "dimension": 6, "clusters": 40},
        "objective": {"name": "t-sne", "perplexity": 5, "neighbor_search": "approximate"},
        "preconditioner": {"name": "spectral"},
        "solver": {"name": "lbfgs"},
        "stop": {"iterations": 3},
        **_RUN,
    },
    "t-SNE, held out": {
        "data": {"name": "blobs", "dimension": 40, "clusters": 10},
        "objective": {"name": "t-sne", "perplexity": 30, "neighbor_search": "approximate"},
        "preconditioner": {"name": "spectral"},
        "solver": {"name": "lbfgs"},
        "stop": {"iterations": 5},
        **_RUN,
    },
    "KDAC, held out": {
        "data": {"name": "blobs", "dimension": 40, "clusters": 6},
        "objective": {
            "name": "kdac", "clusters": 6, "components": 4, "approximation": "nystrom",
        },
        "solver": {"name": "ism"},
        "stop": {"iterations": 5},
        **_RUN,
    },
    "near-isometry, neighbors": {
        "data": {"name": "blobs", "dimension": 32, "clusters": 10},
        "objective": {
            "name": "near-isometry", "delta": 0.4, "rank": 16, "secants": "neighbors",
        },
        "solver": {"name": "hinge-lbfgs"},
        "stop": {"iterations": 5},
        **_RUN,
    },
    "network, held out": {
        "data": {"name": "blobs", "dimension": 32, "clusters": 5},
        "objective": {"name": "mlp", "layers": [32, 400, 5], "precision": "single"},
        "preconditioner": {"name": "identity"},
        "solver": {"name": "lbfgs"},
        "stop": {"iterations": 5},
        **_RUN,
    },
    "t-SNE, timed": {
        "data": {"name": "blobs", "dimension": 50, "clusters": 40},
        "objective": {"name": "t-sne", "perplexity": 30},
        "preconditioner": {"name": "spectral"},
        "solver": {"name": "lbfgs"},
        "stop": {"iterations": 60},
        **_RUN,
    },
    "search at a rank, timed": {
        "data": {"name": "blobs", "dimension": 64, "clusters": 40},
        "objective": {"name": "near-isometry", "delta": 0.4, "rank": 24},
        "solver": {"name": "hinge-lbfgs"},
        "stop": {"iterations": 200},
        **_RUN,
    },
    "KDAC, exact, timed": {
        "data": {"name": "blobs", "dimension": 20, "clusters": 4},
        "objective": {"name": "kdac", "clusters": 4, "components": 3},
        "solver": {"name": "ism"},
        "stop": {"iterations": 5},
        **_RUN,
    },
}  # fmt: skip
for _case, _timed in (("KDAC", "KDAC, features, timed"), ("network", "network, timed")):
    CASES[_timed] = {**CASES[_case], "stop": {"iterations": 10}}

#: Case of an estimator in a process of its own, by its argument ``n_jobs``.
ESTIMATOR = "TSNE(n_jobs), fresh process"

#: Rows of the cases of which seconds are measured, and of their small size.
TIMED = {
    "t-SNE, timed": (60_000, 5_000),
    "Laplacian": (60_000, 5_000),
    "neighbors": (40_000, 5_000),
    "secant scan": (30_000, 4_000),
    "search at a rank, timed": (20_000, 3_000),
    "KDAC, exact, timed": (8_000, 3_000),
    "KDAC, features, timed": (20_000, 5_000),
    "network, timed": (50_000, 5_000),
    ESTIMATOR: (60_000, 3_000),
}

#: Cases whose work grows as the square of the rows.
ALL_PAIRS = ("neighbors", "secant scan", "KDAC, exact, timed")

#: Rows of each case.
ROWS = {
    "t-SNE": (50_000, 200_000, 1_000_000),
    "t-SNE, few columns": (5_000_000,),
    "Laplacian": (200_000,),
    "near-isometry": (10_000, 200_000, 1_000_000),
    "KDAC": (50_000, 200_000, 1_000_000),
    "network": (50_000, 200_000, 1_000_000),
    "t-SNE, held out": (30_000,),
    "KDAC, held out": (40_000,),
    "near-isometry, neighbors": (8_000,),
    "network, held out": (100_000,),
}

#: Ranks of the cases that take long on few.
FEWER_RANKS = {
    ("t-SNE", 1_000_000): (1, 8),
    ("t-SNE, few columns", 5_000_000): (8,),
    ("near-isometry", 1_000_000): (1, 8),
    ("KDAC", 1_000_000): (1, 8),
    ("network", 1_000_000): (1, 8),
}

#: Iterations of cases that take long, of which memory and bytes are known after two.
FEWER_ITERATIONS = {("KDAC", 1_000_000): 2}

#: Cases that end without a certificate, whose half a trillion pairs take an hour of a core: the
#: memory that is planned for it is not measured.
UNCERTIFIED = {("near-isometry", 1_000_000)}


def configuration(case: str, rows: int) -> dict[str, Any]:
    """The configuration of a case with so many rows."""
    found = copy.deepcopy(CASES[case])
    found["data"]["rows"] = rows
    if (case, rows) in FEWER_ITERATIONS:
        found["stop"]["iterations"] = FEWER_ITERATIONS[case, rows]
    return found
