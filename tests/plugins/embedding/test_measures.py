"""Measures of an embedding agree with plain computations on the whole of it."""

import numpy as np
import pytest
from sklearn.manifold import trustworthiness as whole_trustworthiness
from sklearn.neighbors import NearestNeighbors

from thalweg.data import Dataset
from thalweg.parallel import Layout
from thalweg.workbench.readers import load_data
from thalweg_embedding.quality import embedding_quality, trustworthiness


def made(count=60, seed=0):
    random = np.random.default_rng(seed)
    values = random.standard_normal((count, 5))
    embedding = values[:, :2] + 0.3 * random.standard_normal((count, 2))
    labels = (values[:, 0] > 0).astype(np.int64)
    return values, embedding, labels


def neighbors(values, count):
    return NearestNeighbors(n_neighbors=count).fit(values).kneighbors(return_distance=False)


def measured(comm, values, embedding, labels):
    layout = Layout(comm, *values.shape)
    dataset = Dataset(layout.local(values), layout, labels=layout.local(labels))
    return embedding_quality(layout.local(embedding), dataset, comm)


@pytest.mark.ranks(1, 2, 3)
def test_common_neighbors_are_counted_and_the_row_itself_is_none(comm):
    values, embedding, labels = made()
    found = measured(comm, values, embedding, labels)
    before, after = neighbors(values, 10), neighbors(embedding, 10)
    wanted = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(before, after, strict=True)])
    assert found["neighbor_preservation"] == pytest.approx(wanted, abs=1e-12)
    wanted = np.mean(labels[neighbors(embedding, 1)[:, 0]] != labels)
    assert found["nearest_neighbor_error"] == pytest.approx(wanted, abs=1e-12)
    assert measured(comm, values, values, labels)["neighbor_preservation"] == 1.0


@pytest.mark.ranks(1, 2)
def test_trustworthiness_is_the_published_one(comm):
    values, embedding, _ = made()
    layout = Layout(comm, *values.shape)
    found = trustworthiness(layout.local(values), layout.local(embedding), layout, 5)
    assert found == pytest.approx(whole_trustworthiness(values, embedding, n_neighbors=5), abs=1e-9)


@pytest.mark.ranks(1, 2, 3)
def test_the_metric_reports_what_has_a_meaning(comm):
    dataset = load_data({"name": "iris"}, comm)
    found = embedding_quality(dataset.values[:, :2], dataset, comm)
    assert set(found) == {"neighbor_preservation", "nearest_neighbor_error"}
    assert embedding_quality(np.zeros((2, 2)), dataset, comm) == {}
    assert embedding_quality(dataset.values[:, :2], None, comm) == {}
    labels = np.zeros((dataset.layout.local_rows, 1), dtype=int)
    assert embedding_quality(labels, dataset, comm) == {}
    assert embedding_quality(np.full((dataset.layout.local_rows, 2), np.nan), dataset, comm) == {}
