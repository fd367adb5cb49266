"""Options of the embeddings: each is declared once, with its type, default, bounds and help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from thalweg.plugins import Help

Dimensions = Annotated[int, Help("dimensions of the map", minimum=1)]
Perplexity = Annotated[
    float | None,
    Help("effective number of neighbors of a point; 30, or fewer for small data", above=1),
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
        Sequence[float] | None,
        Help("several perplexities, whose affinities are averaged, instead of one", above=1),
    ] = None
    affinity: Annotated[
        Literal["auto", "entropic", "uniform", "fuzzy", "precomputed"],
        Help(
            "Gaussians of equal perplexity; equal weights for the nearest neighbors; UMAP's; or "
            "the data are a matrix of affinities themselves; auto: the objective's usual ones"
        ),
    ] = "auto"
    n_neighbors: Annotated[
        int, Help("neighbors of a point in uniform and fuzzy affinities; these count it", minimum=2)
    ] = 15
    metric: Annotated[
        str,
        Help(
            "distance of the data: euclidean, cosine, correlation, precomputed (the data are "
            "distances, square, or a sparse matrix of those to nearest neighbors), SciPy's "
            "cityblock, chebyshev, jaccard ..., or any of pynndescent, where that is installed"
        ),
    ] = "euclidean"
    graph: Annotated[
        Literal["auto", "dense", "sparse"],
        Help("affinities of all pairs, or of the nearest neighbors; auto: all up to 1,000 points"),
    ] = "auto"
    neighbor_search: Search = "exact"
    target_weight: Annotated[
        float,
        Help(
            "by how much affinities follow the labels of the data, of which -1 stands for an "
            "unknown one: 0 ignores them, 1 attracts within classes alone, 0.5 is umap-learn's",
            minimum=0,
            maximum=1,
        ),
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
        Help(
            "where the map starts: random numbers, principal components, which auto takes for all "
            "but elastic embeddings where the data have as many columns, or eigenvectors of the "
            "affinities"
        ),
    ] = "auto"
    init_scale: Annotated[
        float | None,
        Help("standard deviation of the start; by default chosen", unit="map units", above=0),
    ] = None
    lambda_: Annotated[
        float | None,
        Help(
            "weight of the repulsion; 1 for SNE variants, 100 for elastic embeddings, 2.5 for "
            "umap, 5 for neg-t-sne, 35 for largevis",
            minimum=0,
        ),
    ] = None
    repulsive_weights: Annotated[
        Literal["uniform", "squared-distances", "one", "complement"],
        Help(
            "repulsive weight of a pair: 1/(N(N-1)), its squared distance in the data (scaled so "
            "that all sum to 1), 1, or 1 minus its affinity, which makes a cross-entropy"
        ),
    ] = "uniform"
    repulsion: Annotated[
        Literal["auto", "exact", "grid"],
        Help("how the repulsion of all pairs is summed: pair by pair, or by a mesh and FFTs"),
    ] = "auto"
    repulsion_error: Annotated[
        float,
        Help("error of a force by the grid, relative to the strongest", minimum=1e-9, maximum=0.1),
    ] = 1e-2
    early_exaggeration: Annotated[
        float | None,
        Help(
            "the run begins with lambda divided by this; by default 12 for 1,000 points or more, "
            "else 1, which is none",
            minimum=1,
        ),
    ] = None
    anchors: Annotated[
        str | None, Help("file of lines 'number of a point, x, y': its place", is_file=True)
    ] = None
    anchor_weight: Annotated[
        float | None, Help("w: adds 2 w/N |x - place|^2; by default points stay there", above=0)
    ] = None
    density: Annotated[
        float,
        Help(
            "weight of the correlation of local densities in the data and in the map; 0.1 is "
            "den-SNE's, and 1 for umap that of densMAP",
            minimum=0,
        ),
    ] = 0.0
