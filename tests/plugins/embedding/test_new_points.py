"""New points in a finished map: what their places minimize, and how they depend on the points."""

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from thalweg.data import Dataset
from thalweg_embedding import TSNE, UMAP, ElasticEmbedding, LargeVis, NegTSNE, PaCMAP, SymmetricSNE
from thalweg_embedding.affinities.row_affinities import entropic_rows, fuzzy_rows
from thalweg_embedding.estimators.neighbor_embeddings import LocalMAP
from thalweg_embedding.objectives import elastic_embedding

POINTS = load_digits().data


def apart(rows):
    """Median distance to the nearest neighbor in a map."""
    return np.median(np.sort(cdist(rows, rows), axis=1)[:, 1])


def shifted(points, size):
    return points + size * np.random.default_rng(0).normal(size=points.shape)


@pytest.mark.parametrize("forms", [(np.array, scipy.sparse.csr_matrix)[::k] for k in (1, -1)])
def test_rows_join_a_map_in_whatever_form_they_come(forms):
    one, other = (form(POINTS[:90] * (POINTS[:90] > 4)) for form in forms)
    model = TSNE(max_iter=3, random_state=0).fit(one[:80])
    np.testing.assert_array_equal(model.transform(other), model.transform(one))
    assert model.partial_fit(other[80:]).embedding_.shape == (90, 2)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *[(kind, {}) for kind in (TSNE, SymmetricSNE, UMAP, LargeVis, NegTSNE, ElasticEmbedding)],
        *((kind, {}) for kind in (PaCMAP, LocalMAP)),
        (PaCMAP, {"metric": "correlation"}),
        (TSNE, {"metric": "cosine"}),
        (TSNE, {"metric": "cityblock"}),
        (TSNE, {"metric": "precomputed"}),
        (TSNE, {"n_components": 3}),
        (UMAP, {"repulsive_weights": "complement"}),
    ],
)
def test_places_are_continuous_at_fitted_points(kind, options):
    points = POINTS[:150]
    measured = [cdist(p, points) if "precomputed" in options.values() else p
                for p in (points, shifted(points, 1e-9), shifted(points, 1e-2))]  # fmt: skip
    model = kind(random_state=0, max_iter=30, **options).fit(measured[0])
    near = apart(model.embedding_)
    np.testing.assert_array_equal(model.transform(measured[0]), model.embedding_)
    for new, most in zip(measured[1:], (1e-6, 0.05), strict=True):
        places = model.transform(new)
        assert np.linalg.norm(places - model.embedding_, axis=1).max() < most * near
    for n in range(0, 150, 30):  # company does not matter
        np.testing.assert_allclose(model.transform(new[n : n + 1])[0], places[n], atol=1e-9 * near)


def test_rows_far_from_the_origin_and_their_mean_keep_their_places():
    points = np.vstack([POINTS[:150] + 2.0**32, np.full(64, 2.0**60)])
    model = TSNE(random_state=0, max_iter=3).fit(points)
    np.testing.assert_array_equal(model.transform(points), model.embedding_)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("sparse", [False, True])
def test_places_are_continuous_on_ranks_and_by_a_mesh(comm, sparse):
    points = np.random.default_rng(0).normal(size=(6000, 4)).astype(np.float32)
    model = TSNE(random_state=0, max_iter=0, perplexity=10.0)
    if sparse:
        if comm.size > 1:
            pytest.skip("sparse rows of this test are one rank's")
        model.fit(scipy.sparse.csr_matrix(points[:400]))
    else:
        model.fit(Dataset.from_array(points, comm=comm))
        assert model._placed._field._box is not None
    whole = model._placed.places
    chosen = slice(10 * comm.rank, 10 * comm.rank + 10)
    for size, most in ((0.0, 1e-9), (1e-6, 1e-5)):
        new = shifted(points[chosen].astype(float), size)
        found = model.transform(scipy.sparse.csr_matrix(new) if sparse else new)
        np.testing.assert_allclose(found, whole[chosen], atol=most * np.ptp(whole))


@pytest.mark.parametrize("kind", [TSNE, UMAP])
@pytest.mark.parametrize("noise", [0.5, None])
def test_a_place_minimizes_the_documented_sum(kind, noise):
    """``noise``: the new points are fitted ones with so much noise, or other digits."""
    points = POINTS[:150]
    new = POINTS[150:170] if noise is None else shifted(points[:20], noise)
    model = kind(random_state=0, max_iter=60).fit(points)
    places = model.embedding_
    n, k = len(points), 90 if kind is TSNE else 14
    near = np.argsort(cdist(new, points), axis=1)[:, :k]
    r = np.take_along_axis(cdist(new, points), near, 1)
    p = entropic_rows(r**2, 30.0) if kind is TSNE else fuzzy_rows(r**2)
    p /= p.sum(axis=1, keepdims=True)
    franke_little = ((r[:, -1:] - r) / r) ** 2
    theta = 1.0 / (1.0 + franke_little.mean(axis=1))
    s = franke_little / franke_little.sum(axis=1, keepdims=True)
    assert (theta.min() < 0.3) == (noise is not None)

    def terms(d):
        if kind is TSNE:
            return np.log1p(d), 1.0 / (1.0 + d)
        power = 1.57694 * (1e-3 + d) ** 0.895061
        return np.log1p(power), np.log1p(1.0 / power)

    z = terms(cdist(places, places, "sqeuclidean"))[1].sum() - n

    def value(y):
        f, g = terms(cdist(y, places, "sqeuclidean"))
        f = np.take_along_axis(f, near, 1)
        total = g.sum(axis=1)
        repulsion = 0.5 * n * np.log1p(2.0 * total / z) if kind is TSNE else 2.5 / n * total
        return theta * ((p * f).sum(axis=1) + repulsion) + (1.0 - theta) * (s * f).sum(axis=1)

    found = model.transform(new)
    lowest, step = value(found), 0.02 * apart(places)
    for away in np.random.default_rng(0).normal(size=(20, *found.shape)):
        assert (value(found + step * away) > lowest).all()


def test_weights_that_differ_repel_a_new_point_as_equal_ones_of_their_sum():
    data = Dataset.from_array(np.eye(40))  # all equally far apart, so that the weights are equal
    found = []
    for weights in ("uniform", "squared-distances"):
        objective = elastic_embedding(data, data.comm, perplexity=5.0, repulsive_weights=weights)
        x = objective.layout.random_normal(0)
        objective.homotopy_parameter = 0.0
        attraction = objective.value(x)
        objective.homotopy_parameter = 1.0
        repulsion = objective.value(x) - attraction
        estimator = ElasticEmbedding(repulsive_weights=weights, perplexity=5.0)
        found.append(repulsion / estimator._repulsion_of_point(objective))
    assert found[1] == pytest.approx(found[0], rel=1.5 / 40)  # a row does not repel itself
