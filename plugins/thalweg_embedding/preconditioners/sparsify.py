"""The kappa largest weights of each row."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np
import scipy.sparse
from numba import prange

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


@kernel(parallel=True)
def _select(indptr, weights, starts, kept):
    """Positions of each row's largest weights, in ascending order."""
    for n in prange(indptr.size - 1):
        row, chosen = weights[indptr[n] : indptr[n + 1]], kept[starts[n] : starts[n + 1]]
        if chosen.size == 0:
            continue
        least = np.partition(row, row.size - chosen.size)[row.size - chosen.size]
        ties = chosen.size - (row > least).sum()  # the first ones stay
        place = 0
        for entry in range(row.size):
            if row[entry] > least or (row[entry] == least and ties > 0):
                ties -= row[entry] == least
                chosen[place] = indptr[n] + entry
                place += 1
