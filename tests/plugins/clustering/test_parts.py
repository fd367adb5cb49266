"""Eigen-solvers, k-means and the agreement of labels, each against a reference."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg_clustering.agreement import compare_labelings, normalized_mutual_information
from thalweg_clustering.kernels import kernel_function
from thalweg_clustering.kmeans import kmeans
from thalweg_clustering.leading_subspace import dense_leading, iterative_leading
from thalweg_clustering.least_curvature import least_curvature
from thalweg_clustering.prepared_data import median_distance
from thalweg_clustering.settings import Settings
from thalweg_clustering.stiefel import smallest_eigenvectors
from thalweg_clustering.tuning import tightness_and_balance, tune


def _matrix(d, seed=0):
    stream = np.random.default_rng(seed)
    q = np.linalg.qr(stream.standard_normal((d, d)))[0]
    return (q * np.concatenate([[-5.0, -4.0, -3.0], stream.uniform(0, 2, d - 3)])) @ q.T, q[:, :3]


@pytest.mark.ranks(1, 2, 3)
def test_leading_subspace_by_products_equals_lapack(comm):
    matrix, wanted = _matrix(90)
    least = smallest_eigenvectors(matrix, 3)
    np.testing.assert_allclose(np.abs(least.T @ wanted), np.eye(3), atol=1e-6)
    np.testing.assert_allclose(least.T @ matrix @ least, np.diag([-5.0, -4.0, -3.0]), atol=1e-8)
    layout = Layout(comm, 90)
    rows = -layout.local(matrix)
    exact = dense_leading(layout, np.ascontiguousarray(rows), 3)
    start = layout.with_columns(6).random_normal(0)
    found = iterative_leading(
        layout, lambda block: rows @ layout.gather_rows(block), start, 3, 1e-9, 200
    )
    np.testing.assert_allclose(found.values[:3], [5.0, 4.0, 3.0], atol=1e-8)
    np.testing.assert_allclose(found.values, exact.values, atol=1e-3)
    a, b = layout.gather_rows(found.vectors), layout.gather_rows(exact.vectors)
    np.testing.assert_allclose(np.abs(a.T @ b), np.eye(3), atol=1e-6)


@pytest.mark.ranks(1, 2, 3)
def test_kmeans_finds_the_clusters_on_any_ranks(comm):
    stream = np.random.default_rng(0)
    centers = stream.standard_normal((5, 3)) * 30
    truth = np.sort(stream.integers(0, 5, 203))
    points = centers[truth] + stream.standard_normal((203, 3))
    layout = Layout(comm, 203)
    found = kmeans(layout, layout.local(points), 5, seed=1)
    reference = KMeans(5, n_init=10, random_state=0).fit(points)
    assert found.inertia == pytest.approx(reference.inertia_, rel=1e-6)
    np.testing.assert_array_equal(layout.gather_rows(found.labels), truth)
    starts = kmeans(layout, layout.local(points), 8, starts=1, iterations=0).centers
    alone = kmeans(Layout(MPI.COMM_SELF, 203), points, 8, starts=1, iterations=0).centers
    np.testing.assert_array_equal(starts, alone)


@pytest.mark.ranks(1, 3)
def test_median_distance_is_that_of_all_pairs(comm):
    for rows in (2, 3, 4, 50):  # numbers of pairs odd and even
        points = np.random.default_rng(rows).standard_normal((rows, 3))
        layout = Layout(comm, rows, 3)
        found = median_distance(layout, layout.local(points))
        assert found**2 == pytest.approx(np.median(pdist(points, "sqeuclidean")), rel=1e-12)
    points[:45] = points[0]  # most distances are zero: those do not count
    found = median_distance(layout, layout.local(points))
    squares = pdist(points, "sqeuclidean")
    assert found**2 == pytest.approx(np.median(squares[squares > 0]), rel=1e-7)
    assert median_distance(Layout(comm, 1, 3), layout.local(points)[: 1 - comm.rank]) == 0.0


def test_clusters_are_as_tight_as_they_explain_the_variance():
    angles = np.array([0.1, 0.3, 0.1, 0.3])
    rows = 7.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for labels, wanted in (([0, 1, 0, 1], (1, 1)), ([0, 0, 1, 1], (0, 1)), ([0] * 4, (0, 0))):
        assert tightness_and_balance(rows, np.array(labels), 2) == pytest.approx(wanted, abs=1e-12)


def test_the_score_by_which_a_width_is_chosen_falls_with_what_is_known(views):
    points, given, _ = views(60)
    layout, wide = Layout(MPI.COMM_SELF, 60, 4), points * [1.0, 1.0, 10.0, 10.0]
    common = {"task": "alternative", "seed": 0}
    settings = Settings(layout, wide, [given], -1.0, 2, kernel_function("gaussian"), None, common)
    chosen = tune(settings, 2)
    found = replace(settings, weight=-chosen.penalty).solved(chosen.sigma, 2)
    tightness, balance = tightness_and_balance(found["embedding"], found["labels"], 2)
    novelty = found["measures"]["novelty"]
    assert novelty > 1e-3
    assert chosen.score == pytest.approx(tightness * balance * (1.0 - novelty), rel=1e-9)


def test_mutual_information_equals_the_reference():
    stream = np.random.default_rng(0)
    for count in (2, 5):
        a, b = stream.integers(0, count, (2, 300))
        expected = normalized_mutual_info_score(a, b, average_method="geometric")
        assert normalized_mutual_information(a, b) == pytest.approx(expected)
    assert normalized_mutual_information(a, (a + 1) % 5) == pytest.approx(1.0)
    assert normalized_mutual_information(np.zeros(9), np.arange(9) % 2) == 0.0


@pytest.mark.ranks(1, 2)
def test_the_dense_eigensolver_finds_all_wanted_where_very_many_are_equal(comm):
    matrix = np.eye(60) - 1.0 / 60
    layout = Layout(comm, 60, 60)
    found = dense_leading(layout, layout.local(matrix).copy(), 1)
    assert found.vectors.shape == (layout.local_rows, 1)
    np.testing.assert_allclose(found.values, 1.0, rtol=1e-12)


def across(w):
    """Orthonormal basis of the Z with W'Z = 0, shape ``(size, d, q)``."""
    rest = np.linalg.qr(np.hstack([w, np.eye(len(w))]))[0][:, w.shape[1] : len(w)]
    return np.array([np.outer(r, c) for r in rest.T for c in np.eye(w.shape[1])])


@pytest.mark.ranks(1, 2)
def test_the_least_curvature_is_that_of_the_lagrangian_on_subspaces(comm, terms):
    stream = np.random.default_rng(1)
    gamma, factors = stream.standard_normal(40), stream.standard_normal((40, 14, 2))
    objective = terms(comm, gamma, factors, 2.0, 3)
    w = np.linalg.qr(stream.standard_normal((14, 3)))[0]
    phi = objective.fixed_point_matrix(w)
    basis, step = across(w), 1e-5
    hessian = []
    for z in basis:
        after, before = (objective.value_and_gradient(w + h * z)[1] for h in (step, -step))
        hessian.append((after - before) / (2 * step) - z @ w.T @ phi @ w)
    least = np.linalg.eigvalsh(np.einsum("adq,bdq->ab", basis, hessian))[0]
    assert least_curvature(objective, w, phi) == pytest.approx(least, abs=1e-6 * np.abs(phi).max())


def test_a_saddle_has_negative_curvature_and_a_minimum_has_not(cycling_terms):
    objective = cycling_terms(sigma=20.0)  # Phi hardly depends on W: the iteration contracts
    signs = []
    for columns in ([0, 1], [0, 2]):
        w = objective.initial_point(0)
        for _ in range(50):
            w = np.linalg.eigh(objective.fixed_point_matrix(w))[1][:, columns]
        phi = objective.fixed_point_matrix(w)
        assert np.linalg.norm(phi @ w - w @ (w.T @ phi @ w)) < 1e-9 * np.linalg.norm(phi)
        signs.append(np.sign(least_curvature(objective, w, phi)))
    assert signs == [1.0, -1.0]


def test_scores_of_several_labelings_are_counted_pair_by_pair():
    stream = np.random.default_rng(2)
    true, found = stream.integers(0, 3, (40, 2)), stream.integers(0, 4, (40, 3))
    found[:, 0] = true[:, 1]
    scores = compare_labelings(true, found)
    table = [[normalized_mutual_info_score(a, b) for b in found.T] for a in true.T]
    np.testing.assert_allclose(scores["table"], table)
    assert scores["best"] == pytest.approx(np.mean(np.max(table, axis=1)))
    best = max(sum(scores["table"][[0, 1], list(pair)]) / 2 for pair in permutations(range(3), 2))
    assert scores["matched"] == pytest.approx(best)
    a, b = np.triu_indices(40, 1)
    truth, guess = ((part[a] == part[b]).any(axis=1) for part in (true, found))
    both, either = (truth & guess).sum(), (truth | guess).sum()
    pairs = [scores[name] for name in ("precision", "recall", "f1", "rand", "jaccard")]
    f1 = 2 * both / (truth.sum() + guess.sum())
    wanted = [both / guess.sum(), both / truth.sum(), f1, (truth == guess).mean(), both / either]
    assert pairs == pytest.approx(wanted)
    # What has one cluster says nothing; of nothing found all is missed.
    beside = [*found.T, np.zeros(40, int), np.array([-1, *[7] * 39])]
    assert compare_labelings(list(true.T), beside)["jaccard"] == scores["jaccard"]
    assert compare_labelings(true, np.zeros((40, 0)))["recall"] == 0.0
    many = compare_labelings(np.tile(true, 20), np.tile(found, 20))
    assert [many[name] for name in ("precision", "recall", "f1", "rand", "jaccard")] == pairs
    with pytest.raises(InputError, match="one label per row"):
        compare_labelings(true, found[1:])
