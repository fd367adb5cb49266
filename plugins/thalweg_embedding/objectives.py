"""The named objectives: pairs of functions, and how their weights come from data."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, sum_over_ranks
from thalweg.parallel.pairs import Ring
from thalweg.plugins import Help, Option, declared_options
from thalweg_embedding.affinities.build import (
    LINKS,
    UNIFORM_SHARE,
    entropic_affinities,
    given_affinities,
    tied_together,
)
from thalweg_embedding.affinities.symmetric import Weights
from thalweg_embedding.memory import require_room_for_map
from thalweg_embedding.objective import PairwiseEmbedding
from thalweg_embedding.pairs.every import EveryPair
from thalweg_embedding.pairs.functions import (
    DISTANCE,
    GAUSSIAN,
    LOGARITHM,
    STUDENT,
    PairFunction,
)
from thalweg_embedding.pairs.grid import GridPairs
from thalweg_embedding.pairs.interface import PairSum
from thalweg_embedding.pairs.neighbors import NeighborPairs
from thalweg_embedding.start import (
    LARGE_SCALE,
    START_SCALE,
    UNFOLDED_SCALE,
    Start,
    principal_components,
)

#: Rows from which the grid is quicker than all pairs, by dimension.
GRID_ROWS = {1: 1_000, 2: 1_000, 3: 20_000}

#: Points from which a mesh sums the repulsion, whose error would hide the forces in a small map:
#: then the start is not small, and early exaggeration is the default.
MANY_ROWS = 1_000

#: By how much, and iterations of its stages.  Exaggerated maps gather classes before they grow,
#: and many small stages let them grow without tearing: fewer are quicker to a value and lose
#: neighbors and classes for it.
EXAGGERATION = 12.0
STAGE_ITERATIONS = 16


@dataclass(frozen=True)
class Family:
    """A kind of embedding: two functions, and how the repulsion enters.

    Parameters
    ----------
    name
        As users write it.
    attraction, repulsion
        f and g.
    normalized
        Whether E- is the logarithm of the sum of g.
    """

    name: str
    attraction: PairFunction
    repulsion: PairFunction
    normalized: bool


ELASTIC_EMBEDDING = Family("elastic-embedding", DISTANCE, GAUSSIAN, normalized=False)
SYMMETRIC_SNE = Family("s-sne", DISTANCE, GAUSSIAN, normalized=True)
T_SNE = Family("t-sne", LOGARITHM, STUDENT, normalized=True)
T_ELASTIC_EMBEDDING = Family("t-ee", LOGARITHM, STUDENT, normalized=False)

Dimensions = Annotated[int, Help("dimensions of the map", minimum=1)]
Perplexity = Annotated[
    float | None,
    Help("effective number of neighbors of a point; 30, or fewer for small data", above=1),
]


def embedding(
    family: Family,
    dataset: Dataset,
    *,
    dimensions: Dimensions = 2,
    perplexity: Perplexity = None,
    affinity: Annotated[
        Literal["entropic", "precomputed"],
        Help("affinities made from the data, or the data are a matrix of affinities themselves"),
    ] = "entropic",
    graph: Annotated[
        Literal["auto", "dense", "sparse"],
        Help("affinities of all pairs, or of the nearest neighbors; auto: all up to 1,000 points"),
    ] = "auto",
    neighbor_search: Annotated[
        Literal["exact", "approximate"],
        Help("how nearest neighbors are found", formerly=("neighbours",)),
    ] = "exact",
    init: Annotated[
        Literal["auto", "random", "pca"],
        Help(
            "where the map starts: random, or principal components, which auto takes for SNE "
            "variants where the data have as many columns"
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
        Help("weight of the repulsion; 1 for SNE variants, 100 for elastic embeddings", minimum=0),
    ] = None,
    repulsive_weights: Annotated[
        Literal["uniform", "squared-distances", "one"],
        Help(
            "repulsive weight of a pair: 1/(N(N-1)), its squared distance in the data (scaled so "
            "that all sum to 1), or 1"
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
    perplexity
        Effective neighbors of a point, by default 30, fewer for small data.
    affinity
        ``"entropic"`` or ``"precomputed"``.
    graph, neighbor_search
        See :func:`~thalweg_embedding.affinities.build.entropic_affinities`.
    init
        ``"random"`` or ``"pca"``; ``"auto"`` is the latter where E- is a logarithm and the
        points themselves are given, with at least as many columns as the map.
    init_scale
        Deviation of the start, in map units, by default 1e-2: so little that the map may
        unfold in any way, and enough for the first steps to show in the objective.  Maps of
        many points whose E- is a logarithm start at 0.1, for in a smaller map a grid's error
        hides the forces; at 1 from principal components, which have unfolded already.
    lambda_
        Weight of the repulsion, by default 1 where E- is a logarithm, else 100.
    repulsive_weights
        Where E- is no logarithm: ``"uniform"``, w- = 1/(N (N - 1));
        ``"squared-distances"`` of the data, scaled to sum 1; ``"one"``, w- = 1.
    repulsion, repulsion_error
        How all pairs are summed, and the error allowed to a fast way (see
        :func:`repulsive_sum`).
    exaggeration
        First of the stages that lambda passes through is lambda/exaggeration (see
        :func:`exaggerated_stages`); 1 for none of them.
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
    if lambda_ is None:
        lambda_ = 1.0 if family.normalized else 100.0
    layout = dataset.layout.with_columns(dimensions)
    require_room_for_map(layout)
    components = 1
    sentences: list[str] = []
    if weights is None:
        if affinity == "precomputed":
            weights = given_affinities(dataset)
        else:
            weights = entropic_affinities(
                dataset, perplexity, graph, neighbor_search, note=sentences.append
            )
            if family.normalized:
                weights, components = tied_together(dataset.layout, weights)
    scale, negative = _repulsive_weights(dataset, family, repulsive_weights)
    repelling = repulsive_sum(layout, family.repulsion, negative, repulsion, repulsion_error)
    fast = isinstance(repelling, GridPairs) and repulsion_error > 1e-5
    attracting = attractive_sum(layout, family.attraction, weights, single=fast)
    if init == "auto":
        leading = affinity == "entropic" and dimensions <= dataset.layout.columns
        init = "pca" if family.normalized and leading and start is None else "random"
    scale_of_start = init_scale or _usual_scale(family, layout.rows, init)
    if start is None and init == "pca":
        start = principal_components(dataset, dimensions, scale_of_start)
    objective = PairwiseEmbedding(
        layout,
        weights,
        attracting,
        repelling,
        normalized=family.normalized,
        lambda_=lambda_,
        repulsion_scale=scale,
        constant=_negative_entropy(layout, weights) if family.normalized else 0.0,
        start=Start(layout, start, scale_of_start),
        stages=exaggerated_stages(family, layout.rows, exaggeration),
        stage_iterations=STAGE_ITERATIONS,
        label=family.name,
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


def _named(family: Family, summary: str) -> Callable[..., PairwiseEmbedding]:
    """What builds a family's objective from configured options, which are :func:`embedding`'s."""

    def build(dataset: Dataset, comm: MPI.Comm, **options: Any) -> PairwiseEmbedding:
        return embedding(family, dataset, **options)

    left_out = {"family", "dataset"} | ({"repulsive_weights"} if family.normalized else set())
    signature = inspect.signature(embedding)
    kept = [p for p in signature.parameters.values() if p.name not in left_out]
    build.__doc__ = summary
    build.__annotations__ = {p.name: p.annotation for p in kept}
    build.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    build.__name__ = build.__qualname__ = family.name
    return build


#: The functions that plugins' specs name: ``build(dataset, comm, **options)``.
elastic_embedding = _named(
    ELASTIC_EMBEDDING, "Carreira-Perpinan's elastic embedding: sum w+ d + lambda sum w- exp(-d)."
)
symmetric_sne = _named(
    SYMMETRIC_SNE, "Symmetric SNE: sum p log p + sum p d + lambda log sum exp(-d)."
)
t_sne = _named(T_SNE, "t-SNE: sum p log p + sum p log(1 + d) + lambda log sum 1/(1 + d).")
t_elastic_embedding = _named(
    T_ELASTIC_EMBEDDING,
    "An elastic embedding with t-SNE's kernels: sum w+ log(1 + d) + lambda sum w-/(1 + d).",
)


def options_of(family: Family) -> tuple[Option, ...]:
    """Options of a family, those of :func:`embedding` that mean something to it."""
    return tuple(
        option
        for option in declared_options(embedding)
        if option.name != "repulsive_weights" or not family.normalized
    )


def attractive_sum(
    layout: Layout, function: PairFunction, weights: Weights, single: bool = False
) -> PairSum:
    """The attraction, over all pairs or over the edges of a sparse graph.

    ``single`` keeps a sparse graph's weights in single precision.
    """
    if scipy.sparse.issparse(weights):
        return NeighborPairs(layout, function, weights, single)
    return EveryPair(layout, function, weights)


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
        As in :class:`~thalweg_embedding.pairs.every.EveryPair`.
    method
        ``"exact"``: every pair. ``"grid"``: Fourier transforms of a mesh, for maps of 1 to 3
        dimensions and weights of one. ``"auto"``: the grid where it is possible and quicker, from
        1,000 points in 1 and 2 dimensions and from 20,000 in 3.
    error
        Of the grid (see :class:`~thalweg_embedding.pairs.grid.GridPairs`).

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
    return EveryPair(layout, function, weights)


def exaggerated_stages(family: Family, rows: int, exaggeration: float | None) -> tuple[float, ...]:
    """Factors of lambda from 1/exaggeration to 1, each at most twice the one before.

    For 12 they are 1/12, 1/6.45, 1/3.46, 1/1.86 and 1.  None asks for 12 where E- is a logarithm
    and the points are many, else for no stages: small maps, and those of the elastic embedding,
    unfold as well without.
    """
    if exaggeration is None:
        exaggeration = EXAGGERATION if family.normalized and rows >= MANY_ROWS else 1.0
    if exaggeration <= 1.0:
        return ()
    count = math.ceil(math.log2(exaggeration))
    return (*(exaggeration ** (i / count - 1.0) for i in range(count)), 1.0)


def _usual_scale(family: Family, rows: int, init: str) -> float:
    """Deviation of a start where the user gives none."""
    if not family.normalized or rows < MANY_ROWS:
        return START_SCALE
    return UNFOLDED_SCALE if init == "pca" else LARGE_SCALE


def _negative_entropy(layout: Layout, weights: Weights) -> float:
    """Sum p log p, with 0 log 0 = 0."""
    values = weights.data if scipy.sparse.issparse(weights) else np.ravel(weights)
    values = values[values > 0.0]
    return float(sum_over_ranks(layout.comm, float(values @ np.log(values))))


def _repulsive_weights(
    dataset: Dataset, family: Family, wanted: str
) -> tuple[float, np.ndarray | None]:
    """Factor of E-, and this rank's rows of w-, None for weights of one."""
    n = dataset.layout.rows
    if family.normalized or wanted == "one":
        return 1.0, None
    if wanted == "uniform":
        return 1.0 / (n * (n - 1)), None
    squared = _squared_distances(dataset)
    total = float(sum_over_ranks(dataset.comm, float(squared.sum())))
    if total == 0.0:
        raise InputError(
            "repulsive weights from squared distances need points that differ, and all are "
            "equal; use repulsive_weights = 'uniform'"
        )
    return 1.0 / total, squared


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
