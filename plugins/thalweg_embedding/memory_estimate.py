"""Memory of an embedding from its shapes, for ``thalweg plan`` and before a run; what fits."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping
from typing import Any

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, min_over_ranks
from thalweg.plugins import PhaseEstimate, Problem, peaks
from thalweg_embedding import defaults
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.affinities.pair_sets import DRAWN, SPARE, PairOptions, pair_counts

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

#: Bytes for a pair of points while affinities of all pairs are made.
DENSE_BYTES = 60.0

#: Arrays of the map's shape that a run holds: iterate, gradient, trials and L-BFGS's pairs.
MAP_ARRAYS = 32

#: Rows of the mesh along an axis that points reach, for each mode that is kept.
LINES = 1.5

#: Rows of other ranks that edges end at, as a share of a rank's own, where rows lie by cells of
#: the data.
BORDER_ROWS = 0.5

#: Points from which a run says what it will take, and by how much it may take less than that.
LARGE_ROWS, UNCERTAINTY = 200_000, 1.25

_logger = logging.getLogger("thalweg.embedding")


def estimate(problem: Problem) -> list[PhaseEstimate]:
    """Loading, neighbors, affinities, set-up and iterations of an embedding by a sparse graph.

    Where rows stay as they are given they are taken to be in no particular order, so that their
    neighbors lie on all ranks.
    """
    options, rows = problem.objective, problem.rows
    graph, kind = options.get("graph", "auto"), options.get("affinity", "auto")
    if kind == "auto":
        kind = "fuzzy" if options["name"] == "umap" else "entropic"
    dense = graph == "dense" or (graph == "auto" and rows <= defaults.DENSE_LIMIT)
    if kind == "precomputed" or (kind == "entropic" and dense):
        pairs = problem.local_rows * rows
        affinities = PhaseEstimate(
            "affinities", 8.0 * pairs, DENSE_BYTES * pairs, advice="use graph = 'sparse'"
        )
        made, edges = [affinities], float(rows)
    else:
        perplexity = max(
            options.get("perplexities") or [options.get("perplexity") or defaults.PERPLEXITY]
        )
        neighbors = math.ceil(defaults.NEIGHBORS_PER_PERPLEXITY * perplexity)
        if kind != "entropic":
            neighbors = options.get("n_neighbors") or neighbors
        k = min(rows - 1.0, float(neighbors))
        made, edges = [_neighbors(problem, k), _affinities(problem, k)], 1.4 * k
    return [_load(problem), *made, *_laplacian(problem), _iterations(problem, edges)]


def estimate_pacmap(problem: Problem) -> list[PhaseEstimate]:
    """Loading, neighbors, random pairs, set-up and iterations of PaCMAP, which has no mesh."""
    options, n = problem.objective, problem.local_rows
    d = _dimensions(problem)
    names = ("n_neighbors", "mid_near_ratio", "further_ratio")
    counts = PairOptions(**{name: options[name] for name in names if name in options})
    k, mid_near, further = pair_counts(problem.rows, counts)
    edges, drawn = 2.0 * (k + mid_near + further), float(DRAWN * mid_near)
    pairs = PhaseEstimate(
        "pairs", PAIR_KEPT * n * edges,
        n * (PAIR_MADE * edges + DRAWN_BYTES * drawn + 16.0 * problem.columns),
        advice="use a smaller n_neighbors",
    )  # fmt: skip
    iterations = PhaseEstimate(
        "iterations", 8.0 * n * d * MAP_ARRAYS, 16.0 * n * d + 8.0 * d * _ghosts(problem, edges),
        advice="use fewer further_ratio or n_neighbors",
    )  # fmt: skip
    neighbors = _neighbors(problem, min(problem.rows - 1.0, float(k + SPARE)))
    return [_load(problem), neighbors, pairs, *_laplacian(problem), iterations]


def require_room(dataset: Dataset, options: Mapping[str, Any]) -> None:
    """Refuse an embedding that cannot fit; say on rank 0 what a large one takes.  Collective.

    Refused is an estimate of ``thalweg plan`` above a rank's share of its machine by more than it
    may be wrong.  Of sparse points, whose columns are not all held, nothing is said.  The
    preconditioner is taken to be the spectral direction.
    """
    layout = dataset.layout
    if isinstance(dataset, SparseDataset):
        return
    ranks = layout.comm.size
    preconditioner = {"name": "spectral"}
    problem = Problem(layout.rows, layout.columns, ranks, options, {}, preconditioner)
    phases = estimate(problem)
    totals = peaks(phases)
    needed, phase = max(totals), phases[totals.index(max(totals))]
    there = memory_per_rank(layout.comm)
    what = f"an embedding of {layout.rows:,} points"
    share = "" if ranks == 1 else f" on each of {ranks:,} ranks"
    takes = f"about {needed / 2**30:.2f} GiB{share}, in '{phase.name}'"
    if needed > UNCERTAINTY * there:
        raise InputError(
            f"{what} would take {takes}, and a rank has {there / 2**30:.2f} GiB; use more "
            f"machines, or {phase.advice}"
        )
    if layout.rows >= LARGE_ROWS and layout.comm.rank == 0:
        message = "%s takes %s; a rank has %.2f GiB"
        _logger.warning(message, what, takes, there / 2**30)


def memory_per_rank(comm: MPI.Comm) -> float:
    """Bytes of a machine's memory for each of its ranks, the least there is.  Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = node.size
    node.Free()
    return min_over_ranks(comm, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / ranks)


def require_room_for_dense(layout: Layout) -> None:
    """Refuse affinities of all pairs that would not fit.  Collective."""
    free = memory_per_rank(layout.comm)
    needed = DENSE_BYTES * float(layout.counts().max(initial=0)) * layout.rows
    if needed > free:
        fitting = math.sqrt(free * layout.comm.size / DENSE_BYTES)
        raise InputError(
            f"affinities of all pairs of {layout.rows:,} points would take about "
            f"{needed / 2**30:,.0f} GiB on each rank, and there are {free / 2**30:.0f} GiB, enough "
            f"for about {int(fitting / 1000):,},000 points; use graph = 'sparse'"
        )


def require_room_for_map(layout: Layout) -> None:
    """Refuse a map of more columns than fit, or than the N - 1 that N points use.  Collective."""
    rows, columns = layout.rows, layout.columns
    if columns > max(1, rows - 1):
        raise InputError(
            f"a map of {rows:,} points has at most {rows - 1:,} dimensions, not {columns:,}"
        )
    free = memory_per_rank(layout.comm)
    needed = MAP_ARRAYS * 8.0 * float(layout.counts().max(initial=0)) * columns
    if needed > free:
        raise InputError(
            f"a run with a map of {rows:,} points in {columns:,} dimensions would take about "
            f"{needed / 2**30:,.0f} GiB on each rank, and there are {free / 2**30:.0f} GiB; use at "
            f"most {max(1, int(columns * free / needed)):,} dimensions"
        )


def _dimensions(problem: Problem) -> int:
    return int(problem.objective.get("dimensions") or 2)


def _relocated(problem: Problem) -> bool:
    """Whether rows are brought to ranks by cells of the data, which are taken to be dense."""
    options = problem.objective
    if options.get("affinity") == "precomputed" or options.get("metric") == "precomputed":
        return False
    by_distance = options.get("repulsive_weights") == "squared-distances"
    return problem.ranks > 1 and problem.rows >= defaults.SLAB_ROWS and not by_distance


def _ghosts(problem: Problem, edges: float) -> float:
    """Rows of other ranks where edges may end anywhere."""
    return problem.local_rows * min(edges, problem.ranks - 1.0)


def _load(problem: Problem) -> PhaseEstimate:
    n, columns = problem.local_rows, problem.columns
    return PhaseEstimate("load", KERNELS + 8.0 * n * (columns + 1), 8.0 * n * columns)


def _neighbors(problem: Problem, k: float) -> PhaseEstimate:
    n, columns, several = problem.local_rows, problem.columns, problem.ranks > 1
    if problem.objective.get("neighbor_search") == "approximate":
        rows = 12.0 * (1.0 + COPIES * several) * n * columns + 8.0 * n * columns * several
    else:
        # Blocks go half of the way round, and the best pairs of their rows back.
        rows = (8.0 * columns * 3.0 + 44.0 * k) * n if several else 8.0 * n * columns
    return PhaseEstimate(
        "neighbors", 0.0, FOUND * n * k + rows,
        advice="use a smaller perplexity or n_neighbors, or [data] components",
    )  # fmt: skip


def _affinities(problem: Problem, k: float) -> PhaseEstimate:
    entries = problem.local_rows * (UNEVEN if _relocated(problem) else 1.0) * k
    made = MADE + SENT * (problem.ranks > 1)
    return PhaseEstimate(
        "affinities", KEPT * entries, (made - KEPT) * entries, advice="use a smaller perplexity"
    )


def _laplacian(problem: Problem) -> list[PhaseEstimate]:
    if problem.preconditioner.get("name") not in ("spectral", "partial-hessian"):
        return []
    setup = LAPLACIAN_BYTES * LAPLACIAN_EDGES * problem.local_rows
    return [PhaseEstimate("laplacian", persistent=setup, temporary=setup)]


def _iterations(problem: Problem, edges: float) -> PhaseEstimate:
    n, d, ranks, rows = problem.local_rows, _dimensions(problem), problem.ranks, problem.rows
    map_bytes = 8.0 * n * d
    repulsion = problem.objective.get("repulsion", "auto")
    weighted = problem.objective.get("repulsive_weights") == "squared-distances"
    few = repulsion == "auto" and rows < defaults.GRID_ROWS.get(d, math.inf)
    if weighted or few or repulsion == "exact":
        return PhaseEstimate(
            "iterations", map_bytes * MAP_ARRAYS + 8.0 * n * rows * weighted, map_bytes * 4.0,
            advice="use repulsion = 'grid' or 'auto', and equal repulsive weights",
        )  # fmt: skip
    modes, note = min(MAX_MODES, MODES * rows), ""
    if ranks > 1 and rows >= defaults.SLAB_ROWS:
        # Of the mesh, what ranks can share are columns of modes of both signs, in three dimensions
        # lines of rows.
        columns = float(round(0.5 * modes ** (1.0 / d)))
        parts = max(1.0, {2: columns, 3: LINES * columns * columns}.get(d, 1.0))
        modes /= min(ranks, parts)
        if ranks > parts:
            note = (
                f"the mesh has about {parts:,.0f} parts, and no more ranks than that take part in "
                "its transforms"
            )
    ghosts = BORDER_ROWS * n if _relocated(problem) else _ghosts(problem, edges)
    return PhaseEstimate(
        "iterations", map_bytes * MAP_ARRAYS, MODE_BYTES * modes + 120.0 * n + 8.0 * d * ghosts,
        advice="use a larger repulsion_error",
        note=note,
    )  # fmt: skip
