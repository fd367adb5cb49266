"""Aligned maps of time windows, or of any data sets that share points, which are fitted together.

E = sum_k E_k(X_k) + sum_k 2 w_k sum ||x_i - y_j||^2 over related points i of map k and j of map
k + 1.  With w = 1, w_k = 2 w/(N_k + N_(k+1)), each draws the other as all near neighbors do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.base import clone

from thalweg.data import comm_of
from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import (
    Array,
    Layout,
    collective_call,
    job_threads,
    raise_on_all_ranks,
    refuse_differing,
    rows_at,
)
from thalweg.plugins import Option
from thalweg_embedding.affinities.symmetric import renumbered
from thalweg_embedding.estimators.neighbor_embeddings import PairwiseEstimator
from thalweg_embedding.pairs.functions import DISTANCE
from thalweg_embedding.pairs.pair_sum import CombinedPairs, SecondOrder
from thalweg_embedding.pairs.sum_methods import attractive_sum
from thalweg_embedding.pairwise_embedding import PairwiseEmbedding


@collective_call(lambda estimator, data, *_, **__: comm_of(next(iter(data), None)))
def aligned_maps(
    estimator: Any, data: Sequence[Any], relations: Sequence[Any], weight: float = 0.01
) -> list[Any]:
    """Maps of several data sets, in which a point lies near those that it is related to.

    One objective is minimized: that of all maps, and the squared distances between related points.

    Parameters
    ----------
    estimator
        Of the kind and with the parameters of all maps, such as ``TSNE(perplexity=20)``; it stays
        as it is.  Maps whose points all repel are aligned, without anchors or densities.
    data
        What ``fit`` takes, for each map.
    relations
        For each map but the last, rows of the same points in it and in the next: a dictionary from
        row to row, or pairs as an array of integers, shape (pairs, 2).  On several ranks the same
        on each.
    weight
        How strongly related points attract each other: 1 as all near neighbors of a point
        together, 0 not at all.

    Returns
    -------
    list of estimators
        One for each data set, as fitted to it alone: ``embedding_``, ``transform`` and the rest.

    Raises
    ------
    InputError
        An estimator of another kind, or data, parameters, relations or a weight that cannot be
        used.
    """
    plain = isinstance(estimator, PairwiseEstimator) and estimator.anchors is None
    if not plain or estimator.density:
        raise InputError(
            "aligned_maps needs an estimator of maps whose points all repel, as TSNE(), without "
            f"anchors or density, not {estimator!r}"
        )
    if len(data) != len(relations) + 1:
        raise InputError(
            f"{len(data)} data sets need relations between each and the next, and these are "
            f"{len(relations)}"
        )
    Option("weight", float, 0.01, "", minimum=0).check(weight, "aligned_maps")
    models, comm = [clone(estimator) for _ in data], comm_of(data[0])
    with job_threads(estimator.n_jobs, comm):
        pairs = zip(models, data, strict=True)
        sets, parts = zip(*(model._objective(rows, None, {}) for model, rows in pairs), strict=True)
        sizes = [part.layout.rows for part in parts]
        with raise_on_all_ranks(comm):
            tables = [relation_table(given, *sizes[k : k + 2]) for k, given in enumerate(relations)]
        refuse_differing(comm, "the relations", weight, *tables)
        objective = AlignedEmbedding(parts, tables, weight)
        result = estimator._minimized(objective)
        each = zip(models, sets, objective.split(result.x), result.metrics["maps"], strict=True)
        for model, rows, (part, x), metrics in each:
            notes = (*result.notes, *part.notes)
            own = replace(result, x=np.array(x), metrics=metrics, notes=notes)
            model._keep(replace(own, objective=part.value(x)), rows, part)
    result.warn_unless_converged()
    return models


def relation_table(given: Any, before: int, after: int) -> np.ndarray:
    """Pairs of related rows of data sets of so many rows, int64, shape (pairs, 2).

    ``given``: a dictionary from rows of the first to rows of the second, or such an array.
    """
    refuse_masked(given, "the relations")
    table = np.array([*given.items()] if isinstance(given, Mapping) else given)
    fits = table.ndim == 2 and table.shape[1:] == (2,) and len(table) and table.dtype.kind in "iu"
    if not fits or table.min() < 0 or (table.max(axis=0) >= (before, after)).any():
        raise InputError(
            "relations must be a dictionary, or an array of shape (pairs, 2), from row numbers "
            f"below {before} of a data set to those below {after} of the next"
        )
    return table.astype(np.int64)


class AlignedEmbedding(PairwiseEmbedding):
    """The objective of several maps, of which x has this rank's rows one after the other.

    ``parts`` are objectives of one family on the same ranks, of as many columns, without anchors or
    densities; the weight of the repulsion, stages and rules of the largest hold for all.  Of each
    map and the next, ``relations`` has the pairs of related rows, shape (pairs, 2), the same on all
    ranks; ``weight`` is w.
    """

    def __init__(
        self, parts: Sequence[PairwiseEmbedding], relations: Sequence[np.ndarray], weight: float
    ) -> None:
        largest = max(parts, key=lambda part: part.layout.rows)
        layouts = [part.layout for part in parts]
        rows, local = [each.rows for each in layouts], [each.local_rows for each in layouts]
        layout = Layout(largest.comm, sum(rows), largest.layout.columns, local_rows=sum(local))
        self.parts, self.relations, self._ends = parts, relations, np.cumsum(local)[:-1]
        # Numbers of this rank's rows of each map, among the rows of all.
        numbers = np.split(np.arange(layout.start, layout.stop), self._ends)
        weights = links = scipy.sparse.csr_matrix((layout.rows, layout.rows))
        weights = weights[layout.start : layout.stop]
        for part, own in zip(parts, numbers, strict=True):
            part.homotopy_parameter = largest.homotopy_parameter  # UMAP's depends on the rows
            block = scipy.sparse.csr_matrix(part.weights_at_rows())
            weights += renumbered(block, part.layout, own, layout)
        for k, pairs in enumerate(relations):
            ends = [rows_at(layouts[i], numbers[i], pairs[:, i - k]) for i in (k, k + 1)]
            pull = np.full(len(pairs), 2.0 * weight / (rows[k] + rows[k + 1]))
            links += scipy.sparse.csr_matrix((pull, ends), links.shape)
        links = (links + links.T)[layout.start : layout.stop].tocsr()
        single = largest.attraction.relative_error > 0.0
        attraction = attractive_sum(layout, largest.attraction.function, weights, single)
        pulls = CombinedPairs(attraction, attractive_sum(layout, DISTANCE, links), (1.0, 1.0))
        whole = (weights + links / largest.attraction.function(0.0)[1]).tocsr()
        super().__init__(
            layout, whole, pulls, largest.repulsion, normalized=largest.normalized,
            lambda_=largest.homotopy_parameter, constant=sum(part.constant for part in parts),
            start=largest.start, stages=largest.stages, stop=largest.default_stop,
            label=largest.label,
        )  # fmt: skip

    def split(self, *arrays: Array) -> Iterator[tuple[Any, ...]]:
        """The objective of each map, and this rank's rows of it in each of the arrays."""
        return zip(self.parts, *(np.split(array, self._ends) for array in arrays), strict=True)

    def initial_point(self, seed: int) -> Array:
        """The start of each map, turned and moved to where related points of the last one are."""
        starts = [part.initial_point(seed) for part in self.parts]
        for k, pairs in enumerate(self.relations):
            ends = [rows_at(self.parts[i].layout, starts[i], pairs[:, i - k]) for i in (k, k + 1)]
            goal, middle = (rows.mean(axis=0) for rows in ends)
            turn, _ = scipy.linalg.orthogonal_procrustes(ends[1] - middle, ends[0] - goal)
            starts[k + 1] = (starts[k + 1] - middle) @ self.comm.bcast(turn) + goal
        return np.concatenate(starts)

    def escape_stationary_point(self, x: Array) -> Array:
        parts = list(self.split(x))
        moved = [part.escape_stationary_point(rows) for part, rows in parts]
        same = all(new is rows for new, (_, rows) in zip(moved, parts, strict=True))
        return x if same else np.concatenate(moved)

    def _repelled(self, x: Array, slopes: bool) -> tuple[float, float, float, Array]:
        each = [part._repelled(rows, slopes) for part, rows in self.split(x)]
        gradient_rows = np.concatenate([factor * rows for _, factor, _, rows in each])
        return sum(value for value, *_ in each), 1.0, 0.0, gradient_rows

    def _repulsive_part(self, kind: SecondOrder, x: Array, direction: Array) -> Array:
        each = self.split(x, direction)
        return np.concatenate([part._repulsive_part(kind, *rows) for part, *rows in each])

    def length_scale(self, x: Array) -> float:
        return min(part.length_scale(rows) for part, rows in self.split(x))

    def value_error(self, value: float) -> float:
        return sum(part.value_error(value) for part in self.parts)

    def metrics(self, x: Array) -> Mapping[str, Any]:
        """``maps``: those of each."""
        return {"maps": [part.metrics(rows) for part, rows in self.split(x)]}
