"""How much labelings agree: two of them, or all that were found with all that are true."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy.optimize
from sklearn.metrics import normalized_mutual_info_score

from thalweg.data import label_array
from thalweg.errors import InputError, refuse_masked
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
    table = shared_rows(a, b, comm)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if len(rows) == 1 or len(columns) == 1:
        return 1.0 if len(rows) == len(columns) else 0.0
    entropies = (rows * np.log(rows)).sum() * (columns * np.log(columns)).sum()
    return float(min(1.0, max(0.0, mutual_information(table) / np.sqrt(entropies))))


def shared_rows(a: np.ndarray, b: np.ndarray, comm: MPI.Comm = MPI.COMM_SELF) -> np.ndarray:
    """Share of all rows that each pair of clusters of two labelings has in common.  Collective."""
    sizes = [max(comm.allgather(int(labels.max(initial=-1)))) + 1 for labels in (a, b)]
    counts = np.bincount(a * sizes[1] + b, minlength=sizes[0] * sizes[1]).astype(float)
    table = np.asarray(sum_over_ranks(comm, counts)).reshape(sizes)
    return np.asarray(table / table.sum())


def mutual_information(table: np.ndarray) -> float:
    """Of two labelings, from their :func:`shared_rows`."""
    filled = table > 0
    single = np.outer(table.sum(axis=1), table.sum(axis=0))
    return float((table[filled] * np.log(table[filled] / single[filled])).sum())


def compare_labelings(
    true: Sequence[np.ndarray] | np.ndarray, found: Sequence[np.ndarray] | np.ndarray
) -> dict[str, Any]:
    """Scores of several labelings, a list or columns, as ClustPy (Leiber et al. 2023) has them.

    Those of a single cluster, beside -1, are left out.

    Returns
    -------
    dict
        ``"table"``: scikit-learn's normalized mutual information of each true labeling with each
        found.  ``"best"``: mean of the largest of its rows; ``"matched"``: the same where none
        found serves two true ones.  ``"precision"``, ``"recall"``, ``"f1"``, ``"rand"`` and
        ``"jaccard"`` of the pairs of rows that share a cluster in at least one labeling.

    Raises
    ------
    InputError
        Labelings of different lengths, or no true one of two clusters.
    """
    views, others = (
        [label_array(labels) for labels in (part.T if isinstance(part, np.ndarray) else part)]
        for part in (true, found)
    )
    shapes = {labels.shape for labels in [*views, *others]}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise InputError("labelings have one label per row each, of the same rows")
    for labels in [*views, *others]:
        refuse_masked(labels, "the labels")
    if any((y != y).any() or None in y.tolist() for y in [*views, *others]):
        raise InputError("a labeling has NaN or None; give each row a label")
    try:
        views, others = (
            [np.unique(y, return_inverse=True)[1] for y in part if len(np.unique(y[y != -1])) > 1]
            for part in (views, others)
        )
    except TypeError:  # they do not compare
        raise InputError("labels of one labeling must be all numbers or all words") from None
    if not views:
        raise InputError("there is no true labeling of two clusters or more")
    measured = [[normalized_mutual_info_score(a, b) for b in others] for a in views]
    table = np.array(measured).reshape(len(views), len(others))
    chosen = scipy.optimize.linear_sum_assignment(table, maximize=True)
    of_true, of_found, either = map(_together, (views, others, [*views, *others]))
    both, pairs = of_true + of_found - either, len(views[0]) * (len(views[0]) - 1) // 2
    shares = {
        "precision": (both, of_found), "recall": (both, of_true), "jaccard": (both, either),
        "f1": (2 * both, of_true + of_found), "rand": (pairs - either + both, pairs),
    }  # fmt: skip
    best, matched = table.max(axis=1, initial=0.0).mean(), table[chosen].sum() / len(views)
    scores = {name: part / whole if whole else 0.0 for name, (part, whole) in shares.items()}
    return {"table": table, "best": float(best), "matched": float(matched), **scores}


def _together(labelings: Sequence[np.ndarray]) -> int:
    """Number of pairs of rows that share a cluster in at least one labeling.

    By inclusion and exclusion of the pairs in all of some; of many, by pairs of unlike rows.
    """
    if len(labelings) > 8:
        rows, counts = np.unique(np.stack(labelings, axis=1), axis=0, return_counts=True)
        alike = (int(counts[(rows == row).any(axis=1)].sum()) for row in rows)
        return (sum(map(int.__mul__, counts.tolist(), alike)) - len(labelings[0])) // 2
    total = 0
    for size in range(1, len(labelings) + 1):
        for some in combinations(labelings, size):
            counts = np.unique(np.stack(some, axis=1), axis=0, return_counts=True)[1]
            total -= (-1) ** size * int((counts * (counts - 1) // 2).sum())
    return total
