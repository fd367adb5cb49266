"""Nearest neighbors in the metric that the user names, of dense, sparse or precomputed rows.

Cosine and correlation distances are Euclidean ones of rows that are centered or scaled first, so
that they have the exact, distributed search of the framework.
"""

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from thalweg.data import Dataset, check_magnitude
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.errors import InputError, refuse_masked, suggestion
from thalweg.numerics import unit_rows
from thalweg.parallel import (
    MPI,
    Layout,
    Ring,
    any_over_ranks,
    max_over_ranks,
    on_root,
    raise_on_all_ranks,
    refuse_differing,
    sum_over_ranks,
)
from thalweg_embedding.affinities.approximate_neighbors import approximate_neighbors
from thalweg_embedding.affinities.coarse_cells import CoarseCells

#: Metrics that become Euclidean ones of rows scaled to length 1; True where they are centered.
ANGULAR = {"cosine": False, "correlation": True}

#: Other metrics of an exact search: SciPy's, with the names that scikit-learn and pynndescent use.
ALIASES = {
    **dict.fromkeys(("l2", "minkowski"), "euclidean"),
    **dict.fromkeys(("l1", "manhattan", "taxicab"), "cityblock"),
    **dict.fromkeys(("linf", "linfinity", "linfty"), "chebyshev"),
}
OTHERS = ("braycurtis", "canberra", "chebyshev", "cityblock", "hamming", "jaccard", "sqeuclidean")

#: Names that pynndescent 0.5.12 and later know of metrics without further parameters.  To ask it
#: costs a minute, since its functions are compiled when they are imported.
PYNNDESCENT = (
    "braycurtis", "canberra", "chebyshev", "correlation", "cosine", "dice", "direct_cosine", "dot",
    "euclidean", "hamming", "haversine", "hellinger", "inner_product", "jaccard", "jensen-shannon",
    "kantorovich", "kulsinski", "linf", "linfinity", "linfty", "manhattan", "matching", "minkowski",
    "rogerstanimoto", "russellrao", "sinkhorn", "sokalmichener", "sokalsneath", "spearmanr",
    "sqeuclidean", "symmetric-kl", "taxicab", "true_angular", "tsss", "wasserstein",
    "wasserstein-1d", "yule",
)  # fmt: skip

#: Entries of a block of distances that is held at once, and most of its rows.
BLOCK, MAX_ROWS = 2**22, 512

#: Candidates by Euclidean distance beyond those asked for, since products of close rows cancel.
SPARE = 8

#: Rounding of given distances, as a share of the largest: what cancels in squares of single
#: precision is about 3e-4 of the length of the rows.
ROUNDING = 1e-3


@dataclass(frozen=True)
class SparseDataset(Dataset):
    """Rows of a sparse matrix, distributed, which are never made dense."""

    sparse: Any = None  # this rank's rows, CSR, shape (layout.local_rows, features)

    @classmethod
    def of(cls, matrix: Any, comm: MPI.Comm = MPI.COMM_SELF) -> "SparseDataset":
        """Rows of a matrix that every rank of ``comm`` has whole."""
        with raise_on_all_ranks(comm):
            refuse_masked(matrix, "the data")
            whole = scipy.sparse.csr_matrix(matrix)
            if whole.dtype.kind != "c" and whole.dtype not in (np.float32, np.float64):
                whole = whole.astype(float)
            if not np.isfinite(whole.data).all():
                raise InputError("the data have NaN or infinite entries; remove or replace them")
        refuse_differing(comm, "the shapes of the matrix", whole.shape)
        layout = Layout(comm, whole.shape[0], whole.shape[1])
        check_magnitude(whole.data, layout)
        rows = whole[layout.start : layout.stop]
        rows.sum_duplicates()
        return cls(np.empty((layout.local_rows, 0)), layout, sparse=rows)


def nearest_by(
    dataset: Dataset,
    k: int,
    metric: str = "euclidean",
    search: Any = "exact",
    note: Callable[[str], None] = lambda sentence: None,
    seed: int = 0,
    cells: CoarseCells | None = None,
    numbers: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest other rows of each of this rank's rows.  Collective.

    Gives their numbers, int64, and the squares of the metric's distances, in ascending order, both
    of shape (local_rows, k).  With ``metric="precomputed"`` the data are distances: a square
    matrix, or a sparse one that holds those to the nearest neighbors, as scikit-learn's
    ``kneighbors_graph``; where it has fewer, k is as many as all rows have.  An approximate search
    among sparse rows needs pynndescent, and is one rank's work; ``note`` is called with a sentence
    that tells how many of the neighbors one found.  ``search`` may also be a transformer, which
    rank 0 gives all rows.  ``cells``: those by which the rows lie on their ranks, if they do;
    ``numbers``: those of this rank's rows in an exact search, if not their places.
    """
    known = sorted({"precomputed", *ANGULAR, *ALIASES, *OTHERS, *PYNNDESCENT})
    if metric not in known:
        raise InputError(f"unknown metric '{metric}'{suggestion(metric, known)}")
    metric = ALIASES.get(metric, metric)
    check_magnitude(dataset.values, dataset.layout)
    if metric == "precomputed":
        connected = isinstance(dataset, SparseDataset) and bool((dataset.sparse.data == 1.0).all())
        if isinstance(dataset, SparseDataset) and not any_over_ranks(dataset.comm, not connected):
            note("all distances given are 1, as in a graph of connectivity: no neighbor is nearer")
        return _precomputed(dataset, k)
    if not isinstance(search, str):
        return _by_transformer(dataset, k, metric, search)
    if not measured_by_coordinates(metric):
        if isinstance(dataset, SparseDataset):
            raise InputError(
                f"metric '{metric}' of sparse data is not available; use 'euclidean' or 'cosine'"
            )
        if search == "exact" and metric in OTHERS:
            return nearest_among(dataset, dataset, k, True, metric)
        return _by_transformer(dataset, k, metric, _descent(metric, seed))
    dataset = measured_rows(dataset, metric, note)
    if search == "approximate" and isinstance(dataset, SparseDataset):
        return _by_transformer(dataset, k, metric, _descent(metric, seed))
    if isinstance(dataset, SparseDataset):
        indices, squared = nearest_among(dataset, dataset, k, True)
    elif search == "approximate":
        neighbors = approximate_neighbors(dataset.layout, dataset.values, k, seed, cells)
        indices, squared, recall, exact_because = neighbors
        if exact_because:
            note(f"the search for neighbors is exact, not approximate: {exact_because}")
        else:
            note(f"approximate search found {recall:.1%} of the nearest neighbors, on a sample")
    else:
        indices, squared = nearest_neighbors(dataset.layout, dataset.values, k, None, numbers)
    return indices, squared_distances_of(squared, metric)


def _by_transformer(
    dataset: Dataset, k: int, metric: str, search: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Neighbors and squared distances in the graph that a transformer makes of all rows."""
    if not hasattr(search, "fit_transform"):
        raise InputError(
            "neighbor_search must be 'exact', 'approximate' or a transformer, whose fit_transform "
            f"gives a sparse graph of neighbors, not {search!r}"
        )
    theirs, layout = getattr(search, "metric", metric), dataset.layout
    if ALIASES.get(theirs, theirs) != metric:
        raise InputError(
            f"neighbor_search has metric {theirs!r}, and the map '{metric}'; give both the same"
        )
    parameters = search.get_params(deep=False) if hasattr(search, "get_params") else {}
    norm = parameters.get("p", 2) if theirs == "minkowski" else 2
    if parameters.get("mode", "distance") != "distance" or norm != 2:
        raise InputError(
            "neighbor_search must give distances by the map's metric: with mode = 'distance', and "
            "in place of another p than 2 with a metric of that name, as 'cityblock'"
        )
    if "n_neighbors" in parameters:
        search = type(search)(**{**parameters, "n_neighbors": k})
    if isinstance(dataset, SparseDataset):
        parts = layout.comm.gather(dataset.sparse)
        whole = parts and scipy.sparse.vstack(parts, "csr")
    else:
        whole = layout.gather_on_root(dataset.values)

    def graph() -> scipy.sparse.csr_matrix:
        distances = scipy.sparse.csr_matrix(search.fit_transform(whole), dtype=float)
        whole_rows, numbers = distances.shape == (layout.rows, layout.rows), distances.indices
        if not whole_rows or numbers.min() < 0 or not np.isfinite(distances.data).all():
            raise InputError(
                f"neighbor_search must give the finite distances of {k} neighbors of each of "
                f"{layout.rows} rows; use another search or metric, or fewer neighbors"
            )
        return distances

    own = on_root(layout.comm, graph)[layout.start : layout.stop]
    square = layout.with_columns(layout.rows)
    return _precomputed(SparseDataset(dataset.values, square, sparse=own), k)


def _descent(metric: str, seed: int) -> Any:
    """pynndescent's search as a transformer of scikit-learn."""
    if importlib.util.find_spec("pynndescent") is None:
        raise InputError(
            f"metric '{metric}', or an approximate search among sparse rows, needs pynndescent; "
            "install it with pip install 'thalweg[large]', or use 'euclidean', 'cosine', "
            "'correlation' or 'cityblock' with an exact search"
        )
    from pynndescent import PyNNDescentTransformer

    return PyNNDescentTransformer(metric=metric, random_state=seed)


def squared_distances_of(squared: np.ndarray, metric: str) -> np.ndarray:
    """Squares of a metric's distances, from squared Euclidean ones of the rows it is taken of."""
    return (0.5 * squared) ** 2 if metric in ANGULAR else squared


def measured_by_coordinates(metric: str) -> bool:
    """Whether :func:`measured_rows` have distances that tell those of the metric."""
    metric = ALIASES.get(metric, metric)
    return metric == "euclidean" or metric in ANGULAR


def measured_rows(
    dataset: Dataset, metric: str, note: Callable[[str], None] = lambda sentence: None
) -> Dataset:
    """Rows whose Euclidean distances tell those of the metric, if there are such.  Collective.

    Rows without a direction, of zeros or (for the correlation) constant, count as alike, as equal
    rows are, and as orthogonal to all others: they share a column of their own, and ``note`` is
    called with a sentence.
    """
    return measured_together(metric, [dataset], dataset.layout.comm, note)[0]


def measured_together(
    metric: str,
    datasets: Sequence[Dataset],
    comm: MPI.Comm,
    note: Callable[[str], None] = lambda sentence: None,
) -> list[Dataset]:
    """:func:`measured_rows` of several data sets, with the same columns on all ranks."""
    metric = ALIASES.get(metric, metric)
    if metric not in ANGULAR:
        return list(datasets)
    measured = [_directions(dataset, metric) for dataset in datasets]
    lost = int(sum_over_ranks(comm, sum(len(has) - np.count_nonzero(has) for _, has in measured)))
    if not lost:
        return [directions for directions, _ in measured]
    what = "constant" if ANGULAR[metric] else "zero"
    note(
        f"{lost:,} of the rows {'are' if lost > 1 else 'is'} {what}, without a {metric} with "
        "others, and counted as alike and as orthogonal to all others"
    )
    extended: list[Dataset] = []
    for directions, has in measured:
        own = np.where(has, 0.0, 1.0)[:, None]
        if isinstance(directions, SparseDataset):
            sparse = scipy.sparse.hstack([directions.sparse, scipy.sparse.csr_matrix(own)], "csr")
            wider = directions.layout.with_columns(sparse.shape[1])
            extended.append(replace(directions, sparse=sparse, layout=wider))
        else:
            values = np.hstack([directions.values, own.astype(directions.values.dtype)])
            extended.append(directions.with_values(values))
    return extended


def _directions(dataset: Dataset, metric: str) -> tuple[Dataset, np.ndarray]:
    """Rows of unit length, zero where they have no direction, and which have one."""
    # Those of bytes would be in half precision.
    if isinstance(dataset, SparseDataset):
        if ANGULAR[metric]:
            raise InputError(
                "metric 'correlation' would make sparse data dense; use 'cosine', or dense data"
            )
        rows = dataset.sparse.tocsr().astype(np.result_type(dataset.sparse.dtype, np.float32))
        # As thalweg.numerics.unit_rows scales dense rows.
        powers = np.frexp(abs(rows).max(axis=1).toarray().ravel())[1]
        rows.data = np.ldexp(rows.data, -np.repeat(powers, np.diff(rows.indptr)))
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        has = lengths > 0.0
        scaled = scipy.sparse.diags(1.0 / np.where(has, lengths, 1.0)) @ rows
        return replace(dataset, sparse=scaled.tocsr()), has
    values = dataset.values.astype(np.result_type(dataset.values, np.float32))
    if ANGULAR[metric]:
        largest, powers = np.frexp(np.abs(values).max(axis=1, initial=0.0))
        values = np.ldexp(values, -powers[:, None])
        values -= values.mean(axis=1, keepdims=True)
        # What rounding leaves of a constant row.
        rounding = 8.0 * np.finfo(values.dtype).eps * math.sqrt(values.shape[1])
        values[np.linalg.norm(values, axis=1) <= rounding * largest] = 0.0
    return dataset.with_values(unit_rows(values)), values.any(axis=1)


def nearest_among(
    known: Dataset, asking: Dataset, k: int, same: bool, metric: str = "euclidean"
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest known rows of each of this rank's asking rows, by all distances.  Collective.

    In ascending order, with squared distances.  ``same``: whether both are the same rows, of which
    none is its own neighbor.
    """
    comm, own, rows, center = known.layout.comm, asking.layout, own_rows(asking), np.zeros(())
    squared = np.zeros((own.local_rows, 0 if own.local_rows else k))  # a rank may have none
    indices = squared.astype(np.int64)
    if metric == "euclidean" and not isinstance(known, SparseDataset):
        sums = np.asarray(known.values).sum(axis=0, dtype=float)
        center = np.asarray(sum_over_ranks(comm, sums)) / known.layout.rows
    for start, block in _blocks(known):
        turned = block - center  # products of rows far from the origin cancel
        norms = _squares(turned) if metric == "euclidean" else None
        each = (block, turned, center, norms, start, k, own.start if same else None, metric)
        size = min(MAX_ROWS, max(1, BLOCK // max(1, block.shape[0])))
        firsts = range(0, own.local_rows, size)
        parts = [_nearest_in(*each, first, rows[first : first + size]) for first in firsts]
        if parts:
            others, distances = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            indices, squared = np.hstack([indices, others]), np.hstack([squared, distances])
        order = np.lexsort((indices, squared), axis=1)[:, :k]
        indices = np.take_along_axis(indices, order, 1)
        squared = np.take_along_axis(squared, order, 1)
    with raise_on_all_ranks(comm):
        if not np.isfinite(squared).all():
            raise InputError(f"some distances by metric '{metric}' are not finite")
    return indices, squared


def _blocks(known: Dataset):  # type: ignore[no-untyped-def]
    """First row and rows of each rank, at this rank in turn.  Collective."""
    layout = known.layout
    if not isinstance(known, SparseDataset):
        for block in Ring(layout).blocks(np.asarray(known.values)):
            yield block.start, np.asarray(block.arrays[0], dtype=float)
        return
    for rank in range(layout.comm.size):
        yield int(layout.starts[rank]), layout.comm.bcast(known.sparse, root=rank).astype(float)


def _nearest_in(block, turned, center, norms, start, k, own_start, metric, first, part):  # type: ignore[no-untyped-def]
    """Nearest rows of a block for some asking rows: global numbers and squared distances."""
    sparse, euclidean, part = scipy.sparse.issparse(block), norms is not None, part.astype(float)
    if euclidean:
        asked = part - center
        products = asked @ turned.T
        products = products.toarray() if sparse else products
        # Lower bounds: rounding is at most that share of the squared lengths.
        share = 1.0 - (block.shape[1] + 16) * np.finfo(float).eps
        squared = share * norms - 2.0 * products + share * _squares(asked)[:, None]
    else:
        squared = np.nan_to_num(cdist(part, block, metric), posinf=np.inf) ** 2  # 0 / 0 is 0
    if own_start is not None:
        rows = np.arange(len(squared))
        columns = own_start + first + rows - start
        inside = (columns >= 0) & (columns < squared.shape[1])
        squared[rows[inside], columns[inside]] = np.inf
    count = min(k + SPARE * euclidean, squared.shape[1])
    if euclidean and not sparse and count:
        near = np.argpartition(squared, count - 1, axis=1)[:, :count]
    else:
        near = np.argsort(squared, axis=1, kind="stable")[:, :count]
    distances = np.take_along_axis(squared, near, 1)
    if euclidean:  # products of close rows cancel
        differences = part[np.repeat(np.arange(len(near)), count)] - block[near.ravel()]
        exact = _squares(differences).reshape(near.shape)
        distances = np.where(np.isinf(distances), np.inf, exact)
    if euclidean and count < squared.shape[1]:  # more candidates where bounds leave some in doubt
        limits = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        for row in np.flatnonzero((np.maximum(squared, 0.0) < limits).sum(axis=1) > count):
            others = np.flatnonzero(squared[row] < limits[row])
            exact = _squares(part[np.full(len(others), row)] - block[others])
            best = np.argsort(exact, kind="stable")[:count]
            near[row], distances[row] = others[best], exact[best]
    return start + near.astype(np.int64), distances


def _squares(rows: Any) -> np.ndarray:
    """Squared lengths of dense or sparse rows."""
    squares = rows.multiply(rows) if scipy.sparse.issparse(rows) else rows * rows
    return np.asarray(squares.sum(axis=1)).ravel()


def own_rows(dataset: Dataset) -> Any:
    """This rank's rows as a data set holds them: an array, or a sparse matrix."""
    return dataset.sparse if isinstance(dataset, SparseDataset) else dataset.values


def square_matrix(dataset: Dataset, what: str) -> Any:
    """This rank's rows of distances or affinities, refused where they are not square."""
    rows, columns = dataset.layout.rows, dataset.layout.columns
    if rows != columns:
        raise InputError(f"precomputed {what} must be a square matrix, not {rows} x {columns}")
    return own_rows(dataset)


def _precomputed(dataset: Dataset, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Neighbors from the distances that the data hold, which are checked first.  Collective."""
    matrix, sparse = square_matrix(dataset, "distances"), isinstance(dataset, SparseDataset)
    lowest = np.asarray(matrix.data if sparse else matrix).min(initial=0.0)
    if max_over_ranks(dataset.comm, float(-lowest)) > 0.0:
        raise InputError("precomputed distances must not be negative")
    if not sparse:
        _check_symmetric(dataset)
    return nearest_given(dataset, k, np.arange(dataset.layout.local_rows))


def nearest_given(dataset: Dataset, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`nearest_by`, of these own rows, by the distances of the data.  Collective."""
    layout = dataset.layout
    if not isinstance(dataset, SparseDataset):
        numbers, squared = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
        for place, row in enumerate(rows):  # one at a time: a copy of the matrix may not fit
            apart = dataset.values[row].astype(float) ** 2
            apart[layout.start + row] = np.inf
            numbers[place] = np.argsort(apart, kind="stable")[:k]
            squared[place] = apart[numbers[place]]
        return numbers, squared
    matrix = scipy.sparse.csr_matrix(dataset.sparse)[rows]
    places = np.repeat(np.arange(len(rows)), np.diff(matrix.indptr))
    others = matrix.indices != layout.start + rows[places]
    places, columns, squared = places[others], matrix.indices[others], matrix.data[others] ** 2
    counts = np.bincount(places, minlength=len(rows))
    fewest = -max_over_ranks(layout.comm, float(-counts.min(initial=layout.rows)))
    k = int(min(k, fewest))
    if fewest < 2:
        raise InputError(
            "each row of a sparse matrix of distances must hold those to at least 2 other points"
        )
    order = np.lexsort((columns, squared, places))
    chosen = order[((np.cumsum(counts) - counts)[:, None] + np.arange(k)).ravel()]
    return columns[chosen].astype(np.int64).reshape(-1, k), squared[chosen].reshape(-1, k)


def _check_symmetric(dataset: Dataset) -> None:
    """Refuse a dense matrix that differs from its transpose, or has a diagonal.  Collective."""
    layout, values = dataset.layout, np.asarray(dataset.values)
    limit = ROUNDING * max_over_ranks(layout.comm, float(values.max(initial=0.0)))
    own = layout.gather_rows(np.array(np.diagonal(values, layout.start), dtype=float))
    row = int(own.argmax())
    if own[row] > limit:
        raise InputError(
            f"precomputed distances must have a zero diagonal, but row {row} (counted from 0) has "
            f"the distance {own[row]:.6g} to itself; set the diagonal to 0"
        )
    differences = np.zeros(layout.local_rows)
    for start, block in _blocks(dataset):
        back = block[:, layout.start : layout.stop].T
        apart = np.abs(np.subtract(values[:, start : start + len(block)], back, dtype=float))
        differences = np.maximum(differences, apart.max(axis=1, initial=0.0))
    differences = layout.gather_rows(differences)
    row = int(differences.argmax())
    if differences[row] > limit:
        raise InputError(
            f"precomputed distances must be symmetric, but row {row} (counted from 0) differs from "
            f"its column by {differences[row]:.6g}; give (D + D.T) / 2, or D + D.T if D holds one "
            "triangle only"
        )
