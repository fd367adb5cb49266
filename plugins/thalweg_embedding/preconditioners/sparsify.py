"""The kappa largest weights of each row."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from thalweg.parallel import Layout
from thalweg_embedding.affinities.symmetric import Weights, transposed


def strongest(layout: Layout, weights: Weights, kappa: int) -> scipy.sparse.csr_matrix:
    """Each row's kappa largest weights, made symmetric.  Collective.

    An entry stays if it is among the kappa largest of its row or of its column.

    Parameters
    ----------
    weights
        This rank's rows, symmetric over the ranks, shape (local_rows, rows).
    kappa
        Number of entries; ties go to the smaller column.
    """
    sparse = scipy.sparse.csr_matrix(weights)
    sparse.sort_indices()
    lengths = np.diff(sparse.indptr)
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((sparse.indices, -sparse.data, row_of))
    rank_in_row = np.arange(len(order)) - np.repeat(sparse.indptr[:-1], lengths)
    kept = order[rank_in_row < kappa]
    rows, columns = row_of[kept], sparse.indices[kept]
    one_way = scipy.sparse.csr_matrix((sparse.data[kept], (rows, columns)), shape=sparse.shape)
    return one_way.maximum(transposed(layout, one_way)).tocsr()
