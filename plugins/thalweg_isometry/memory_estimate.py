"""Memory of a near-isometric map for ``thalweg plan``, from its shapes."""

import math
from dataclasses import replace

import numpy as np

from thalweg.plugins import PhaseEstimate, Problem
from thalweg_isometry.cutting_planes import MAX_CUTS, MIN_CUTS
from thalweg_isometry.normal_equations import LARGEST

#: Rounds whose largest additions a run works with at once, and bytes of a secant on its rank.
ROUNDS, SECANT_BYTES = 3.5, 140.0

#: Bytes of a pair that a scan keeps, while the worst of all are chosen; such pairs on a rank, for
#: each of its share and beside them; bytes of rows of another rank that it has at a time.
PAIR_BYTES, SHARES, SPARE, PIECE = 100.0, 2.0, 4096.0, 4e6

#: Bytes that a scan takes whatever the rows are: products of tiles, bounds, BLAS's buffers.
CONSTANT = 12e6

#: Bytes of compiled kernels, and of the libraries that they need, on one machine.
KERNELS = 50e6

#: Bytes of a listed pair on every rank, and more while the list is made.
LISTED, LISTING = 8.0, 24.0

#: Classes where secants within classes alone count.
CLASSES = 10.0

#: Vectors of the map's size, rank by columns, that were measured on one machine.
VECTORS = 40.0


def estimate(problem: Problem) -> list[PhaseEstimate]:
    """Loading, the active secants with their points, and scans of all secants."""
    if (kind := problem.objective.get("secants", "all")) == "sums":  # of points and opposites
        problem = replace(problem, rows=2 * problem.rows)
    n, columns, rows = problem.local_rows, problem.columns, problem.rows
    neighbors = problem.objective.get("n_neighbors") or 10
    pairs = 0.5 * float(rows) * (rows - 1.0)
    if kind == "neighbors":
        pairs = min(pairs, float(rows) * float(neighbors))
    elif kind == "within-class":
        pairs /= CLASSES
    cuts = min(float(np.clip(4.0 * rows, MIN_CUTS, MAX_CUTS)), pairs)
    rank = float(problem.objective.get("rank") or min(columns, 4.0 * math.log(max(rows, 2))))
    phases = [PhaseEstimate("load", KERNELS + 8.0 * n * columns * 3.0)]
    if kind == "neighbors":
        # The exact search, and the list of all pairs, which every rank keeps.
        listing = LISTING * pairs + 8.0 * n * columns * 3.0
        advice = "lower n_neighbors: every rank keeps the list of pairs"
        phases.append(PhaseEstimate("neighbors", LISTED * pairs, listing, advice))
    made = 32.0 * columns**2 + 8.0 * 4096.0 * columns
    directions = PhaseEstimate("directions", 16.0 * columns**2, made, "use [data] components")
    return [*phases, directions, _search(problem, rank, pairs, cuts), _scans(problem, rank, cuts)]


def _search(problem: Problem, rank: float, pairs: float, cuts: float) -> PhaseEstimate:
    """A rank's secants with their points, and what some solvers make of them."""
    columns, ranks = problem.columns, problem.ranks
    active = min(ROUNDS * cuts, pairs) / ranks
    points = min(problem.local_rows, 2.0 * active)
    secants = SECANT_BYTES * active + 4.0 * points * (columns + 3.0 * rank)
    factor = 0.0
    if problem.solver.get("name") in ("numax", "fromax"):
        # Secants as rows, and the factor of a matrix, which is made from another.
        secants += 4.0 * cuts / ranks * columns
        factor = 8.0 * min(cuts, 0.5 * columns * (columns + 1.0), LARGEST) ** 2
    maps, advice = 8.0 * VECTORS * columns * rank, "give a rank, or fewer rows"
    return PhaseEstimate("search", secants + factor, maps + factor, advice)


def _scans(problem: Problem, rank: float, cuts: float) -> PhaseEstimate:
    """Own rows and those of another rank, and the worst pairs so far."""
    n, columns, ranks = problem.local_rows, problem.columns, problem.ranks
    block = 4.0 * n * (columns + 3.0 * rank + 8.0)
    moving = 0.0
    if ranks > 1:
        whole = block + 8.0 * n * columns
        moving = 2.0 * min(whole, max(PIECE, whole / 16.0))
        cuts = min(cuts, SHARES * cuts / ranks + SPARE)
    labels = 8.0 * problem.rows * (problem.objective.get("secants") == "within-class")
    return PhaseEstimate("scans", 0.0, block + moving + PAIR_BYTES * 2.0 * cuts + labels + CONSTANT)
