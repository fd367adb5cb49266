"""Estimates of a near-isometric map for ``thalweg plan``, from its shapes."""

from __future__ import annotations

import math

import numpy as np

from thalweg.plugins import PhaseEstimate, Problem
from thalweg_isometry.cutting_planes import MAX_CUTS, MIN_CUTS
from thalweg_isometry.normal_equations import LARGEST
from thalweg_isometry.search import SecantSearch

#: Rounds whose largest additions a run works with at once, and bytes of a secant on its rank.
ROUNDS, SECANT_BYTES = 3.5, 140.0

#: Bytes of a pair that a scan keeps, while the worst of all are chosen; such pairs on a rank, for
#: each of its share and beside them; bytes of rows of another rank that it has at a time.
FOUND_BYTES, SHARES, SPARE, PIECE = 100.0, 2.0, 4096.0, 4e6

#: Bytes that a scan takes whatever the rows are: products of tiles, bounds, BLAS's buffers.
CONSTANT = 12e6

#: Evaluations per iteration: between scans, and where all secants are cuts and none is needed.
EVALUATIONS, WITHOUT_SCANS = 12.0, 70.0

#: Bytes of compiled kernels, and of the libraries that they need.
KERNELS = 50e6

#: Complete scans of a run.
SCANS = 8.0

#: Bytes of a listed pair on every rank, and more while the list is made.
LISTED, LISTING = 8.0, 24.0

#: Classes where secants within classes alone count.
CLASSES = 10.0

#: Vectors of the map's size, rank by columns.
VECTORS = 40.0


def estimate(problem: Problem) -> list[PhaseEstimate]:
    """Loading, the active secants with their points, and scans of all secants."""
    options = problem.objective
    n, columns, ranks, rows = problem.local_rows, problem.columns, problem.ranks, problem.rows
    rank = float(options.get("rank") or min(columns, 4.0 * math.log(max(rows, 2))))
    load = PhaseEstimate("load", KERNELS + 8.0 * n * columns * 3.0)
    frame = PhaseEstimate(
        "directions", 16.0 * columns**2, 32.0 * columns**2 + 8.0 * 4096.0 * columns,
        sent=8.0 * columns**2 * min(1.0, ranks - 1.0),
        advice="use [data] components",
    )  # fmt: skip
    pairs, listed = 0.5 * float(rows) * (rows - 1.0), PhaseEstimate("neighbors", 0.0)
    kind = options.get("secants", "all")
    if kind == "neighbors":
        pairs = min(pairs, float(rows) * float(options.get("n_neighbors") or 10))
        listed = _neighbors(problem, pairs)
    elif kind == "within-class":
        pairs /= CLASSES
    kept = min(float(np.clip(4.0 * rows, MIN_CUTS, MAX_CUTS)), pairs)
    active = min(ROUNDS * kept, pairs) / ranks
    touched = min(float(n), 2.0 * active)
    factor = vectors = 0.0
    if problem.solver.get("name") in ("numax", "fromax"):
        # Secants as rows, and the factor of a matrix, which is made from another.
        vectors = 4.0 * kept / ranks * columns
        factor = 8.0 * min(kept, 0.5 * columns * (columns + 1.0), LARGEST) ** 2
    few = pairs <= SecantSearch.all_below
    times = float(problem.iterations) * (WITHOUT_SCANS if few else EVALUATIONS)
    others = rows * problem.remote_share  # of which a rank's secants end at these
    away = others * -math.expm1(-active / rows)
    search = PhaseEstimate(
        "search",
        SECANT_BYTES * active + 4.0 * touched * (columns + 3.0 * rank) + vectors + factor,
        temporary=8.0 * VECTORS * columns * rank + factor,
        sent=times * rank * 4.0 * (2.0 * away + 2.0 * columns * (ranks > 1)),
        advice="give a rank, or fewer rows",
    )  # fmt: skip
    width = columns + rank
    around = 1.0 if kind == "neighbors" else 0.5  # a list's pairs are not met from both sides
    labels = 8.0 * rows if kind == "within-class" else 0.0
    block = 4.0 * n * (columns + 3.0 * rank + 8.0)
    moving = block + 8.0 * n * columns
    moving = 0.0 if ranks == 1 else 2.0 * min(moving, max(PIECE, moving / 16.0))
    kept = kept if ranks == 1 else min(kept, SHARES * kept / ranks + SPARE)
    scans = PhaseEstimate(
        "scans", 0.0, block + moving + FOUND_BYTES * 2.0 * kept + labels + CONSTANT,
        sent=SCANS * 4.0 * n * width * (ranks - 1) * around,
    )  # fmt: skip
    found = [load, frame, search, scans]
    return [load, listed, *found[1:]] if kind == "neighbors" else found


def _neighbors(problem: Problem, pairs: float) -> PhaseEstimate:
    """The exact search for neighbors, and the list of all pairs, which every rank keeps."""
    n, columns, ranks = problem.local_rows, problem.columns, problem.ranks
    return PhaseEstimate(
        "neighbors", LISTED * pairs, LISTING * pairs + 8.0 * n * columns * 3.0,
        sent=8.0 * (n * columns + pairs / ranks) * (ranks - 1),
        advice="lower n_neighbors: every rank keeps the list of pairs",
    )  # fmt: skip
