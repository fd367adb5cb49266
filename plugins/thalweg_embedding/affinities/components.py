"""Components of the graph of affinities, tied together so that they do not drift apart."""

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from thalweg.engines.laplacian import component_labels
from thalweg.parallel import Layout, rows_at, sum_over_ranks
from thalweg_embedding.affinities.symmetric import Weights, both_ways
from thalweg_embedding.relocation import Relocation

#: Share of the uniform affinity that ties components together, and pairs per point that carry it.
UNIFORM_SHARE, LINKS = 0.01, 5


def tied_together(
    layout: Layout, weights: Weights, places: Relocation | None = None
) -> tuple[Weights, int]:
    """Affinities whose graph is connected, and the number of components before.  Collective.

    The rule is that of MATHEMATICS.md, "Disconnected graphs"; five pairs per point lie at the same
    offsets for all points, and a connected graph is left as it is.  ``weights`` are this rank's
    rows of affinities that sum to 1 over all ranks; ``places``: where they lie, if not where those
    of ``layout`` do.
    """
    n = layout.rows
    map_layout, layout = layout, layout if places is None else places.layout
    edges = scipy.sparse.csr_matrix(weights)
    counted = np.where(edges.data < 1.0 / (n * (n - 1.0)), 0.0, edges.data)
    strong = scipy.sparse.csr_matrix((counted, edges.indices, edges.indptr), shape=edges.shape)
    components, labels = component_labels(layout, strong)
    del strong, counted
    if components > 1:
        # How many sets of groups there are between which affinities are weak.
        own = np.repeat(labels, np.diff(edges.indptr))
        pairs = (own, rows_at(layout, labels, edges.indices))
        between = scipy.sparse.csr_matrix((edges.data, pairs), shape=(components, components))
        between = sum(layout.comm.allgather(between)).tocoo()
        members = np.bincount(labels, minlength=components).astype(float)
        sizes = np.asarray(sum_over_ranks(layout.comm, members))
        uniform = UNIFORM_SHARE * sizes[between.row] * sizes[between.col] / (n * (n - 1.0))
        strong = between.data >= uniform
        pairs = (between.row[strong], between.col[strong])
        graph = scipy.sparse.csr_matrix((between.data[strong], pairs), shape=between.shape)
        components = int(connected_components(graph, directed=False)[0])
    del edges
    if components == 1:
        return weights, 1
    count = min(LINKS, n - 1)
    offsets = 1 + np.random.default_rng(0).choice(n - 1, count, replace=False)
    columns = (np.arange(map_layout.start, map_layout.stop)[:, None] + offsets) % n
    if places is not None:
        columns = places.forward(places.new_numbers(columns))
    there, back = both_ways(
        layout, columns, np.full(columns.shape, 0.5 * UNIFORM_SHARE / (n * count))
    )
    tied = weights * (1.0 - UNIFORM_SHARE) + (there + back)
    return np.asarray(tied) if not scipy.sparse.issparse(tied) else tied.tocsr(), components
