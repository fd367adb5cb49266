"""Laplacian eigenmaps and LLE: eigenvectors by every method, at any rank count."""

import importlib.util
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.manifold import LocallyLinearEmbedding as Reference
from sklearn.manifold._locally_linear import barycenter_weights
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError, NumericalError
from thalweg.parallel import Layout
from thalweg.result import Status
from thalweg.testing import check_gradient
from thalweg_embedding import LaplacianEigenmaps, LocallyLinearEmbedding
from thalweg_embedding.affinities.row_affinities import entropic_rows
from thalweg_embedding.eigenmaps import eigen_solver, neighbor_graph
from thalweg_embedding.eigenmaps.eigen_solver import Eigen
from thalweg_embedding.eigenmaps.eigenmaps_from_data import (
    laplacian_eigenmaps,
    locally_linear_embedding,
)
from thalweg_embedding.eigenmaps.eigenvector_embedding import signed
from thalweg_embedding.eigenmaps.neighbor_graph import nearest_pairs

BUILDERS = {"laplacian-eigenmaps": laplacian_eigenmaps, "lle": locally_linear_embedding}
HAS_SLEPC = importlib.util.find_spec("slepc4py") is not None
SLEPC = pytest.param("slepc", marks=pytest.mark.skipif(not HAS_SLEPC, reason="needs slepc4py"))
every_method = pytest.mark.parametrize("method", ["auto", "dense", SLEPC, "arpack"])
every_problem = pytest.mark.parametrize("name", BUILDERS)


def roll(comm, rows=211):
    return Dataset.from_array(make_swiss_roll(rows, random_state=0)[0], comm=comm)


@pytest.mark.ranks(1, 3)
@every_problem
@every_method
@pytest.mark.parametrize("points", ["roll", "clusters"])
def test_eigenvectors_are_those_of_a_dense_solver(comm, name, method, points, monkeypatch):
    monkeypatch.setattr(eigen_solver, "DENSE_ROWS", 100)
    # Clusters in a row, connected by one pair each, have as many eigenvalues near zero.
    dataset = clusters(comm, 240, 12) if points == "clusters" else roll(comm)
    objective = BUILDERS[name](dataset, comm, dimensions=3)
    check_gradient(objective, objective.initial_point(0))
    result = thalweg.minimize(objective, solver="eigen", method=method)
    layout = objective.layout
    matrix = layout.gather_rows(objective.matrix.toarray())
    np.testing.assert_allclose(matrix @ layout.gather_rows(objective.null_vector), 0.0, atol=1e-12)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(0, 3))
    found = layout.gather_rows(result.x)
    residual = matrix @ found - found * np.diag(found.T @ matrix @ found)
    limit = 1e-9 * values[1:] + 1e-15 * len(matrix) * np.abs(matrix).sum(axis=1).max()
    assert (np.linalg.norm(residual, axis=0) <= limit).all()
    assert result.objective == pytest.approx(2 * values[1:].sum(), rel=1e-7, abs=1e-12)
    np.testing.assert_allclose(np.linalg.svd(vectors[:, 1:].T @ found)[1], 1.0, atol=1e-6)
    assert result.status.converged
    assert not any("residual" in note for note in result.notes)


@every_method
def test_eigenvectors_of_equal_eigenvalues_are_found(comm, method, monkeypatch):
    monkeypatch.setattr(eigen_solver, "DENSE_ROWS", 100)
    # Of a binary tree, and of cliques that are tied to one point.
    ends = np.arange(1, 511), np.arange(510) // 2
    tree = scipy.sparse.csr_matrix((np.ones(510), ends), (511, 511))
    cliques = scipy.sparse.block_diag([np.ones((25, 25)) - np.eye(25)] * 12)
    hub = np.where(np.arange(300) % 25 == 0, 1.0, 0.0)[None]
    star = scipy.sparse.bmat([[cliques, hub.T], [hub, None]], "csr")
    for graph, count in ((tree + tree.T, 6), (star, 11)):
        rows = Dataset.from_array(np.empty((graph.shape[0], 0)), comm=comm)
        options = {"affinity": "precomputed", "weights": graph / graph.sum(), "dimensions": count}
        objective = laplacian_eigenmaps(rows, comm, **options)
        result = thalweg.minimize(objective, solver="eigen", method=method)
        total = 2 * np.linalg.eigvalsh(objective.matrix.toarray())[1 : count + 1].sum()
        assert result.objective == pytest.approx(total, rel=1e-9)


@pytest.mark.ranks(1, 2)
@every_method
def test_a_large_residual_is_no_convergence(comm, method, monkeypatch):
    objective = laplacian_eigenmaps(clusters(comm, 240, 12), comm)
    solve = Eigen._alone
    monkeypatch.setattr(Eigen, "_alone", lambda *given: turned(solve(*given)))
    result = thalweg.minimize(objective, solver="eigen", method=method)
    assert result.status is Status.TARGET_NOT_REACHED
    assert "times the residual that tolerance = 1e-09 allows" in result.notes[-1]


@pytest.mark.ranks(1, 2)
def test_an_eigensolver_that_fails_is_named_with_what_helps(comm, monkeypatch):
    error = scipy.sparse.linalg.ArpackNoConvergence("none", [], [])
    monkeypatch.setattr(scipy.sparse.linalg, "eigsh", Mock(side_effect=error))
    with pytest.raises(NumericalError, match="'dense', or remove rows that equal others"):
        thalweg.minimize(laplacian_eigenmaps(roll(comm), comm), solver="eigen", method="arpack")


def turned(vectors):
    """The first column, 1e-5 off."""
    vectors = vectors.copy()
    vectors[:, 0] += 1e-5 * np.cos(7.0 * np.arange(len(vectors))) / np.sqrt(len(vectors))
    return vectors


def test_lle_agrees_with_scikit_learn():
    points = make_swiss_roll(300, random_state=0)[0]
    ours = LocallyLinearEmbedding(n_neighbors=12).fit_transform(points)
    theirs = Reference(n_neighbors=12, eigen_solver="dense").fit_transform(points)
    np.testing.assert_allclose(np.abs(np.linalg.svd(ours.T @ theirs)[1]), 1.0, atol=1e-5)


def clusters(comm, rows, count=2):
    points = np.random.default_rng(0).normal(size=(rows, 3))
    points[:, 0] += 100.0 * np.sort(np.arange(rows) % count) ** 1.1
    return Dataset.from_array(points, comm=comm)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("decimals", [0, 6])
def test_components_are_connected_by_a_minimum_spanning_tree(comm, decimals):
    points = clusters(comm, 60, 5).values.round(decimals)  # rounded to integers, distances repeat
    layout = Layout(comm, 60)
    labels = (np.arange(60) // 4)[layout.start : layout.stop]  # not what lies together
    pairs = nearest_pairs(layout, points, 15, labels)
    assert pairs.shape == (14, 2)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    whole = layout.gather_rows(points)
    distances = 1.0 + cdist(whole, whole)
    distances[np.arange(60)[:, None] // 4 == np.arange(60) // 4] = 0.1
    tree = minimum_spanning_tree(distances)
    assert (tree.data >= 1.0).sum() == 14
    lengths = np.linalg.norm(whole[pairs[:, 0]] - whole[pairs[:, 1]], axis=1)
    np.testing.assert_allclose(np.sort(lengths), np.sort(tree.data)[-14:] - 1.0, rtol=1e-12)


@pytest.mark.ranks(1, 2, 3)
@every_problem
def test_nearest_pairs_alone_connect_clusters(comm, name):
    dataset = clusters(comm, 60, 3)
    objective = BUILDERS[name](dataset, comm, n_neighbors=5)
    result = thalweg.minimize(objective, solver="eigen")
    assert result.metrics["components"] == 3
    kind = LocallyLinearEmbedding if name == "lle" else LaplacianEigenmaps
    for notes in (result.notes, kind(n_neighbors=5).fit(dataset).notes_):
        assert any("has 3 components" in note for note in notes)
    if name == "lle":
        return
    edges = dataset.layout.gather_rows(objective.matrix.toarray()) != 0.0
    points = dataset.layout.gather_rows(dataset.values)
    between = np.argwhere(np.triu(edges) & (cdist(points, points) > 50.0))
    assert len(between) == 2
    np.testing.assert_array_equal(between // 20, [[0, 1], [1, 2]])
    assert edges.sum(axis=1).max() <= 1 + 5 * 4


def test_given_weights_in_pieces_are_refused(comm):
    weights = np.kron(np.eye(2), np.ones((5, 5)) - np.eye(5))
    with pytest.raises(InputError, match="has 2 components") as refusal:
        laplacian_eigenmaps(Dataset.from_array(weights), comm, affinity="precomputed")
    assert "connect the pieces" in str(refusal.value)
    assert "perplexity" not in str(refusal.value)


ENTROPIC = {"affinity": "entropic", "perplexity": 8.0}
EXTENDED = {
    "neighbors": (LaplacianEigenmaps, {}),
    "unnormalized": (LaplacianEigenmaps, {"normalized": False, "n_neighbors": 7}),
    "entropic": (LaplacianEigenmaps, ENTROPIC),
    "unnormalized entropic": (LaplacianEigenmaps, {**ENTROPIC, "normalized": False}),
    "few": (LaplacianEigenmaps, {"n_neighbors": 2}),
    "lle": (LocallyLinearEmbedding, {}),
}
every_extension = pytest.mark.parametrize("name", EXTENDED)


@pytest.mark.ranks(1, 2, 3)
@every_extension
@pytest.mark.parametrize("distance", [0.0, 1e-9])
def test_new_rows_near_fitted_ones_get_places_near_theirs(comm, name, distance):
    data = roll(comm, 120)
    kind, options = EXTENDED[name]
    model = kind(**options).fit(data)
    noise = distance * np.random.default_rng(0).normal(size=(120, 3))
    new = data.layout.gather_rows(data.values) + noise
    counts = {1: [120], 2: [0, 120], 3: [70, 0, 50]}[comm.size]
    first = sum(counts[: comm.rank])
    part = slice(first, first + counts[comm.rank])
    whole = data.layout.gather_rows(model.embedding_)
    extent = np.ptp(whole, axis=0).max()
    found = model.transform(new[part])
    assert found.shape == (counts[comm.rank], 2)
    np.testing.assert_allclose(found, whole[part], atol=1e-8 * extent)


@every_extension
def test_new_rows_are_placed_by_the_formula(name, monkeypatch):
    known = make_swiss_roll(150, random_state=0)[0]
    new = make_swiss_roll(20, random_state=1)[0]
    kind, options = EXTENDED[name]
    model = kind(**options).fit(known)
    found = model.transform(new)
    monkeypatch.setattr(neighbor_graph, "BLOCK", 500)
    np.testing.assert_allclose(model.transform(new), found, rtol=1e-12)
    degree = {"unnormalized": 7.0, "unnormalized entropic": 1.0 / 150}.get(name, 1.0)
    gap = 1.0 - model.eigenvalues_ / degree
    of_perplexity = "perplexity" in options
    k = 24 if of_perplexity else 12 if name == "lle" else options.get("n_neighbors", 10)
    for x, place in zip(new, found, strict=True):
        distances = np.linalg.norm(known - x, axis=1)
        near = np.argsort(distances)[: max(k, 3)]
        r, places = distances[near], model.embedding_[near]
        if name == "lle":
            formula = barycenter_weights(x[None], known, near[None]) @ places
        else:
            weights = entropic_rows(r[None] ** 2, 8.0)[0] if of_perplexity else np.ones(k) / k
            formula = weights @ places[:k] / gap
        shepard = ((r[-1] - r) / r) ** 2
        theta = 1.0 / (1.0 + shepard.mean())
        expected = theta * formula + (1.0 - theta) * shepard @ places / shepard.sum()
        np.testing.assert_allclose(place, expected.ravel(), rtol=1e-6)


@pytest.mark.parametrize("normalized", [True, False])
def test_given_weights_of_new_points_to_fitted_ones_place_them(normalized):
    points = make_swiss_roll(60, random_state=0)[0]
    weights = np.exp(-cdist(points, points) / 5.0)
    np.fill_diagonal(weights, 0.0)
    model = LaplacianEigenmaps(affinity="precomputed", normalized=normalized).fit(weights)
    np.testing.assert_allclose(model.transform(weights), model.embedding_, atol=1e-8)
    scale = 2.0**-45 if normalized else 1.0  # y' D y = 1, or y' y = 1
    small = LaplacianEigenmaps(affinity="precomputed", normalized=normalized)
    small = scale * small.fit_transform(weights * 2.0**-90)
    np.testing.assert_allclose(small, model.embedding_, atol=1e-8)
    with pytest.raises(InputError, match="0 or more, and some positive"):
        model.transform(np.zeros((1, 60)))


@pytest.mark.parametrize("kind", [LaplacianEigenmaps, LocallyLinearEmbedding])
def test_a_pipeline_goes_on_from_the_map(kind):
    digits, labels = load_digits(n_class=3, return_X_y=True)
    embed = kind(4, n_jobs=np.int64(1), random_state=np.random.default_rng(0))
    model = make_pipeline(embed, KNeighborsClassifier()).fit(digits[:300], labels[:300])
    assert model.score(digits[300:], labels[300:]) > 0.95
    assert not hasattr(kind(keep_data=False), "transform")


@pytest.mark.ranks(1, 2)
def test_the_first_of_the_largest_entries_of_a_column_is_positive(comm):
    layout = Layout(comm, 3, 4)
    columns = np.array(
        [[0.1, -0.1, 0.5, -0.5], [-0.9, 0.9, 0.1, 0.1], [0.2, 0.2, -0.5 - 1e-9, 0.5 + 1e-9]]
    )
    expected = columns * [-1.0, 1.0, 1.0, -1.0]
    np.testing.assert_array_equal(signed(layout, layout.local(columns)), layout.local(expected))
