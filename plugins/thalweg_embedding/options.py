"""Options of the embeddings: each is declared once, with its type, default, bounds and help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from thalweg.plugins import Help

Dimensions = Annotated[int, Help("dimensions of the map", minimum=1)]
Perplexity = Annotated[
    float | None, Help("effective number of neighbors; 30, or fewer for small data", above=1)
]
Neighbors = Annotated[
    int, Help("nearest neighbors; nearest pairs connect components of their graph", minimum=1)
]
Search = Annotated[
    Literal["exact", "approximate"],
    Help("how nearest neighbors are found; the latter, of sparse rows, needs pynndescent"),
]


@dataclass(frozen=True, kw_only=True)
class AffinityOptions:
    """How affinities are made from points."""

    perplexity: Perplexity = None
    perplexities: Annotated[
        Sequence[float] | None, Help("several instead, whose affinities are averaged", above=1)
    ] = None
    affinity: Annotated[
        Literal["auto", "entropic", "uniform", "fuzzy", "precomputed"],
        Help("of equal perplexity, equal, UMAP's, or the data themselves; auto: as is usual"),
    ] = "auto"
    n_neighbors: Annotated[int, Help("neighbors in uniform and fuzzy affinities", minimum=2)] = 15
    metric: Annotated[
        str,
        Help(
            "distance: euclidean, cosine, correlation, precomputed (the data are distances, square "
            "or sparse ones to neighbors), SciPy's as cityblock, or any of pynndescent"
        ),
    ] = "euclidean"
    graph: Annotated[
        Literal["auto", "dense", "sparse"],
        Help("affinities of all pairs, or of the nearest neighbors; auto: all up to 1,000 points"),
    ] = "auto"
    neighbor_search: Search = "exact"
    target_weight: Annotated[
        float, Help("by how much labels count: 0.5 as in umap-learn, 1 alone", minimum=0, maximum=1)
    ] = 0.0


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(AffinityOptions):
    """Options of :func:`~thalweg_embedding.embedding`.

    The usual scales of a start are in :mod:`~thalweg_embedding.defaults`.  Repulsive weights count
    where E- is no logarithm; ``"complement"`` is (1 - mu)/M for affinities mu <= 1 that sum to M.
    """

    dimensions: Dimensions = 2
    init: Annotated[
        Literal["auto", "random", "pca", "spectral"],
        Help("start: random numbers, principal components (auto, if possible), or eigenvectors"),
    ] = "auto"
    init_scale: Annotated[float | None, Help("start's deviation", unit="map units", above=0)] = None
    lambda_: Annotated[float | None, Help("weight of the repulsion; 1 for SNEs", minimum=0)] = None
    repulsive_weights: Annotated[
        Literal["uniform", "squared-distances", "one", "complement"],
        Help("w of a pair: 1/(N(N-1)), its share of squared distances, 1, or 1 minus its affinity"),
    ] = "uniform"
    repulsion: Annotated[
        Literal["auto", "exact", "grid"],
        Help("how the repulsion of all pairs is summed: pair by pair, or by a mesh and FFTs"),
    ] = "auto"
    repulsion_error: Annotated[
        float, Help("error of a force, relative to the strongest", minimum=1e-9, maximum=0.1)
    ] = 1e-2
    early_exaggeration: Annotated[
        float | None, Help("lambda is divided by it at first; 12 from 1,000 points on", minimum=1)
    ] = None
    anchors: Annotated[str | None, Help("file of lines 'number, x, y'", is_file=True)] = None
    anchor_weight: Annotated[
        float | None, Help("w: adds 2 w/N |x - place|^2; by default points stay there", above=0)
    ] = None
    density: Annotated[float, Help("weight of the correlation of densities", minimum=0)] = 0.0
