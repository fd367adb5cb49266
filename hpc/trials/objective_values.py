"""Values of one objective of each family at fixed points; started by ``test_rank_counts.py``.

``python objective_values.py CASE...`` prints on rank 0 a line of JSON for each case: the value and
its error as the objective states it, the length of the gradient, and two of its projections.
"""

import json
import sys
from typing import Any

import numpy as np

from thalweg.driver.assembly import starting_point
from thalweg.interfaces import ManifoldVariable
from thalweg.parallel import MPI, abort_on_error, sum_over_ranks
from thalweg.workbench.config import read_configuration
from thalweg.workbench.run.single_run import build_objective


def _blobs(rows: int, dimension: int, **options: Any) -> dict[str, Any]:
    return {"name": "blobs", "rows": rows, "dimension": dimension, **options}


#: Large enough for what only large problems do: slabs, cells of the data, features.
CASES: dict[str, dict[str, Any]] = {
    "t-sne by slabs": {
        "data": _blobs(20_000, 6, clusters=5),
        "objective": {"name": "t-sne", "perplexity": 5},
    },
    "t-sne by slabs, three dimensions": {
        "data": _blobs(20_000, 6, clusters=5),
        "objective": {"name": "t-sne", "perplexity": 5, "dimensions": 3},
    },
    "elastic embedding by all pairs": {
        "data": _blobs(2_000, 6),
        "objective": {"name": "elastic-embedding", "perplexity": 8, "repulsion": "exact"},
    },
    "umap by all pairs, three dimensions": {
        "data": _blobs(3_000, 6),
        "objective": {"name": "umap", "dimensions": 3},
    },
    # With lambda, which is else chosen by a run on fewer rows, to that run's tolerance.
    "kdac by features": {
        "data": _blobs(5_000, 8, clusters=3),
        "objective": {
            "name": "kdac",
            "components": 2,
            "sigma": 5.0,
            "lambda": 0.3,
            "approximation": "nystrom",
        },
    },
    "near-isometry": {
        "data": _blobs(1_500, 20),
        "objective": {"name": "near-isometry", "delta": 0.3, "rank": 8},
    },
    "mlp": {
        "data": _blobs(3_000, 12, clusters=4),
        "objective": {"name": "mlp", "layers": [12, 30, 4]},
    },
}


def values_of(config: dict[str, Any], comm: MPI.Comm) -> dict[str, float]:
    """Value, its stated error, and numbers that tell the gradient, at one point.  Collective."""
    chosen = read_configuration({**config, "run": {"seed": 0}, "output": {"pictures": False}})
    _, objective = build_objective(chosen, comm)
    x = starting_point(objective, None, 0)
    layout = objective.layout
    if isinstance(objective, ManifoldVariable):  # whose start comes out of a run on fewer rows
        x = np.linalg.qr(np.random.default_rng(7).standard_normal(x.shape))[0]
    else:
        x = x + 0.1 * layout.random_normal(7)
    value, rows = objective.value_and_gradient(x)
    found = {"value": value, "error": objective.value_error(value), "length": layout.norm(rows)}
    for seed in (1, 2):
        along = float((rows * layout.random_normal(seed)).sum())
        found[f"along {seed}"] = along if layout.replicated else float(sum_over_ranks(comm, along))
    return found


def differences(found: dict[str, float], alone: dict[str, float], slope: float) -> dict[str, float]:
    """How far numbers are from those of one rank, in units of what is stated."""
    allowed = {"value": found["error"] + alone["error"] + 1e-12 * abs(alone["value"])}
    allowed |= dict.fromkeys(("length", "along 1", "along 2"), slope * alone["length"])
    return {name: abs(found[name] - alone[name]) / most for name, most in allowed.items()}


if __name__ == "__main__":
    with abort_on_error():
        for name in sys.argv[1:]:
            line = json.dumps(values_of(CASES[name], MPI.COMM_WORLD))
            if MPI.COMM_WORLD.rank == 0:
                print(line, flush=True)
