"""The way in which a sum over pairs is computed, chosen by weights, dimension and size."""

import math

import numpy as np
import scipy.sparse

from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg_embedding.affinities.symmetric import Weights
from thalweg_embedding.defaults import GRID_ROWS
from thalweg_embedding.pairs.all_pairs import AllPairs, PointwiseLogarithms
from thalweg_embedding.pairs.functions import PairFunction
from thalweg_embedding.pairs.grid_pairs import GridPairs
from thalweg_embedding.pairs.neighbor_pairs import NeighborPairs
from thalweg_embedding.pairs.pair_sum import PairSum
from thalweg_embedding.relocation import Relocation


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
    """The repulsion of all pairs: ``"exact"``, or by a ``"grid"`` of tolerance ``error``.

    ``"per point"`` is SNE's, which is exact.

    ``"auto"`` is the grid where it is possible and quicker, from 1,000 points in 1 and 2 dimensions
    and from 20,000 in 3.  Grids for more dimensions, or weights that differ, are refused.
    """
    if method == "per point":
        return PointwiseLogarithms(layout)
    if method == "grid" and weights is not None:
        raise InputError(
            "repulsion by a grid needs equal repulsive weights; use repulsion = 'exact' or "
            "repulsive_weights = 'uniform'"
        )
    if method == "auto":
        gains = weights is None and layout.rows >= GRID_ROWS.get(layout.columns, math.inf)
        method = "grid" if gains else "exact"
    if method == "grid":
        return GridPairs(layout, function, error)
    return AllPairs(layout, function, weights)
