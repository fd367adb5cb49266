"""A list of pairs of points, whose secants stand in place of those of all pairs."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import Layout, raise_on_all_ranks, refuse_differing


@dataclass(frozen=True)
class PairList:
    """Distinct pairs i < j of the global numbers of ``n_points`` points.

    ``keys`` are ``i * n + j`` of all pairs, sorted, on every rank, with their ``weights`` if they
    have any; ``own`` are the pairs of which i is this rank's, shape ``(m, 2)``.
    """

    n_points: int
    keys: np.ndarray
    own: np.ndarray
    weights: np.ndarray | None

    @classmethod
    def of(cls, layout: Layout, pairs: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Those among the pairs of all ranks; of equal ones the largest weight.  Collective."""
        pairs = np.sort(pairs, axis=1)
        distinct = pairs[:, 0] != pairs[:, 1]
        pairs = pairs[distinct]
        every = np.concatenate(layout.comm.allgather(pairs[:, 0] * layout.rows + pairs[:, 1]))
        keys, at = np.unique(every, return_inverse=True)
        if weights is not None:
            largest = np.zeros(len(keys))
            np.maximum.at(largest, at, np.concatenate(layout.comm.allgather(weights[distinct])))
            weights = largest
        i, j = np.divmod(keys, max(1, layout.rows))
        mine = (i >= layout.start) & (i < layout.stop)
        return cls(layout.rows, keys, np.stack([i[mine], j[mine]], axis=1), weights)

    @classmethod
    def given(cls, layout: Layout, pairs: np.ndarray, weights: np.ndarray | None) -> Self:
        """Those that every rank has, checked, and compared between the ranks.  Collective."""
        comm = layout.comm
        with raise_on_all_ranks(comm):
            pairs, weights = checked_pairs(pairs, weights, layout)
        refuse_differing(comm, "the pairs or their weights", pairs, weights)
        share = slice(comm.rank, None, comm.size)
        return cls.of(layout, pairs[share], None if weights is None else weights[share])

    @classmethod
    def between(cls, layout: Layout, neighbors: np.ndarray) -> Self:
        """This rank's points with their neighbors, global numbers ``(n_local, k)``.  Collective."""
        first = np.repeat(np.arange(layout.start, layout.stop), neighbors.shape[1])
        return cls.of(layout, np.stack([first, neighbors.astype(np.int64).ravel()], axis=1))

    def weights_of(self, pairs: np.ndarray) -> np.ndarray | None:
        """Weights of listed pairs, shape ``(m, 2)``; None without any."""
        if self.weights is None:
            return None
        keys = pairs @ (self.n_points, 1)
        return np.asarray(self.weights[np.searchsorted(self.keys, keys)])


def checked_pairs(
    pairs: np.ndarray, weights: np.ndarray | None, layout: Layout
) -> tuple[np.ndarray, np.ndarray | None]:
    """Integers from 0 to n - 1, shape ``(m, 2)``, and weights in (0, 1], or an ``InputError``."""
    refuse_masked(pairs, "the pairs")
    refuse_masked(weights, "the weights of pairs")
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"the pairs must be integers in two columns, not {pairs.dtype} of shape {pairs.shape}"
        )
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < layout.rows):
        wrong = pairs.min() if pairs.min() < 0 else pairs.max()
        raise InputError(
            f"the pairs must be numbers of the {layout.rows} points, from 0 on, not {wrong}"
        )
    if weights is not None:
        try:
            weights = np.asarray(weights, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(f"the weights of pairs must be numbers: {error}") from error
        if weights.shape != (len(pairs),):
            raise InputError(
                f"there must be a weight for each of {len(pairs)} pairs, not weights of shape "
                f"{weights.shape}"
            )
        in_range = (weights > 0.0) & (weights <= 1.0)
        if not in_range.all():
            raise InputError(
                "the weights of pairs must be above 0 and at most 1, "
                f"not {weights[~in_range][0]}; divide them by the largest"
            )
    return pairs.astype(np.int64), weights
