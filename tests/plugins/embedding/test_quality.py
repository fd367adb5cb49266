"""Measures of a map know a good one from a bad one, at any number of ranks."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import trustworthiness as whole_trustworthiness
from sklearn.neighbors import NearestNeighbors

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import Layout, on_root
from thalweg.workbench.readers import load_data
from thalweg_embedding import map_quality
from thalweg_embedding.quality import embedding_quality, intrinsic_dimension, trustworthiness


def clusters(count=5, size=40, seed=0):
    generator = np.random.default_rng(seed)
    centers = generator.normal(0, 20, (count, 6))
    labels = np.repeat(np.arange(count), size)
    return centers[labels] + generator.normal(size=(count * size, 6)), labels


@pytest.mark.ranks(1, 2, 3)
def test_the_leading_axes_keep_more_than_random_places(comm):
    points, labels = clusters()
    data = Dataset.from_array(points, labels=labels, comm=comm)
    part = slice(data.layout.start, data.layout.stop)
    good = map_quality(data, points[part, :5])
    bad = map_quality(data, np.random.default_rng(1).normal(size=(200, 2))[part])
    assert good["accuracy"] == 1.0
    assert good["center_correlation"] > 0.9
    for name in ("recall", "accuracy", "trustworthiness", "center_correlation"):
        assert good[name] > bad[name] + 0.2
    assert good == map_quality(points, points[:, :5], labels)
    data, fewer = Dataset.from_array(points, comm=comm), {"sample": 60, "neighbors": 4}
    wanted = map_quality(points, points[:, :5], **fewer)
    assert map_quality(data, points[part, :5], **fewer) == wanted


@pytest.mark.ranks(1, 2)
def test_unknown_labels_are_no_class(comm):
    points, labels = clusters()
    known = np.where(np.arange(200) % 3 > 0, labels, -1)
    data = Dataset.from_array(points, labels=known, comm=comm)
    places = points[data.layout.start : data.layout.stop, :5]
    assert map_quality(data, places)["accuracy"] == 1.0
    assert map_quality(data, places) == map_quality(data, places, known)
    assert embedding_quality(places, data, comm)["nearest_neighbor_error"] == 0.0
    none = Dataset.from_array(points, labels=np.full(200, "-1"), comm=comm)
    assert "nearest_neighbor_error" not in embedding_quality(places, none, comm)
    signs = np.where(np.arange(200) % 2, 1, -1)  # two classes, without structure in the points
    assert map_quality(data, places, signs)["accuracy"] < 0.7
    data = Dataset.from_array(points, labels=signs, comm=comm)
    assert embedding_quality(places, data, comm)["nearest_neighbor_error"] > 0.3


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("dimension", [1, 3, 5])
def test_the_dimension_is_that_of_the_data_whatever_their_columns(comm, dimension):
    random = np.random.default_rng(0)
    points = random.normal(size=(3000, dimension)) @ random.normal(size=(dimension, 9)) + 1e3
    points = np.concatenate([points, points[:30]])  # which have no ratio of distances
    data = Dataset.from_array(points, comm=comm)
    found = map_quality(data, data.layout.local(points[:, :2]), sample=2000)["intrinsic_dimension"]
    assert found == pytest.approx(dimension, rel=0.12)
    assert math.isnan(intrinsic_dimension(np.zeros((4, 2))))


def test_sizes_are_in_map_units_and_centers_need_no_classes():
    points, _ = clusters()
    places = points[:, :2]
    small, large = map_quality(points, places), map_quality(points + 1e8, 3.0 * places + 1e8)
    for name in ("widest_side", "nearest_distance"):
        assert large[name] == pytest.approx(3.0 * small[name])
    for name in ("recall", "center_correlation", "trustworthiness"):
        assert large[name] == pytest.approx(small[name])
    points[7] = 1e10  # far from which the others are near each other
    assert map_quality(points, np.tile(points, 8))["trustworthiness"] == 1.0
    assert "accuracy" not in small
    assert small["center_correlation"] > 0.5


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        *(({"places": places}, "one row of finite numbers")
          for places in (np.ones((10, 2)), np.full((200, 2), np.nan), np.ones(200))),
        *(({"labels": np.zeros(shape)}, "labels") for shape in (100, (200, 2))),
        ({"places": np.full((200, 2), 1e-170)}, "values of the map are too small"),
        ({"sample": 0}, "sample"),
        ({"neighbors": 2.5}, "neighbors"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(wrong, words):
    points, _ = clusters()
    with pytest.raises(InputError, match=words):
        map_quality(points, **{"places": points[:, :2], **wrong})


def neighbors(values, count, metric="euclidean"):
    return NearestNeighbors(n_neighbors=count, metric=metric).fit(values).kneighbors()[1]


METRICS = "euclidean", "cosine", "correlation", "precomputed", "cityblock"
RUNS = [{"name": "t-sne", "metric": metric} for metric in METRICS]
RUNS += [{"name": name, "affinity": "precomputed"} for name in ("t-sne", "laplacian-eigenmaps")]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("objective", RUNS)
def test_common_neighbors_are_counted_by_the_distance_of_the_run(comm, folder, objective):
    values = np.random.default_rng(0).standard_normal((60, 5))
    labels = (values[:, 0] > 0).astype(np.int64)
    values = (values + np.eye(5)[0]) * np.geomspace(0.1, 1.0, 60)[:, None]
    given = squareform(np.exp(-pdist(values))) if "precomputed" in objective.values() else values
    on_root(comm, lambda: np.savez(folder / "a.npz", x=given, y=labels))
    data = {"path": str(folder / "a.npz"), "key": "x", "labels": "y"}
    config = {"data": data, "objective": objective, "stop": {"iterations": 3}}
    result = thalweg.run(config, comm=comm)
    found, layout = result.metrics, Layout(comm, *values.shape)
    embedding, metric = layout.gather_rows(result.solution), objective.get("metric", "cityblock")
    before, after = neighbors(given, 10, metric), neighbors(embedding, 10)
    assert found["nearest_neighbor_error"] == np.mean(labels[after[:, 0]] != labels)
    wanted = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(before, after, strict=True)])
    assert found.get("neighbor_preservation", wanted) == pytest.approx(wanted, abs=1e-12)
    told = {"neighbor_preservation", "intrinsic_dimension"} & set(found)
    assert len(told) == (0 if metric == "cityblock" else 2)  # of which no search is made
    found = trustworthiness(layout.local(values), layout.local(embedding), layout, 5)
    assert found == pytest.approx(whole_trustworthiness(values, embedding, n_neighbors=5), abs=1e-9)


@pytest.mark.ranks(1, 2, 3)
def test_the_metric_reports_what_has_a_meaning(comm):
    dataset = load_data({"name": "iris"}, comm)
    found = embedding_quality(dataset.values[:, :2], dataset, comm)
    assert set(found) == {"neighbor_preservation", "nearest_neighbor_error", "intrinsic_dimension"}
    assert embedding_quality(dataset.values, dataset, comm)["neighbor_preservation"] == 1.0
    assert embedding_quality(dataset.values[:, :2], None, comm) == {}
    labels, unknown = np.zeros((dataset.layout.local_rows, 2), int), np.full((150, 2), np.nan)
    for wrong in np.zeros((2, 2)), labels, dataset.layout.local(unknown):
        assert embedding_quality(wrong, dataset, comm) == {}
