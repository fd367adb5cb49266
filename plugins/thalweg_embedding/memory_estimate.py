"""Memory of an embedding from its shapes, for ``thalweg plan`` and to refuse what does not fit."""

import math
import os
from collections.abc import Mapping
from typing import Any

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.numerics import decomposed_size
from thalweg.parallel import MPI, min_over_ranks
from thalweg.plugins import PhaseEstimate, Problem, peaks
from thalweg_embedding import defaults
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.affinities.pair_sets import DRAWN, SPARE, PairOptions, pair_counts

#: Bytes of compiled kernels, and of the libraries that they need, on one machine.
KERNELS = 78e6

#: Rows of the rank with most where rows are brought to ranks by cells, relative to an even share.
UNEVEN = 1.1

#: Bytes per neighbor: lists and their copies while they are found; affinities and their transpose
#: while they are made, and more of it on several ranks, in messages; affinities, and the
#: attraction's edges, for the run.
FOUND, MADE, SENT, KEPT = 80.0, 88.0, 27.0, 42.0

#: Edges per point of the spectral direction's graph, and bytes of one with its parts.
LAPLACIAN_EDGES, LAPLACIAN_BYTES = 12.0, 40.0

#: Bytes for each entry of PaCMAP's sets of pairs: for the run, and while they are made; and for
#: each point that is drawn; and LocalMAP's for the run, relative to PaCMAP's.
PAIR_KEPT, PAIR_MADE, DRAWN_BYTES, LOCAL_KEPT = 20.0, 15.0, 24.0, 1.5

#: Modes of the mesh per point while a map is not wide, the most of all, and bytes of one.
MODES, MAX_MODES, MODE_BYTES = 4.0, 2.0**24, 28.0

#: Rows of which an exact search tries the bounds of distances, to choose their coordinates.
TRIED = 4096.0

#: Bytes for a pair of points while affinities of all pairs are made.
DENSE_BYTES = 60.0

#: Bytes of an edge in the matrix whose eigenvectors are sought, with its copies.
EIGEN_BYTES = 50.0

#: Arrays of the map's shape that a run holds: iterate, gradient, trials and L-BFGS's pairs.
MAP_ARRAYS = 32

#: Rows of other ranks that edges end at, as a share of a rank's own, where rows lie by cells of
#: the data.
BORDER_ROWS = 0.5

#: By how much an embedding may take less than the estimate.
UNCERTAINTY = 1.25


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
        advice, edges = "use graph = 'sparse'", float(rows)
        made = [PhaseEstimate("affinities", 8.0 * pairs, DENSE_BYTES * pairs, advice)]
    else:
        single = options.get("perplexity") or defaults.PERPLEXITY
        perplexity = max(options.get("perplexities") or [single])
        neighbors = math.ceil(defaults.NEIGHBORS_PER_PERPLEXITY * perplexity)
        if kind != "entropic":
            neighbors = options.get("n_neighbors") or neighbors
        k = min(rows - 1.0, float(neighbors))
        made, edges = [_neighbors(problem, k), _affinities(problem, k)], 1.4 * k
    n, columns, advice = problem.local_rows, problem.columns, "use [data] components"
    size = 24.0 * decomposed_size(rows, columns) ** 2 + 16.0 * n * columns
    if options.get("init") == "spectral":  # rank 0 holds the graph's matrix, and 20 vectors
        size = (EIGEN_BYTES * edges + 160.0) * rows
    start = PhaseEstimate("start", 0.0, size, advice)
    measures = PhaseEstimate("measures", 0.0, _sought(n, columns), advice)
    run = [*_laplacian(problem), _iterations(problem, edges)]
    return [_load(problem), *made, start, *run, measures]


def estimate_pacmap(problem: Problem) -> list[PhaseEstimate]:
    """Loading, neighbors, random pairs, set-up and iterations of PaCMAP, which has no mesh."""
    options, n = problem.objective, problem.local_rows
    d = int(options.get("dimensions") or 2)
    known = {"n_neighbors", "mid_near_ratio", "further_ratio"} & options.keys()
    counts = PairOptions(**{name: options[name] for name in known})
    k, mid_near, further = pair_counts(problem.rows, counts)
    edges, drawn = 2.0 * (k + mid_near + further), float(DRAWN * mid_near)
    pair = PAIR_KEPT * (LOCAL_KEPT if options["name"] == "localmap" else 1.0)
    made = n * (PAIR_MADE * edges + DRAWN_BYTES * drawn + 16.0 * problem.columns)
    pairs = PhaseEstimate("pairs", pair * n * edges, made, "use a smaller n_neighbors")
    moving = 16.0 * n * d + 8.0 * d * _ghosts(problem, edges)
    advice = "use fewer further_ratio or n_neighbors"
    iterations = PhaseEstimate("iterations", 8.0 * n * d * MAP_ARRAYS, moving, advice)
    neighbors = _neighbors(problem, min(problem.rows - 1.0, float(k + SPARE)))
    return [_load(problem), neighbors, pairs, *_laplacian(problem), iterations]


def require_room(dataset: Dataset, options: Mapping[str, Any]) -> None:
    """Refuse an embedding that cannot fit.  Collective.

    Refused is an estimate above a rank's share of its machine by more than it may be wrong, the
    preconditioner taken to be the spectral direction.  Of sparse points, whose columns are not all
    held, nothing is known.
    """
    if isinstance(dataset, SparseDataset):
        return
    layout, ranks = dataset.layout, dataset.comm.size
    problem = Problem(layout.rows, layout.columns, ranks, options, {}, {"name": "spectral"})
    phases = estimate(problem)
    needed, phase = max(zip(peaks(phases), phases, strict=True), key=lambda each: each[0])
    there = memory_per_rank(layout.comm)
    if needed > UNCERTAINTY * there:
        share = "" if ranks == 1 else f" on each of {ranks:,} ranks"
        raise InputError(
            f"an embedding of {layout.rows:,} points would take about {needed / 2**30:.2f} GiB"
            f"{share}, in '{phase.name}', and a rank has {there / 2**30:.2f} GiB; use more "
            f"machines, or {phase.advice}"
        )


def memory_per_rank(comm: MPI.Comm) -> float:
    """Bytes of a machine's memory for each of its ranks, the least there is.  Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = node.size
    node.Free()
    return min_over_ranks(comm, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / ranks)


def _is_relocated(problem: Problem) -> bool:
    """Whether rows are brought to ranks by cells of the data, which are taken to be dense."""
    options = problem.objective
    stay = "precomputed" in (options.get("affinity"), options.get("metric"))
    stay |= options.get("repulsive_weights") == "squared-distances"
    return problem.ranks > 1 and problem.rows >= defaults.SLAB_ROWS and not stay


def _ghosts(problem: Problem, edges: float) -> float:
    """Rows of other ranks where edges may end anywhere."""
    return problem.local_rows * min(edges, problem.ranks - 1.0)


def _load(problem: Problem) -> PhaseEstimate:
    n, columns = problem.local_rows, problem.columns
    return PhaseEstimate("load", KERNELS + 8.0 * n * (columns + 1), 8.0 * n * columns)


def _neighbors(problem: Problem, k: float) -> PhaseEstimate:
    n, columns, several = problem.local_rows, problem.columns, problem.ranks > 1
    if problem.objective.get("neighbor_search") == "approximate":
        # Rows in the order of their cells and a factor of products, and two blocks of others.
        rows = (12.0 + 20.0 * several) * n * columns
    else:
        # Blocks go half of the way round, and the best pairs of their rows back; rows were moved.
        copies = 3.0 + _is_relocated(problem)
        rows = (8.0 * columns * copies + 44.0 * k) * n if several else _sought(n, columns)
    advice = "use a smaller perplexity or n_neighbors, or [data] components"
    return PhaseEstimate("neighbors", 0.0, FOUND * n * k + rows, advice)


def _sought(n: float, columns: float) -> float:
    """Rows in the order of the search, both factors of products, and rows that are tried."""
    return (16.0 * n + 8.0 * min(n, TRIED)) * columns


def _affinities(problem: Problem, k: float) -> PhaseEstimate:
    entries = problem.local_rows * (UNEVEN if _is_relocated(problem) else 1.0) * k
    made = MADE + SENT * (problem.ranks > 1)
    advice = "use a smaller perplexity"
    return PhaseEstimate("affinities", KEPT * entries, (made - KEPT) * entries, advice)


def _laplacian(problem: Problem) -> list[PhaseEstimate]:
    if problem.preconditioner.get("name") not in ("spectral", "partial-hessian"):
        return []
    setup = LAPLACIAN_BYTES * LAPLACIAN_EDGES * problem.local_rows
    dense = 8.0 * problem.rows**2 * (problem.preconditioner.get("method") == "dense")
    return [PhaseEstimate("laplacian", persistent=setup + dense, temporary=setup)]


def _iterations(problem: Problem, edges: float) -> PhaseEstimate:
    n, ranks, rows = problem.local_rows, problem.ranks, problem.rows
    d = int(problem.objective.get("dimensions") or 2)
    map_bytes = 8.0 * n * d
    arrays = map_bytes * (MAP_ARRAYS + 2.0 * max(problem.solver.get("memory", 0) - 10, 0))
    repulsion = problem.objective.get("repulsion", "auto")
    weighted = problem.objective.get("repulsive_weights") == "squared-distances"
    few = repulsion == "auto" and rows < defaults.GRID_ROWS.get(d, math.inf)
    if weighted or few or repulsion == "exact":
        pairs = 8.0 * n * rows * weighted  # as much again, and all rows, while weights are made
        moving = max(map_bytes * 4.0, pairs + 16.0 * rows * problem.columns * weighted)
        advice = "use repulsion = 'grid' or 'auto', and equal repulsive weights"
        return PhaseEstimate("iterations", arrays + pairs, moving, advice)
    modes = min(MAX_MODES, MODES * rows)
    if ranks > 1 and d > 1 and rows >= defaults.SLAB_ROWS:
        # Ranks share modes of both signs along one axis.
        modes /= min(ranks, round(0.5 * modes ** (1.0 / d)))
    ghosts = BORDER_ROWS * n if _is_relocated(problem) else _ghosts(problem, edges)
    sums = MODE_BYTES * modes + 120.0 * n + 8.0 * d * ghosts
    return PhaseEstimate("iterations", arrays, sums, "use a larger repulsion_error")
