"""Normalized mutual information of two labelings."""

import numpy as np

from thalweg.parallel import MPI, sum_over_ranks


def normalized_mutual_information(
    a: np.ndarray, b: np.ndarray, comm: MPI.Comm = MPI.COMM_SELF
) -> float:
    """I(a, b) / sqrt(H(a) H(b)), the measure of Table 1.  Collective.

    Two labelings of one cluster each agree (1); one such and another do not (0).  This rank's
    labels are of any type on one rank; on several they are integers that mean the same on all.
    """
    if comm.size == 1:
        a, b = (np.unique(labels, return_inverse=True)[1] for labels in (a, b))
    sizes = [max(comm.allgather(int(labels.max(initial=-1)))) + 1 for labels in (a, b)]
    table = np.zeros(sizes)
    np.add.at(table, (a, b), 1.0)
    table = np.asarray(sum_over_ranks(comm, table))
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0] / table.sum()
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if len(rows) == 1 or len(columns) == 1:
        return 1.0 if len(rows) == len(columns) else 0.0
    filled = table > 0
    shared = (table[filled] * np.log(table[filled] / np.outer(rows, columns)[filled])).sum()
    entropies = (rows * np.log(rows)).sum() * (columns * np.log(columns)).sum()
    return float(min(1.0, max(0.0, shared / np.sqrt(entropies))))
