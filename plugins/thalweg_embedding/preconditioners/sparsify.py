"""The kappa largest weights of each row."""

import numpy as np
import scipy.sparse

from thalweg.parallel import Layout, kernel
from thalweg_embedding.affinities.symmetric import Weights, transposed


def strongest(layout: Layout, weights: Weights, kappa: int) -> scipy.sparse.csr_matrix:
    """Each row's kappa largest weights, made symmetric.  Collective.

    An entry of ``weights``, symmetric over the ranks, shape (local_rows, rows), stays if it is
    among the kappa largest of its row or of its column; ties go to the smaller column.
    """
    sparse = scipy.sparse.csr_matrix(weights)
    if not sparse.has_sorted_indices:
        sparse = sparse.sorted_indices()
    lengths = np.diff(sparse.indptr)
    starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, kappa))])
    kept = np.empty(starts[-1], dtype=np.int64)
    _select(sparse.indptr, sparse.data, starts, kept)
    one_way = scipy.sparse.csr_matrix(
        (sparse.data[kept], sparse.indices[kept], starts), shape=sparse.shape
    )
    return one_way.maximum(transposed(layout, one_way)).tocsr()


@kernel()
def _select(indptr, weights, starts, kept):
    """Positions of each row's largest weights, in ascending order."""
    # Numba takes ten seconds to compile a partition, and some to compile a parallel loop.
    for n in range(indptr.size - 1):
        row, chosen = weights[indptr[n] : indptr[n + 1]], kept[starts[n] : starts[n + 1]]
        if chosen.size == 0:
            continue
        largest = np.full(chosen.size, -np.inf)
        for weight in row:
            place = chosen.size
            while place > 0 and largest[place - 1] < weight:
                place -= 1
            for later in range(chosen.size - 1, place, -1):
                largest[later] = largest[later - 1]
            if place < chosen.size:
                largest[place] = weight
        ties = chosen.size - (largest > largest[-1]).sum()  # the first ones stay
        place = 0
        for entry in range(row.size):
            if row[entry] > largest[-1] or (row[entry] == largest[-1] and ties > 0):
                ties -= row[entry] == largest[-1]
                chosen[place] = indptr[n] + entry
                place += 1
