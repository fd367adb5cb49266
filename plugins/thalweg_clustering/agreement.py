"""How much two labellings say of each other."""

from __future__ import annotations

import numpy as np


def normalized_mutual_information(a: np.ndarray, b: np.ndarray) -> float:
    """I(a, b) / sqrt(H(a) H(b)), the measure of Table 1.

    Two labellings of one cluster each agree (1); one such and another do not (0).

    Parameters
    ----------
    a, b
        Labels, shape ``(n,)``.
    """
    _, first = np.unique(a, return_inverse=True)
    _, second = np.unique(b, return_inverse=True)
    table = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(table, (first, second), 1.0)
    table /= table.sum()
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if len(rows) == 1 or len(columns) == 1:
        return 1.0 if len(rows) == len(columns) else 0.0
    filled = table > 0
    shared = (table[filled] * np.log(table[filled] / np.outer(rows, columns)[filled])).sum()
    entropies = (rows * np.log(rows)).sum() * (columns * np.log(columns)).sum()
    return float(min(1.0, max(0.0, shared / np.sqrt(entropies))))
