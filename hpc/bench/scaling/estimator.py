"""Seconds of an estimator: ``python -m hpc.bench.scaling.estimator ROWS JOBS``.

As in a notebook: no ranks, nothing was run before, and threads are limited by ``n_jobs`` alone.
Prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from hpc.bench.scaling.cases import ESTIMATOR

from thalweg_embedding import TSNE

#: Columns of the points, and groups that they lie in.
COLUMNS, GROUPS = 50, 40


def main(rows: int, jobs: int) -> None:
    """Fit generated points."""
    generator = np.random.default_rng(0)
    centers = generator.normal(scale=3.0, size=(GROUPS, COLUMNS))
    points = generator.normal(size=(rows, COLUMNS)) + centers[np.arange(rows) % GROUPS]
    began = time.perf_counter()
    TSNE(n_jobs=jobs, random_state=0).fit(points)
    seconds = round(time.perf_counter() - began, 4)
    entry = {"case": ESTIMATOR, "rows": rows, "ranks": 1, "threads": jobs}
    print(json.dumps({**entry, "seconds": {"total": [seconds, seconds]}}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
