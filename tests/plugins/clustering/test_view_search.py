"""The search for a view: what KDAC finds with its defaults, and what it does not make up."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

import thalweg
from thalweg import Dataset
from thalweg_clustering import KDAC
from thalweg_clustering.agreement import normalized_mutual_information as nmi
from thalweg_clustering.alternatives import build_search
from thalweg_clustering.valleys import SEPARATED, chance_without_valley
from thalweg_clustering.view_search import _spans, find_view

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:labels_ is the labeling")]


def _design(rows=300, noise=4, seed=0):
    stream = np.random.default_rng(seed)
    views = [stream.integers(0, k, rows) for k in (2, 3, 2)]
    centers = [[[0.0], [7.0]], [[0, 0], [6, 0], [2, 6.5]], [[0.0], [6.0]]]
    pairs = [(np.array(c), y) for c, y in zip(centers, views, strict=True)]
    parts = [c[y] + stream.standard_normal((rows, c.shape[1])) for c, y in pairs]
    points = np.concatenate([*parts, 2.0 * stream.standard_normal((rows, noise))], axis=1)
    return points * 100.0 ** stream.random(points.shape[1]), views


@pytest.mark.ranks(1, 2)
def test_defaults_find_every_view_among_noise_in_any_scales_and_no_further_one(comm):
    points, views = _design()
    data = Dataset.from_array(points, None, comm)
    model = KDAC(n_alternatives=3, random_state=0).fit(data, views[0])
    found = [data.layout.gather_rows(a.labels) for a in model.alternatives_]
    best = [max(nmi(labels, view) for view in views[1:]) for labels in found]
    assert len(best) == 2
    assert min(best) > 0.9
    assert model.stop_reason_ == "no further subspace was found that shows clusters"
    np.testing.assert_array_equal(model.predict(data), model.labels_)


def test_a_view_is_found_with_all_its_clusters_in_few_rows_of_many_rotated_columns():
    stream = np.random.default_rng(3)
    centers = 6.0 * np.array([[0, 0, 0], [1, 0, 0.3], [0.2, 1, 0], [0.3, 0.2, 1.1]])
    views = stream.integers(0, 4, (3, 400))
    parts = [centers[view] + stream.standard_normal((400, 3)) for view in views]
    points = np.concatenate([*parts, 2.0 * stream.standard_normal((400, 8))], axis=1)
    points = points @ np.linalg.qr(stream.standard_normal((17, 17)))[0]
    found = find_view(points, [views[0]])
    assert found.clusters == 4
    places = (points / found.scale) @ found.components
    places = np.linalg.svd(places - places.mean(axis=0), full_matrices=False)[0]
    labels = KMeans(4, n_init=5, random_state=0).fit_predict(places)
    assert max(nmi(labels, view) for view in views[1:]) > 0.9


def test_of_many_directions_that_depend_the_most_dependent_span_a_view():
    stream = np.random.default_rng(0)
    groups = stream.integers(0, 3, 2000)
    rows = (1.0 + 0.5 * groups[:, None]) * stream.standard_normal((2000, 10))
    rows[:, :2] = 6.0 * np.eye(3, 2)[groups] + stream.standard_normal((2000, 2))
    plane = next(_spans(rows, np.eye(10)[[0, 1] * 3 + list(range(2, 10))]))
    np.testing.assert_allclose(plane @ plane.T, np.diag(np.arange(10.0) < 2), atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_columns_of_few_values_and_two_columns_are_searched_too():
    stream = np.random.default_rng(0)
    given, groups = stream.integers(0, 2, 300), stream.integers(0, 3, 300)
    centers = 7.0 * np.eye(3, 5)[groups] + stream.standard_normal((300, 5))
    binary = stream.integers(0, 2, (300, 8))
    mixed = centers @ np.linalg.qr(stream.standard_normal((5, 5)))[0]
    assert find_view(np.concatenate([mixed, binary], axis=1), [given]) is not None
    assert find_view(centers[:, :2], [given]).clusters == 3


def test_a_small_cluster_is_found_beside_a_large_one():
    stream = np.random.default_rng(2)
    given, small = stream.integers(0, 2, 400), (stream.random(400) < 0.2).astype(int)
    points = stream.standard_normal((400, 6)) + np.outer(given, 7.0 * np.eye(6)[0])
    points += np.outer(small, 6.0 * np.eye(6)[1])
    points[:, 2:4] *= [1e12, 1e-6]  # in other units
    model = KDAC(random_state=0).fit(points, given)
    assert nmi(model.labels_, small) > 0.9
    assert model.feature_weights_.argmax() == 1
    np.testing.assert_array_equal(model.predict(points), model.labels_)


def test_nothing_is_found_where_rows_have_no_structure_but_that_given():
    for seed in range(2):
        given = (stream := np.random.default_rng(seed)).integers(0, 3, 200)
        mixed = stream.standard_normal((200, 8)) @ stream.standard_normal((8, 8))
        tailed, counts = stream.standard_t(5, (200, 8)), stream.poisson(1.0, (200, 8)).astype(float)
        for points in (mixed, mixed + 20.0 * np.eye(8)[given], tailed, counts):
            assert find_view(points, [given]) is None
    for count in (1, 2):
        with pytest.warns(UserWarning, match="the clusters are not separated"):
            model = KDAC(n_alternatives=count, random_state=0).fit(points, given)
        assert model.alternatives_[0].objection(0.2) == model.stop_reason_
        data = Dataset.from_array(points, given)
        run = thalweg.minimize(build_search(data, data.comm, alternatives=count))
        assert any("labels that do not count: the clusters are not" in note for note in run.notes)


def test_a_run_writes_all_alternatives_whose_labels_are_those_of_the_view():
    stream = np.random.default_rng(0)
    given, *views = groups = stream.integers(0, 2, (3, 500))
    points = np.column_stack([*(6.0 * groups), *stream.standard_normal((2, 500))])
    points += stream.standard_normal((500, 5))
    points[:5] += 15.0 * stream.standard_normal((5, 5))  # eigenvectors take them for a cluster
    data = Dataset.from_array(points, given)
    result = thalweg.minimize(build_search(data, data.comm, alternatives=3))
    assert any("no fixed point" in note for note in result.notes)
    assert len(found := result.solution.T) == 2
    assert all(max(nmi(labels, view) for view in views) > 0.8 for labels in found)


def test_valleys_lie_between_clusters_straight_or_curved_and_not_across_one():
    stream = np.random.default_rng(0)
    angle, moon = stream.uniform(0, np.pi, 400), np.arange(400) % 2
    rows = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rows = np.where(moon[:, None] == 1, [1.0, 0.5] - rows, rows)
    rows += 0.1 * stream.standard_normal(rows.shape)  # no straight line between the moons
    assert chance_without_valley(rows, moon) <= SEPARATED
    assert chance_without_valley(rows, (angle > 1.5).astype(int)) > SEPARATED
    assert chance_without_valley(np.zeros((20, 2)), np.arange(20) % 2) == 1.0
