"""What a near-isometric map takes, from its shapes: for ``thalweg plan``."""

from __future__ import annotations

import math

from thalweg.plugins import PhaseEstimate, Problem

#: Secants that a run works with, per point and at least, and bytes of one on every rank.
ACTIVE, FEWEST, SECANT_BYTES = 6.0, 20_000.0, 130.0

#: Complete scans of a run, and operations per secant, leading column and scan.
SCANS, SCAN_WORK = 8.0, 2.0

#: Vectors of the map's size, rank by columns.
VECTORS = 40.0


def estimate(problem: Problem) -> list[PhaseEstimate]:
    """Loading, the active secants with their points, and scans of all secants."""
    options = problem.objective
    n, columns, ranks, rows = problem.local_rows, problem.columns, problem.ranks, problem.rows
    rank = float(options.get("rank") or min(columns, 4.0 * math.log(max(rows, 2))))
    load = PhaseEstimate("load", 8.0 * n * columns * 2.0, 8.0 * n * columns)
    frame = PhaseEstimate(
        "directions", 16.0 * columns**2, 32.0 * columns**2 + 8.0 * 4096.0 * columns,
        sent=8.0 * columns**2 * min(1.0, ranks - 1.0), messages=2.0 * min(1.0, ranks - 1.0),
        operations=2.0 * n * columns**2, advice="use [data] components",
    )  # fmt: skip
    active = min(max(FEWEST, ACTIVE * rows), 0.5 * float(rows) * (rows - 1.0))
    touched = min(float(rows), 2.0 * active)
    times = float(problem.iterations)
    search = PhaseEstimate(
        "search",
        persistent=SECANT_BYTES * active + 8.0 * columns * (touched / ranks + VECTORS * rank),
        temporary=8.0 * touched * rank * 2.0,
        sent=times * rank * (4.0 * touched * problem.remote_share + 8.0 * columns * (ranks > 1)),
        messages=times * 2.0 * (ranks - 1),
        operations=times * 4.0 * touched * rank * columns / ranks,
        advice="give a rank, or fewer rows: every rank keeps the active secants",
    )  # fmt: skip
    width = columns + rank
    scans = PhaseEstimate(
        "scans", 0.0, 4.0 * n * 3.0 * width * (2.0 if ranks > 1 else 1.0) + 6e6,
        sent=SCANS * 4.0 * n * width * (ranks - 1) / 2.0, messages=SCANS * (ranks - 1),
        operations=SCANS * SCAN_WORK * 0.5 * n * rows * (0.3 * columns + rank),
    )  # fmt: skip
    return [load, frame, search, scans]
