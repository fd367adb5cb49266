"""Estimates of an embedding from its shapes: for ``thalweg plan``, and before a run."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.plugins import PhaseEstimate, Problem, peaks
from thalweg_embedding.affinities.build import DENSE_LIMIT, NEIGHBORS_PER_PERPLEXITY
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.affinities.pair_sets import DRAWN, SPARE, pair_counts
from thalweg_embedding.memory import DENSE_BYTES, MAP_ARRAYS, memory_per_rank
from thalweg_embedding.pairs.decomposition import SLAB_ROWS
from thalweg_embedding.pairs.grid import GRID_ROWS

#: Bytes of compiled kernels, and of the libraries that they need.
KERNELS = 78e6

#: Rows of the rank with most where rows are brought to ranks by cells, relative to an even share.
UNEVEN = 1.1

#: Bytes per neighbor: lists and their copies while they are found; affinities and their transpose
#: while they are made, and more of it on several ranks, in messages; affinities, and the
#: attraction's edges, for the run.
FOUND, MADE, SENT, KEPT = 80.0, 88.0, 27.0, 42.0

#: Copies of rows that an approximate search makes on several ranks, per row.
COPIES = 1.5

#: Edges per point of the spectral direction's graph, and bytes of one with its parts.
LAPLACIAN_EDGES, LAPLACIAN_BYTES = 12.0, 40.0

#: Bytes for each entry of PaCMAP's sets of pairs: for the run, and while they are made; and for
#: each point that is drawn.
PAIR_KEPT, PAIR_MADE, DRAWN_BYTES = 20.0, 15.0, 24.0

#: Modes of the mesh per point while a map is not wide, the most of all, and bytes of one.
MODES, MAX_MODES, MODE_BYTES = 4.0, 2.0**24, 28.0

#: Bytes that are sent of a mode for each field: lines of the mesh, and their transposition.
MODE_SENT = 5.5

#: Iterations in which a map grows from its start to as many modes.
GROWING = 50.0

#: Rows of the mesh along an axis that points reach, for each mode that is kept.
LINES = 1.5

#: Evaluations per iteration, and iterations of a solve with the Laplacian.
EVALUATIONS, SOLVES, INNER = 1.2, 1, 5

#: Edges that end on other ranks, and rows that others ask for, as shares of a rank's own, where
#: rows lie by cells of the data; and such rows for each other rank where rows are in no order.
BORDER_EDGES, BORDER_ROWS, GHOSTS = 0.1, 0.5, 1.0

#: Points from which a run says what it will take, and by how much it may take less than that.
LARGE_ROWS, UNCERTAINTY = 200_000, 1.25

_logger = logging.getLogger("thalweg.embedding")


def estimate(problem: Problem) -> list[PhaseEstimate]:
    """Loading, neighbors, affinities, set-up and iterations of an embedding by a sparse graph.

    Where rows stay as they are given they are taken to be in no particular order, so that their
    neighbors lie on all ranks.
    """
    options = problem.objective
    n, columns, ranks = problem.local_rows, problem.columns, problem.ranks
    d = float(options.get("dimensions") or 2)
    found = [PhaseEstimate("load", KERNELS + 8.0 * n * (columns + 1), 8.0 * n * columns)]
    graph = options.get("graph", "auto")
    kind = options.get("affinity", "auto")
    if kind == "auto":
        kind = "fuzzy" if options["name"] == "umap" else "entropic"
    dense = graph == "dense" or (graph == "auto" and problem.rows <= DENSE_LIMIT)
    if kind == "precomputed" or (kind == "entropic" and dense):
        found.append(
            PhaseEstimate(
                "affinities", 8.0 * n * problem.rows, DENSE_BYTES * n * problem.rows,
                advice="use graph = 'sparse'",
            )
        )  # fmt: skip
        edges = float(problem.rows)
    else:
        perplexity = max(options.get("perplexities") or [options.get("perplexity") or 30.0])
        wanted = math.ceil(NEIGHBORS_PER_PERPLEXITY * perplexity)
        if kind != "entropic":
            wanted = options.get("n_neighbors") or wanted
        k = min(problem.rows - 1.0, float(wanted))
        found += [_neighbors(problem, k), _affinities(problem, k)]
        edges = 1.4 * k
    return [*found, *_laplacian(problem), _iterations(problem, edges, d, ranks)]


def estimate_pacmap(problem: Problem) -> list[PhaseEstimate]:
    """Loading, neighbors, random pairs, set-up and iterations of PaCMAP, which has no mesh."""
    options, n, ranks = problem.objective, problem.local_rows, problem.ranks
    share, columns = problem.remote_share, problem.columns
    d = float(options.get("dimensions") or 2)
    k, mid_near, further = pair_counts(
        problem.rows,
        options.get("n_neighbors"),
        options.get("mid_near_ratio", 0.5),
        options.get("further_ratio", 2.0),
    )
    edges, drawn = 2.0 * (k + mid_near + further), float(DRAWN * mid_near)
    found = [
        PhaseEstimate("load", KERNELS + 8.0 * n * (columns + 1), 8.0 * n * columns),
        _neighbors(problem, min(problem.rows - 1.0, float(k + SPARE))),
        PhaseEstimate(
            "pairs", PAIR_KEPT * n * edges,
            n * (PAIR_MADE * edges + DRAWN_BYTES * drawn + 16.0 * columns),
            sent=share * n * (8.0 * columns * drawn + 12.0 * edges),
            advice="use a smaller n_neighbors",
        ),
    ]  # fmt: skip
    found += _laplacian(problem)
    times = problem.iterations * EVALUATIONS
    ghosts = GHOSTS * n * min(edges, ranks - 1.0)  # pairs at random lie on all ranks
    solves = SOLVES * INNER * min(LAPLACIAN_EDGES, ranks - 1.0) * n * share
    found.append(
        PhaseEstimate(
            "iterations", 8.0 * n * d * MAP_ARRAYS, 16.0 * n * d + 8.0 * d * ghosts,
            sent=times * 8.0 * d * (ghosts + solves),
            advice="use fewer further_ratio or n_neighbors",
        )
    )  # fmt: skip
    return found


def require_room(dataset: Dataset, options: Mapping[str, Any]) -> None:
    """Refuse an embedding that cannot fit; say on rank 0 what a large one takes.  Collective.

    Of sparse points, whose columns are not all held, nothing is said.  The preconditioner is taken
    to be the spectral direction.

    Raises
    ------
    InputError
        The estimate of ``thalweg plan`` is above a rank's share of its machine by more than it
        may be wrong.
    """
    layout = dataset.layout
    if isinstance(dataset, SparseDataset):
        return
    ranks = layout.comm.size
    preconditioner = {"name": "spectral"}
    problem = Problem(layout.rows, layout.columns, ranks, options, {}, preconditioner)
    phases = estimate(problem)
    found = peaks(phases)
    wanted, phase = max(found), phases[found.index(max(found))]
    there = memory_per_rank(layout.comm)
    what = f"an embedding of {layout.rows:,} points"
    share = "" if ranks == 1 else f" on each of {ranks:,} ranks"
    takes = f"about {wanted / 2**30:.2f} GiB{share}, in '{phase.name}'"
    if wanted > UNCERTAINTY * there:
        raise InputError(
            f"{what} would take {takes}, and a rank has {there / 2**30:.2f} GiB; use more "
            f"machines, or {phase.advice}"
        )
    if layout.rows >= LARGE_ROWS and layout.comm.rank == 0:
        message = "%s takes %s; a rank has %.2f GiB"
        _logger.warning(message, what, takes, there / 2**30)


def _laplacian(problem: Problem) -> list[PhaseEstimate]:
    if problem.preconditioner.get("name") not in ("spectral", "partial-hessian"):
        return []
    setup = LAPLACIAN_BYTES * LAPLACIAN_EDGES * problem.local_rows
    return [PhaseEstimate("laplacian", persistent=setup, temporary=setup)]


def _relocated(problem: Problem) -> bool:
    """Whether rows are brought to ranks by cells of the data, which are taken to be dense."""
    options = problem.objective
    if options.get("affinity") == "precomputed" or options.get("metric") == "precomputed":
        return False
    by_distance = options.get("repulsive_weights") == "squared-distances"
    return problem.ranks > 1 and problem.rows >= SLAB_ROWS and not by_distance


def _neighbors(problem: Problem, k: float) -> PhaseEstimate:
    n, columns, ranks = problem.local_rows, problem.columns, problem.ranks
    if problem.objective.get("neighbor_search") != "approximate":
        # Blocks go half of the way round, and the best pairs of their rows back.
        blocks = (8.0 * columns * 3.0 + 44.0 * k) * n if ranks > 1 else 8.0 * n * columns
        return PhaseEstimate(
            "neighbors", 0.0, FOUND * n * k + blocks,
            sent=n * (4.0 * columns + 6.0 * k) * (ranks - 1),
            advice="use neighbor_search = 'approximate', whose messages fall with the ranks",
        )  # fmt: skip
    copies = COPIES if ranks > 1 else 0.0
    lists = 0.0 if _relocated(problem) else 40.0 * k  # they go back to where their rows came from
    held = 12.0 * (1.0 + copies) * n * columns + 8.0 * n * columns * (ranks > 1)
    return PhaseEstimate(
        "neighbors", 0.0, FOUND * n * k + held,
        sent=problem.remote_share * n * (8.0 * columns * (1.0 + copies + 2.0) + lists),
        advice="use a smaller perplexity, or [data] components or dtype = 'float32'",
    )  # fmt: skip


def _affinities(problem: Problem, k: float) -> PhaseEstimate:
    n = problem.local_rows * (UNEVEN if _relocated(problem) else 1.0)
    remote = min(problem.remote_share, BORDER_EDGES if _relocated(problem) else 1.0)
    return PhaseEstimate(
        "affinities", KEPT * n * k, (MADE + SENT * (problem.ranks > 1) - KEPT) * n * k,
        sent=24.0 * n * k * remote,
        advice="use a smaller perplexity",
    )  # fmt: skip


def _iterations(problem: Problem, edges: float, d: float, ranks: int) -> PhaseEstimate:
    n = problem.local_rows
    times = problem.iterations * EVALUATIONS
    wanted = problem.objective.get("repulsion", "auto")
    weighted = problem.objective.get("repulsive_weights") == "squared-distances"
    enough = GRID_ROWS.get(int(d), math.inf)
    if weighted or wanted == "exact" or (wanted == "auto" and problem.rows < enough):
        return PhaseEstimate(
            "iterations", 8.0 * n * d * MAP_ARRAYS + 8.0 * n * problem.rows * weighted,
            8.0 * n * d * 4.0, sent=times * 8.0 * d * n * (ranks - 1),

            advice="use repulsion = 'grid' or 'auto', and equal repulsive weights",
        )  # fmt: skip
    modes = min(MAX_MODES, MODES * problem.rows)
    slabs = ranks > 1 and problem.rows >= SLAB_ROWS
    # Columns of modes, those of both signs go together, and in pencils lines of rows too.
    columns = float(round(0.5 * modes ** (1.0 / d)))
    lines = max(1.0, (0.0, 1.0, columns, LINES * columns * columns)[int(d)]) if d < 4.0 else 1.0
    shared = modes / min(ranks, lines)
    mesh = shared if slabs else modes
    # Mean share of the modes that a map has, from its small start on.
    steps = max(1.0, float(problem.iterations))
    grown = 0.5 * steps / GROWING if steps < GROWING else 1.0 - 0.5 * GROWING / steps
    # Points to their slabs and forces back; the density, and each column of forces.
    moved = 16.0 * d * n + MODE_SENT * (d + 1.0) * grown * mesh if slabs else 8.0 * grown * mesh
    share = problem.remote_share
    if _relocated(problem):
        # Points to where affinities lie and slopes back, as right-hand sides and solutions.
        ghosts = min(BORDER_ROWS, ranks - 1.0) * n
        attraction = d * (12.0 * n * share + 4.0 * ghosts)
        solves = SOLVES * d * (16.0 * n * share + INNER * 8.0 * BORDER_EDGES * n * (ranks > 1))
    else:
        ghosts = GHOSTS * n * min(edges, ranks - 1.0)
        attraction = 8.0 * d * ghosts * share
        solves = SOLVES * INNER * 8.0 * d * n * min(LAPLACIAN_EDGES, ranks - 1.0) * share
    return PhaseEstimate(
        "iterations", 8.0 * n * d * MAP_ARRAYS,
        MODE_BYTES * mesh + 120.0 * n + 8.0 * d * ghosts,
        sent=times * (moved * share + attraction + solves),
        advice="use a larger repulsion_error",
        note=f"the mesh has about {lines:,.0f} parts, and no more ranks than that take part in its "
        "transforms" if slabs and ranks > lines else "",
    )  # fmt: skip
