"""The named objectives: pairs of functions, and how their weights come from data."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse
import scipy.special

from thalweg.data import Dataset
from thalweg.engines.laplacian import Relocation
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, Ring, max_over_ranks, sum_over_ranks
from thalweg.plugins import Help
from thalweg_embedding.affinities.build import (
    LINKS,
    UNIFORM_SHARE,
    Affinities,
    affinities_of,
    given_affinities,
    tied_together,
)
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.affinities.symmetric import Weights
from thalweg_embedding.eigenmaps.start import eigenvectors
from thalweg_embedding.estimate import require_room
from thalweg_embedding.families import (
    ELASTIC_EMBEDDING,
    SYMMETRIC_SNE,
    T_ELASTIC_EMBEDDING,
    T_SNE,
    Family,
    largevis,
    negative_t_sne,
    student_sne,
    umap,
)
from thalweg_embedding.memory import require_room_for_map
from thalweg_embedding.objective import ROWS_PER_STEP, PairwiseEmbedding
from thalweg_embedding.options import Dimensions, Perplexity
from thalweg_embedding.pairs.all_pairs import AllPairs
from thalweg_embedding.pairs.boxes import EXACT_COST
from thalweg_embedding.pairs.combined import CombinedPairs
from thalweg_embedding.pairs.density import DensityCorrelation
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.grid import GRID_ROWS, GridPairs
from thalweg_embedding.pairs.neighbors import NeighborPairs
from thalweg_embedding.pairs.pair_sum import PairSum
from thalweg_embedding.plugin import STOP
from thalweg_embedding.start import (
    LARGE_SCALE,
    NOISE,
    START_SCALE,
    UNFOLDED_SCALE,
    Start,
    principal_components,
)

#: Points from which a note says that all pairs are summed.
SLOW_ROWS = 5_000

#: Points from which a mesh sums the repulsion, whose error would hide the forces in a small map:
#: then the start is not small, and early exaggeration is the default.
MANY_ROWS = 1_000

#: By how much, iterations of its stages, and the last factors of lambda.  Exaggerated maps gather
#: classes before they grow, and many small stages let them grow without tearing: fewer are quicker
#: to a value and lose neighbors and classes for it.
EXAGGERATION = 12.0
STAGE_ITERATIONS = 16
LATE_STAGES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

#: Points up to which maps of t-SNE go through the late stages twice.
TWICE_ROWS = 5_000


def embedding(
    family: Family,
    dataset: Dataset,
    *,
    dimensions: Dimensions = 2,
    perplexity: Perplexity = None,
    perplexities: Annotated[
        Sequence[float] | None,
        Help("several perplexities, whose affinities are averaged, instead of one", above=1),
    ] = None,
    affinity: Annotated[
        Literal["auto", "entropic", "uniform", "fuzzy", "precomputed"],
        Help(
            "Gaussians of equal perplexity; equal weights for the nearest neighbors; UMAP's; or "
            "the data are a matrix of affinities themselves; auto: the objective's usual ones"
        ),
    ] = "auto",
    n_neighbors: Annotated[
        int,
        Help(
            "nearest neighbors of a point in uniform and fuzzy affinities; these count itself",
            minimum=2,
        ),
    ] = 15,
    metric: Annotated[
        str,
        Help(
            "distance of the data: euclidean, cosine, correlation, precomputed, SciPy's "
            "cityblock, chebyshev, jaccard ..., or any of pynndescent, where that is installed"
        ),
    ] = "euclidean",
    graph: Annotated[
        Literal["auto", "dense", "sparse"],
        Help("affinities of all pairs, or of the nearest neighbors; auto: all up to 1,000 points"),
    ] = "auto",
    neighbor_search: Annotated[
        Literal["exact", "approximate"], Help("how nearest neighbors are found")
    ] = "exact",
    init: Annotated[
        Literal["auto", "random", "pca", "spectral"],
        Help(
            "where the map starts: random numbers, principal components, which auto takes for all "
            "but elastic embeddings where the data have as many columns, or eigenvectors of the "
            "affinities"
        ),
    ] = "auto",
    init_scale: Annotated[
        float | None,
        Help(
            "standard deviation of the starting map; by default chosen", unit="map units", above=0
        ),
    ] = None,
    lambda_: Annotated[
        float | None,
        Help(
            "weight of the repulsion; 1 for SNE variants, 100 for elastic embeddings, 2.5 for "
            "umap, 5 for neg-t-sne, 35 for largevis",
            minimum=0,
        ),
    ] = None,
    repulsive_weights: Annotated[
        Literal["uniform", "squared-distances", "one", "complement"],
        Help(
            "repulsive weight of a pair: 1/(N(N-1)), its squared distance in the data (scaled so "
            "that all sum to 1), 1, or 1 minus its affinity, which makes a cross-entropy"
        ),
    ] = "uniform",
    repulsion: Annotated[
        Literal["auto", "exact", "grid"],
        Help("how the repulsion of all pairs is summed: pair by pair, or by a mesh and FFTs"),
    ] = "auto",
    repulsion_error: Annotated[
        float,
        Help(
            "error of a pair's force by the grid, relative to the strongest force",
            minimum=1e-9,
            maximum=0.1,
        ),
    ] = 1e-2,
    exaggeration: Annotated[
        float | None,
        Help(
            "early exaggeration: the run begins with lambda divided by this; by default 12 for "
            "1,000 points or more, else 1, which is none",
            minimum=1,
        ),
    ] = None,
    density: Annotated[
        float,
        Help(
            "weight of the correlation of local densities in the data and in the map; 0.1 is "
            "den-SNE's, and 1 for umap that of densMAP",
            minimum=0,
        ),
    ] = 0.0,
    start: np.ndarray | None = None,
    weights: Weights | None = None,
) -> PairwiseEmbedding:
    """An embedding of a data set's rows.  Collective.

    Parameters
    ----------
    family
        Which functions; your own :class:`Family` makes a new method.
    dataset
        Points as rows, or their affinities (``affinity="precomputed"``).
    dimensions
        Columns of the map.
    affinity
        ``"entropic"``, ``"uniform"``, ``"fuzzy"`` or ``"precomputed"``; ``"auto"`` is what the
        family has.
    perplexity, perplexities, n_neighbors, metric, graph, neighbor_search
        See :func:`~thalweg_embedding.affinities.build.affinities_of`.
    init
        ``"random"``, ``"pca"`` or ``"spectral"``, eigenvectors of the affinities' normalized
        Laplacian; ``"auto"`` is principal components for SNE variants and others of
        bounded attraction where the points themselves are given, with at least as many columns
        as the map.
    init_scale
        Deviation of the start, in map units, by default 1e-2: so little that the map may
        unfold in any way, and enough for the first steps to show in the objective.  Maps of
        many points by SNE variants and others of bounded attraction start at 0.1, for in a
        smaller map a grid's error hides the forces; at 1 from principal components, which
        have unfolded already.
    lambda_
        Weight of the repulsion, by default that of the family.
    repulsive_weights
        Where E- is no logarithm: ``"uniform"``, w- = 1/(N (N - 1));
        ``"squared-distances"`` of the data, scaled to sum 1; ``"one"``, w- = 1;
        ``"complement"``, (1 - mu)/M for affinities mu <= 1 that sum to M: with lambda = 1,
        then the default, E is a cross-entropy over all pairs divided by M.
    repulsion, repulsion_error, exaggeration
        How all pairs are summed, and the error allowed to a fast way: see :func:`repulsive_sum`;
        and the stages that lambda passes through: see :func:`exaggerated_stages`.
    density
        Times the correlation of local radii (see
        :class:`~thalweg_embedding.pairs.density.DensityCorrelation`) is subtracted.
    start
        This rank's rows of a map to start from.
    weights
        This rank's rows of attractive weights, instead of those made from the data.

    Raises
    ------
    InputError
        Data or options that cannot be used.
    """
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"the data must be a thalweg.Dataset, not a {type(dataset).__name__}; "
            "thalweg.Dataset.from_array makes one"
        )
    kind = family.affinity if affinity == "auto" else affinity
    if lambda_ is None:
        lambda_ = (
            1.0 if repulsive_weights == "complement" else family.usual_lambda(dataset.layout.rows)
        )
    layout = dataset.layout.with_columns(dimensions)
    require_room_for_map(layout)
    components = 1
    sentences: list[str] = []
    if weights is not None:
        made = Affinities(weights)
    elif kind == "precomputed":
        if metric != "euclidean":
            raise InputError(
                f"metric = '{metric}' has no meaning where the data are affinities; leave it out, "
                "or choose another affinity"
            )
        made = given_affinities(dataset)
    else:
        shared: dict[str, Any] = {
            "perplexity": perplexity,
            "perplexities": perplexities,
            "n_neighbors": n_neighbors,
            "metric": metric,
            "graph": graph,
        }
        sizes = {"name": family.name, "dimensions": dimensions, "affinity": kind}
        sums = {"repulsive_weights": repulsive_weights, "repulsion": repulsion}
        require_room(dataset, {**sizes, **shared, "neighbor_search": neighbor_search, **sums})
        made = affinities_of(
            dataset,
            kind,
            **shared,
            search=neighbor_search,
            note=sentences.append,
            distances=density > 0.0,
            relocate=repulsive_weights != "squared-distances",
        )
    term = _density_term(layout, made) if density > 0.0 else None
    from_data = weights is None and kind != "precomputed"
    weights = made.weights
    if from_data and family.staged and repulsive_weights != "complement":
        weights, components = tied_together(dataset.layout, weights, made.places)
    scale, negative = _repulsive_weights(dataset, family, repulsive_weights, made, metric, kind)
    repelling = repulsive_sum(layout, family.repulsion, negative, repulsion, repulsion_error)
    by_mesh = isinstance(repelling, GridPairs)
    fast = by_mesh and repulsion_error > 1e-5
    attracting = attractive_sum(layout, family.attraction, weights, fast, made.places)
    if repulsive_weights == "complement":
        complements = weights * made.total
        edges = attractive_sum(layout, family.repulsion, complements, places=made.places)
        repelling = CombinedPairs(repelling, edges, (1.0, -1.0))
    if init == "auto":
        points = kind != "precomputed" and metric != "precomputed"
        leading = points and dimensions <= dataset.layout.columns
        init = "pca" if family.staged and leading and start is None else "random"
    scale_of_start = init_scale or _usual_scale(family, layout.rows, init)
    noise = NOISE * scale_of_start if start is None else 0.0
    if start is None and init == "pca":
        start = principal_components(dataset, dimensions, scale_of_start)
    elif start is None and init == "spectral":
        start = eigenvectors(layout, weights, scale_of_start, made.places)
    objective = PairwiseEmbedding(
        layout,
        weights,
        attracting,
        repelling,
        normalized=family.normalized,
        lambda_=lambda_,
        repulsion_scale=scale,
        constant=_negative_entropy(layout, weights) if family.normalized else 0.0,
        start=Start(layout, start, scale_of_start, noise),
        stages=exaggerated_stages(family, layout.rows, exaggeration, density > 0.0),
        stage_iterations=STAGE_ITERATIONS,
        stop=STOP if family.staged else None,
        density=term,
        density_weight=density,
        label=family.name,
        affinity=kind,
        places=made.places,
    )
    if not by_mesh and layout.rows >= SLOW_ROWS:
        seconds = 1e-9 * EXACT_COST * layout.rows * float(layout.rows) / layout.comm.size
        sentences.append(
            f"the repulsion is summed over all {layout.rows:,} x {layout.rows:,} pairs, about "
            f"{seconds:.2g} s each time; meshes serve equal weights in up to 3 dimensions"
        )
    for sentence in sentences:
        objective.note(sentence)
    if components > 1:
        objective.note(
            f"the affinities fall into {components} components, for which the divergence has no "
            f"minimum; a uniform affinity of {UNIFORM_SHARE:.0%} of the total, on {LINKS} pairs "
            "per point, ties them together and is part of the objective"
        )
    return objective


def _named(family: Family | Callable[..., Family], summary: str) -> Callable[..., Any]:
    """Builder of a family's objective from configured options, which are :func:`embedding`'s.

    A function that makes the family adds its own.
    """
    made: Family = family if isinstance(family, Family) else family()
    own = {} if isinstance(family, Family) else dict(inspect.signature(family).parameters)

    def build(dataset: Dataset, comm: MPI.Comm, **options: Any) -> PairwiseEmbedding:
        chosen = {name: options.pop(name) for name in own if name in options}
        kind = family if isinstance(family, Family) else family(**chosen)
        return embedding(kind, dataset, **options)

    left_out = {"family", "dataset"} | ({"repulsive_weights"} if made.normalized else set())
    signature = inspect.signature(embedding)
    kept = [p for p in signature.parameters.values() if p.name not in left_out]
    hints: dict[str, Any] = {}
    if not isinstance(family, Family):
        hints = inspect.get_annotations(family, eval_str=True)
    kept = [
        *(p.replace(kind=p.KEYWORD_ONLY, annotation=hints[p.name]) for p in own.values()),
        *kept,
    ]
    build.__doc__ = summary
    build.__annotations__ = {p.name: p.annotation for p in kept}
    build.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    build.__name__ = build.__qualname__ = made.name
    return build


#: The functions that plugins' specs name: ``build(dataset, comm, **options)``.
elastic_embedding = _named(
    ELASTIC_EMBEDDING, "Carreira-Perpinan's elastic embedding: sum w+ d + lambda sum w- exp(-d)."
)
symmetric_sne = _named(
    SYMMETRIC_SNE, "Symmetric SNE: sum p log p + sum p d + lambda log sum exp(-d)."
)
t_sne = _named(
    student_sne, "t-SNE: sum p log p - sum p log k + lambda log sum k, k = 1/(1 + d) or lighter."
)
t_elastic_embedding = _named(
    T_ELASTIC_EMBEDDING,
    "An elastic embedding with t-SNE's kernels: sum w+ log(1 + d) + lambda sum w-/(1 + d).",
)
umap_embedding = _named(
    umap, "UMAP: -sum p log k - lambda sum w- log(1 - k), k = 1/(1 + a (d + 0.001)^b)."
)
largevis_embedding = _named(
    largevis, "LargeVis: -sum p log k - lambda sum w- log(1 - k), k = 1/(1.001 + d)."
)
negative_t_sne_embedding = _named(
    negative_t_sne, "Neg-t-SNE: -sum p log k - lambda sum w- log(1 - k), k = 1/(1 + c (1 + d))."
)


def attractive_sum(
    layout: Layout,
    function: PairFunction,
    weights: Weights,
    single: bool = False,
    places: Relocation | None = None,
) -> PairSum:
    """The attraction, over all pairs or over the edges of a sparse graph.

    ``single`` keeps a sparse graph's weights in single precision; ``places``: where its rows lie.
    """
    if scipy.sparse.issparse(weights):
        return NeighborPairs(layout, function, weights, single, places)
    return AllPairs(layout, function, weights)


def repulsive_sum(
    layout: Layout,
    function: PairFunction,
    weights: np.ndarray | None = None,
    method: str = "auto",
    error: float = 1e-2,
) -> PairSum:
    """The repulsion of all pairs.

    Parameters
    ----------
    layout, function, weights
        As in :class:`~thalweg_embedding.pairs.all_pairs.AllPairs`.
    method
        ``"exact"``: every pair. ``"grid"``: Fourier transforms of a mesh, for maps of 1 to 3
        dimensions and weights of one. ``"auto"``: the grid where it is possible and quicker, from
        1,000 points in 1 and 2 dimensions and from 20,000 in 3.
    error
        Tolerance of the grid (see :class:`~thalweg_embedding.pairs.grid.GridPairs`).

    Raises
    ------
    InputError
        A grid for a map of more than 3 dimensions, or weights that differ.
    """
    if method == "grid" and weights is not None:
        raise InputError(
            "repulsion by a grid needs equal repulsive weights; use repulsion = 'exact' or "
            "repulsive_weights = 'uniform'"
        )
    if method == "auto":
        enough = GRID_ROWS.get(layout.columns, math.inf)
        gains = weights is None and layout.rows >= enough
        method = "grid" if gains else "exact"
    if method == "grid":
        return GridPairs(layout, function, error)
    return AllPairs(layout, function, weights)


def exaggerated_stages(
    family: Family, rows: int, exaggeration: float | None, unfold_first: bool = False
) -> tuple[float, ...]:
    """Factors of lambda from 1/exaggeration to 1.

    Up to 15,000 points each is at most three times the one before until 1/2, then come 0.6, 0.7,
    0.8, 0.9 and 1: for 12, 1/12, 1/4.9, 1/2 and those.  Near 1 a map grows most, and its
    neighborhoods order themselves if it grows slowly.  Maps of more points gain nothing by that,
    and have factors at most twice the one before: 1/12, 1/6.45, 1/3.46, 1/1.86 and 1.

    t-SNE with one degree of freedom and 1,000 to 5,000 points goes through the stages from 1/2 to 1
    twice: the map shrinks and grows again, in better order.

    None asks for 12 where E- is a logarithm and the points are many, else for no stages: small
    maps, and those of the elastic embedding, unfold as well without.  ``unfold_first``: stages
    are wanted in any case.
    """
    if exaggeration is None:
        wanted = unfold_first or (family.staged and rows >= MANY_ROWS)
        exaggeration = EXAGGERATION if wanted else 1.0
    first = 1.0 / exaggeration
    few = rows <= ROWS_PER_STEP
    ratio = 3.0 if few else 2.0
    late = tuple(factor for factor in (LATE_STAGES if few else (1.0,)) if factor > first)
    if not late:
        return ()
    count = max(1, math.ceil(math.log(late[0] / first, ratio) - 1e-9))
    again = late if family is T_SNE and MANY_ROWS <= rows <= TWICE_ROWS else ()
    return (*(first * (late[0] / first) ** (i / count) for i in range(count)), *late, *again)


def _usual_scale(family: Family, rows: int, init: str) -> float:
    """Deviation of a start where the user gives none."""
    if not family.staged or rows < MANY_ROWS:
        return START_SCALE
    return LARGE_SCALE if init == "random" else UNFOLDED_SCALE


def _density_term(layout: Layout, made: Affinities) -> DensityCorrelation:
    if made.squared is None:
        raise InputError(
            "the correlation of densities needs the data, and affinities alone are given; use "
            "density = 0"
        )
    weights = scipy.sparse.csr_matrix(made.weights)
    return DensityCorrelation(layout, weights, made.squared, made.places)


def _negative_entropy(layout: Layout, weights: Weights) -> float:
    """Sum p log p, with 0 log 0 = 0."""
    values = weights.data if scipy.sparse.issparse(weights) else weights
    return -float(sum_over_ranks(layout.comm, float(scipy.special.entr(values).sum())))


def _repulsive_weights(
    dataset: Dataset, family: Family, wanted: str, made: Affinities, metric: str, kind: str
) -> tuple[float, np.ndarray | None]:
    """Factor of E-, and this rank's rows of w-, None for weights of one."""
    n = dataset.layout.rows
    if family.normalized or wanted == "one":
        return 1.0, None
    if wanted == "complement":
        sparse = scipy.sparse.issparse(made.weights)
        held = np.asarray(made.weights.data if sparse else made.weights)
        largest = made.total * max_over_ranks(dataset.comm, float(held.max(initial=0.0)))
        if largest > 1.0 + 1e-9:
            raise InputError(
                "repulsive_weights = 'complement' needs affinities of at most 1, and one is "
                f"{largest:g}; divide them by the largest, or use 'uniform'"
            )
        return 1.0 / made.total, None
    if wanted == "uniform":
        return 1.0 / (n * (n - 1)), None
    if isinstance(dataset, SparseDataset) or metric != "euclidean" or kind == "precomputed":
        raise InputError(
            "repulsive_weights = 'squared-distances' are Euclidean ones of dense rows, and here "
            "are sparse rows, affinities or another metric; use repulsive_weights = 'uniform'"
        )
    squared = _squared_distances(dataset)
    whole = float(sum_over_ranks(dataset.comm, float(squared.sum())))
    if whole == 0.0:
        raise InputError(
            "repulsive weights from squared distances need points that differ, and all are "
            "equal; use repulsive_weights = 'uniform'"
        )
    return 1.0 / whole, squared


def _squared_distances(dataset: Dataset) -> np.ndarray:
    """This rank's rows of the squared distances of all points, shape (local_rows, rows)."""
    layout = dataset.layout
    mean = (
        np.asarray(sum_over_ranks(layout.comm, dataset.values.sum(axis=0, dtype=float)))
        / layout.rows
    )
    values = dataset.values - mean
    squares = (values**2).sum(axis=1)
    distances = np.empty((layout.local_rows, layout.rows))
    for block in Ring(layout).blocks(values, squares):
        tile = distances[:, block.start : block.stop]
        np.matmul(values, block.arrays[0].T, out=tile)
        tile *= -2.0
        tile += squares[:, None]
        tile += block.arrays[1]
    np.maximum(distances, 0.0, out=distances)
    own = np.arange(layout.local_rows)
    distances[own, layout.start + own] = 0.0
    return distances
