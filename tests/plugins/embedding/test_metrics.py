"""Affinities and new points in any metric, of dense, sparse and precomputed rows."""

import pickle
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.numerics import principal_components
from thalweg.parallel import MPI, Layout
from thalweg_embedding import TSNE, NeighborsTransformer
from thalweg_embedding.affinities.affinities_from_data import affinities_of
from thalweg_embedding.affinities.distances import SparseDataset, nearest_by, nearest_given

POINTS = load_digits().data[:120]
SKEW = np.triu(1.0 - np.eye(9)) + 4.0 * np.eye(9)[:, ::-1] * (np.arange(9) > 6)
LOOP = np.diag([0.0] * 7 + [0.5, 0.0]) + 1.0 - np.eye(9)


def brute_force(points, metric, k):
    distances = cdist(points, points, metric)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, 1) ** 2


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "correlation", "cityblock", "chebyshev"])
def test_neighbors_are_those_of_the_metric(comm, metric):
    parts = [*np.array_split(POINTS, max(1, comm.size - 1)), POINTS[:0]]  # the last of 3 has none
    layout = Layout(comm, *POINTS.shape, local_rows=len(parts[comm.rank]))
    data = Dataset(parts[comm.rank], layout)
    _, squared = nearest_by(data, 7, metric)
    expected = brute_force(POINTS, metric, 7)[1]
    np.testing.assert_allclose(data.layout.gather_rows(squared), expected, rtol=1e-9, atol=1e-14)
    if metric == "correlation":  # which no offset changes
        _, squared = nearest_by(Dataset(parts[comm.rank] + 2.0**28, layout), 7, metric)
        np.testing.assert_allclose(data.layout.gather_rows(squared), expected, rtol=1e-5, atol=1e-9)


def test_rows_without_a_count_lie_together():
    rows = np.maximum(POINTS, 0.0)
    rows[[3, 40]] = 0.0  # SciPy's distance of the two is 0 / 0
    indices, squared = nearest_by(Dataset.from_array(rows), 5, "braycurtis")
    assert (indices[[3, 40], 0].tolist(), squared[3, 0]) == ([40, 3], 0.0)


@pytest.mark.parametrize("short", [1e-170, 1e150])
def test_an_angle_has_no_scale(short):
    rows = POINTS.copy()
    rows[::3] *= short
    sparse = SparseDataset.of(scipy.sparse.csr_matrix(rows))
    for metric in ("cosine", "correlation"):
        expected = brute_force(POINTS, metric, 7)[1]
        for data in (Dataset.from_array(rows), *([sparse] if metric == "cosine" else [])):
            np.testing.assert_allclose(nearest_by(data, 7, metric)[1], expected, 1e-9, 1e-14)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_rows_have_the_neighbors_of_dense_ones(comm, metric):
    sparse = SparseDataset.of(scipy.sparse.csr_matrix(POINTS), comm)
    dense = Dataset.from_array(POINTS, comm=comm)
    found, expected = nearest_by(sparse, 6, metric), nearest_by(dense, 6, metric)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-12)
    assert (found[0] == expected[0]).mean() > 0.99  # ties
    # Also where products in single precision have fewer digits than differences.
    single = SparseDataset.of(scipy.sparse.csr_matrix(POINTS.astype(np.float32) + 4096), comm)
    if metric == "euclidean":
        np.testing.assert_array_equal(nearest_by(single, 6, metric)[1], found[1])
        apart = POINTS + 2.0**36 * (np.arange(120)[:, None] % 2)
        alike = Dataset.from_array(apart, comm=comm)
        apart = SparseDataset.of(scipy.sparse.csr_matrix(apart), comm)
        np.testing.assert_array_equal(nearest_by(apart, 6)[1], nearest_by(alike, 6)[1])
    with pytest.raises(InputError, match="too small to square"):
        SparseDataset.of(scipy.sparse.csr_matrix(1e-170 * POINTS), comm)
    leading = principal_components(sparse.sparse, sparse.layout, 2)
    wanted = principal_components(dense.values, dense.layout, 2)
    np.testing.assert_allclose(leading, wanted, rtol=1e-5, atol=1e-4)


class Descent(BaseEstimator):  # as pynndescent has one, importing which compiles for long
    def __init__(self, n_neighbors=30, metric="hellinger", random_state=None, lost=0):
        self.n_neighbors, self.metric, self.random_state = n_neighbors, metric, random_state
        self.lost = lost

    def fit_transform(self, rows):
        root = np.sqrt(rows / rows.sum(axis=1, keepdims=True))
        graph = kneighbors_graph(root, self.n_neighbors, mode="distance").astype(np.float32)
        graph.indices[: self.lost] = -1  # as it marks neighbors that it did not find
        return graph


@pytest.mark.ranks(1, 3)
def test_a_transformer_finds_the_neighbors(comm, monkeypatch):
    library = ModuleType("pynndescent")
    library.__spec__ = ModuleSpec("pynndescent", None)
    library.PyNNDescentTransformer = Descent
    monkeypatch.setitem(sys.modules, "pynndescent", library)
    positive = np.abs(POINTS) + 1.0
    root = np.sqrt(positive / positive.sum(axis=1, keepdims=True))
    own = KNeighborsTransformer(metric="cosine")
    sparse = SparseDataset.of(scipy.sparse.csr_matrix(positive), comm)
    dense = Dataset.from_array(positive, comm=comm)
    for data, metric, search, rows, distance in (
        (dense, "hellinger", "exact", root, "euclidean"),  # which pynndescent alone knows
        (dense, "cosine", own, positive, "cosine"),
        (sparse, "cosine", own, positive, "cosine"),
    ):
        indices, squared = map(data.layout.gather_rows, nearest_by(data, 5, metric, search))
        assert (indices != np.arange(len(POINTS))[:, None]).all()
        expected = brute_force(rows, distance, 5)[1]
        np.testing.assert_allclose(squared, expected, rtol=1e-3, atol=1e-12)
    for search, words in (
        (Descent(lost=1), "finite distances of 5 neighbors of each of 120 rows"),
        (own, "has metric 'cosine', and the map 'hellinger'; give both the same"),
        (KNeighborsTransformer(metric="hellinger", mode="connectivity"), "with mode = 'distance'"),
        (3, "'exact', 'approximate' or a transformer, .* not 3"),
    ):
        with pytest.raises(InputError, match=words):
            nearest_by(dense, 5, "hellinger", search)


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix, np.float32])
def test_our_search_is_a_transformer_of_scikit_learn(form, mode):
    rows = form(np.random.default_rng(0).normal(size=(90, 5)))
    kinds = KNeighborsTransformer, NeighborsTransformer
    theirs, ours = (kind(n_neighbors=7, mode=mode) for kind in kinds)
    for method in ("fit_transform", "transform"):
        graph, wanted = (getattr(model, method)(rows) for model in (ours, theirs))
        np.testing.assert_array_equal(graph.indices, wanted.indices)
        np.testing.assert_allclose(graph.data, wanted.data, atol=1e-6)
    for wrong in ({"neighbor_search": "approx"}, {"neighbor_search": "exact", "n_neighbors": 91}):
        with pytest.raises(InputError, match="and n_neighbors less than the 90 fitted rows"):
            ours.set_params(**wrong).fit_transform(rows)
    with pytest.raises(InputError, match="less than the 90 fitted rows, not 'exact' and 90"):
        ours.kneighbors(None, 90)


@pytest.mark.parametrize("kind", [np.uint8, np.float16])
def test_directions_of_bytes_and_half_numbers_are_in_single_precision(kind):
    fitted, new = POINTS[:80].astype(kind), POINTS[80:].astype(kind)
    model = NeighborsTransformer(n_neighbors=7, metric="cosine").fit(fitted)
    model.set_params(metric="l1")  # for the next fit
    expected = np.sort(cdist(POINTS[80:], POINTS[:80], "cosine"), axis=1)[:, :7]
    np.testing.assert_allclose(model.kneighbors(new)[0], expected, rtol=1e-5)
    data = Dataset(POINTS[:80].astype(np.uint8), Layout(MPI.COMM_SELF, 80, 64))
    expected = brute_force(POINTS[:80], "cosine", 7)[1]
    np.testing.assert_allclose(nearest_by(data, 7, "cosine")[1], expected, rtol=1e-5)


def test_rows_without_distances_are_refused():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    for factor in (1e-200, 1e160):
        for form in (np.asarray, scipy.sparse.csr_matrix):
            with pytest.raises(InputError, match="to square"):
                NeighborsTransformer().fit_transform(form(factor * rows))
        with pytest.raises(InputError, match="to square"):
            NeighborsTransformer().fit(rows).kneighbors(factor * rows)
    with pytest.raises(InputError, match="must be real numbers, not datetime64"):
        NeighborsTransformer().fit_transform(rows.astype("datetime64[s]"))


@pytest.mark.ranks(1, 2)
def test_given_distances_of_some_rows_are_those_of_all(comm):
    graph = kneighbors_graph(POINTS, 9, mode="distance", include_self=True)
    for data in (
        Dataset.from_array(cdist(POINTS, POINTS), comm=comm), SparseDataset.of(graph, comm)
    ):  # fmt: skip
        whole, rows = nearest_by(data, 5, "precomputed"), np.arange(1, data.layout.local_rows, 3)
        for found, wanted in zip(nearest_given(data, 5, rows), whole, strict=True):
            np.testing.assert_array_equal(found, wanted[rows])


def test_what_does_not_fit_is_refused_and_what_has_no_effect_is_noted():
    options = {"perplexity": 5.0, "max_iter": 3}
    with pytest.raises(InputError, match="another p than 2"):
        TSNE(neighbor_search=KNeighborsTransformer(p=1), **options).fit(POINTS)
    model = TSNE(metric="precomputed", **options).fit(kneighbors_graph(POINTS, 15))
    assert any("as in a graph of connectivity" in note for note in model.notes_)
    with pytest.raises(InputError, match="both given"):
        TSNE(perplexities=[5.0, 10.0], **options).fit(POINTS)
    uniform = {"perplexity": 7.0, "affinity": "uniform"}
    for options, name in ((uniform, "perplexity"), ({"n_neighbors": 7}, "n_neighbors")):
        notes = TSNE(max_iter=3, **options).fit(POINTS).notes_
        assert any(note.startswith(f"{name} has no effect") for note in notes)
    assert not any("no effect" in note for note in TSNE(max_iter=3).fit(POINTS).notes_)


@pytest.mark.parametrize("metric", ["precomputed", "neighbors", "transformer"])
def test_precomputed_distances_give_the_map_of_the_points(metric):
    chosen = {"perplexity": 8.0, "init": "random", "random_state": 0, "max_iter": 15}
    graph = "auto" if metric == "precomputed" else "sparse"
    reference = TSNE(graph=graph, **chosen).fit(POINTS)
    expected = reference.embedding_
    distances = cdist(POINTS, POINTS)
    if metric == "neighbors":
        distances = kneighbors_graph(POINTS, 24, mode="distance")
    found = TSNE(metric="precomputed", graph=graph, **chosen)
    if metric == "transformer":
        distances = POINTS
        found.set_params(metric="euclidean", neighbor_search=KNeighborsTransformer(), graph="auto")
    found = pickle.loads(pickle.dumps(found.fit(distances)))
    np.testing.assert_allclose(found.embedding_, expected, atol=1e-4 * np.abs(expected).max())
    if metric == "precomputed":
        new = POINTS[:9] + np.random.default_rng(0).normal(size=(9, 64))
        placed = found.transform(cdist(new, POINTS))
        np.testing.assert_allclose(placed, reference.transform(new), atol=1e-3)


@pytest.mark.parametrize("metric", ["cosine", "manhattan", "minkowski", "linf"])
def test_new_points_are_placed_by_the_metric(metric):
    fitted = TSNE(perplexity=8.0, metric=metric, max_iter=30, random_state=0).fit(POINTS[:100])
    np.testing.assert_array_equal(fitted.transform(POINTS[:100]), fitted.embedding_)
    # Cosines do not see lengths.
    if metric == "cosine":
        longer = fitted.transform(3.0 * POINTS[100:])
        np.testing.assert_allclose(longer, fitted.transform(POINTS[100:]), atol=1e-6)
    options = replace(fitted._placed.options, metric="hellinger")
    fitted._placed = replace(fitted._placed, options=options)
    with pytest.raises(InputError, match="cannot be placed by metric 'hellinger'"):
        fitted.transform(POINTS[:2])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("metric", ["cosine", "correlation"])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_without_a_direction_are_orthogonal_to_all_others(comm, metric, sparse):
    if sparse and metric == "correlation":
        pytest.skip("sparse rows have no correlation")
    rows = np.vstack([POINTS[:20], 0 * POINTS[:2] + (3 if metric == "correlation" else 0)])
    build = SparseDataset.of if sparse else Dataset.from_array
    notes = []
    data = build(scipy.sparse.csr_matrix(rows) if sparse else rows, comm=comm)
    numbers, squared = nearest_by(data, 21, metric, note=notes.append)
    assert any("2 of the rows are" in note and "alike and as orthogonal" in note for note in notes)
    distances = np.full((data.layout.local_rows, 22), np.nan)
    np.put_along_axis(distances, numbers, squared, axis=1)
    alone = np.arange(22) >= 20
    for row, place in zip(distances, range(data.layout.start, data.layout.stop), strict=True):
        np.testing.assert_allclose(row[alone if place < 20 else ~alone], 1.0, atol=1e-6)
        np.testing.assert_allclose(row[41 - place :][: place >= 20], 0.0, atol=1e-6)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("rows", "metric", "words"),
    [
        (POINTS[:20], "precomputed", "must be a square matrix, not 20 x 64"),
        (-np.ones((20, 20)), "precomputed", "must not be negative"),
        (SKEW, "precomputed", r"row 0 \(counted from 0\) differs .* by 5; give \(D \+ D.T\)"),
        (LOOP, "precomputed", r"row 7 \(counted from 0\) has the distance 0.5 .* diagonal to 0"),
        (POINTS[:20], "euclidan", "unknown metric 'euclidan'; did you mean 'euclidean'"),
    ],
)
def test_what_a_metric_cannot_have_is_told(comm, monkeypatch, rows, metric, words):
    monkeypatch.setitem(sys.modules, "pynndescent", None)  # a wrong name needs no import
    with pytest.raises(InputError, match=words):
        nearest_by(Dataset.from_array(rows, comm=comm), 4, metric)


def test_a_perplexity_that_the_given_distances_cannot_have_is_said():
    found, sentences = SparseDataset.of(kneighbors_graph(POINTS, 10, mode="distance")), []
    affinities_of(found, perplexity=30, metric="precomputed", note=sentences.append)
    assert len(sentences) == 1
    assert "10 neighbors of a point" in sentences[0]
    assert sentences[0].endswith("the perplexity is 9")
    affinities_of(found, perplexity=5, metric="precomputed", note=sentences.append)
    assert len(sentences) == 1
