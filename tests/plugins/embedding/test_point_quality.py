"""What is told of each point of a map agrees with brute force, at any number of ranks."""

import copy

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg_embedding import T_SNE, affinities_of, embedding, faithfulness, map_quality, umap
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.estimators.neighbor_embeddings import TSNE, UMAP, LocalMAP, PaCMAP
from thalweg_embedding.families import ELASTIC_EMBEDDING

POINTS, DIGITS = (part[:120] for part in load_digits(return_X_y=True))
ANCHORED = {"anchors": {50: (1.0, 2.0)}}


@pytest.fixture(scope="module")
def places():
    return TSNE(random_state=0, tol=1e-7).fit_transform(POINTS)


def neighbors(rows, count):
    return NearestNeighbors(n_neighbors=count).fit(rows).kneighbors(return_distance=False)


def whole(data, measures):
    return {name: data.layout.gather_rows(rows) for name, rows in measures.items()}


@pytest.mark.ranks(1, 2, 3)
def test_neighbors_are_kept_false_or_torn(comm, places):
    data = Dataset.from_array(POINTS, comm=comm)
    local = data.layout.local(places)
    found = whole(data, faithfulness(data, local, neighbors=4))
    near, here = neighbors(POINTS, 4), neighbors(places, 4)
    wide, around = neighbors(POINTS, 20), neighbors(places, 20)
    for n in range(len(POINTS)):
        assert found["kept"][n] == len(np.intersect1d(near[n], here[n])) / 4
        assert found["false"][n] == len(np.setdiff1d(here[n], wide[n])) / 4
        assert found["torn"][n] == len(np.setdiff1d(near[n], around[n])) / 4
    for known, told in (20, found), (19, {name: found[name] for name in ("kept", "torn")}):
        given = SparseDataset.of(kneighbors_graph(POINTS, known, mode="distance"), comm)
        measures = faithfulness(given, local, neighbors=4, metric="precomputed")
        np.testing.assert_equal(whole(given, measures), told)
    with pytest.raises(InputError, match="have a distance; use neighbors = 19 or fewer"):
        faithfulness(given, local, neighbors=20, metric="precomputed")


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize(
    ("family", "d", "options"),
    [
        (T_SNE, 1, {}),
        (T_SNE, 3, {}),
        (umap(), 2, ANCHORED),
        (T_SNE, 2, ANCHORED | {"anchor_weight": 0.7}),
    ],
)
def test_the_singularity_score_is_that_of_the_hessians_block(comm, family, d, options):
    data = Dataset.from_array(POINTS, comm=comm)
    objective = embedding(family, data, dimensions=d, **options)
    local = objective.solution(objective.layout.random_normal(3, 2.0))
    found = objective.layout.gather_rows(faithfulness(data, local, objective)["singularity"])
    for n in (0, 50, 119):
        directions = np.zeros((d, len(POINTS), d))
        directions[range(d), n, range(d)] = 1.0
        products = [objective.hessian_product(local, data.layout.local(one)) for one in directions]
        least = np.linalg.eigvalsh([data.layout.gather_rows(rows)[n] for rows in products])[0]
        wanted = 1.0 / least if least > 0.0 else np.inf
        held = n == 50 and options == ANCHORED
        assert found[n] == (0.0 if held else pytest.approx(wanted, rel=1e-6))


def where_it_goes(n, moved, places):
    """Minimum of a point's part of the KL divergence, with all affinities made anew."""
    p = affinities_of(Dataset.from_array(moved)).weights[n]
    others = np.arange(len(p)) != n
    apart = ((places[others, None] - places[others]) ** 2).sum(axis=2)
    rest = (1.0 / (1.0 + apart)).sum() - others.sum()

    def loss(y):
        u = y - places[others]
        k = 1.0 / (1.0 + (u**2).sum(axis=1))
        z = rest + 2.0 * k.sum()
        return -2.0 * p[others] @ np.log(k) + np.log(z), (4.0 * (p[others] * k - k**2 / z) @ u)

    starts = [n, *np.argsort(-p)[:2]]
    return min((minimize(loss, places[s], jac=True) for s in starts), key=lambda r: r.fun).x


def test_the_perturbation_score_ranks_points_as_affinities_made_anew_do(places):
    length = np.median(NearestNeighbors(n_neighbors=1).fit(POINTS).kneighbors()[0])
    objective = embedding(T_SNE, Dataset.from_array(POINTS))
    found = faithfulness(POINTS, places, objective)["perturbation"]
    directions = np.linalg.svd(POINTS - POINTS.mean(axis=0))[2][:3]
    some, wanted = range(0, 120, 3), []
    for n in some:
        steps = np.zeros((6, *POINTS.shape))
        steps[:, n] = length * np.vstack([directions, -directions])
        goals = [where_it_goes(n, POINTS + step, places) for step in steps]
        wanted.append(np.linalg.norm(goals - places[n], axis=1).max())
    assert spearmanr(found[some], wanted).statistic > 0.85
    twice = [np.repeat(rows, 2, axis=0) for rows in (POINTS, places)]  # the step is not 0
    scores = faithfulness(*twice, embedding(T_SNE, Dataset.from_array(twice[0])))["perturbation"]
    assert scores.mean() > 0.1 * found.mean()


def test_a_point_between_two_groups_would_jump():
    points = np.random.default_rng(0).normal(size=(101, 4))
    points[:50, 0] += 12.0
    points[100] = [6.0, 0.0, 0.0, 0.0]
    model = TSNE(perplexity=15, random_state=0).fit(points)
    scores = model.faithfulness(5)["perturbation"]
    assert scores[100] > 5.0 * np.median(scores)
    later = copy.copy(model).set_params(metric="cosine", init=np.zeros((3, 2)))  # for another fit
    np.testing.assert_array_equal(later.faithfulness(5)["perturbation"], scores)
    for weight, most in (None, 0.0), (100.0, 0.1 * scores[100]):  # unless it is anchored
        model.set_params(anchors={100: model.embedding_[100]}, anchor_weight=weight).fit(points)
        assert model.faithfulness(5)["perturbation"][100] <= most


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    ("family", "options"),
    [(T_SNE, {}), (T_SNE, ANCHORED | {"anchor_weight": 0.01}), (ELASTIC_EMBEDDING, {})],
)
def test_ranks_agree_with_one(comm, places, family, options):
    data, alone = Dataset.from_array(POINTS, comm=comm), Dataset.from_array(POINTS)
    options = {"graph": "sparse"} | options  # the perplexity depends on the number of rows
    objectives = [embedding(family, each, **options) for each in (data, alone)]
    found = whole(data, faithfulness(data, data.layout.local(places), objectives[0]))
    wanted = faithfulness(alone, places, objectives[1])
    assert list(found) == ["kept", "false", "torn", "singularity", "perturbation"]
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-6)
    with pytest.raises(InputError, match="arguments of faithfulness differ"):
        faithfulness(data, data.layout.local(places), neighbors=4 + comm.rank)


PAIRS = PaCMAP(), LocalMAP()
MODELS = [TSNE(density=0.1), UMAP(), *PAIRS, TSNE(metric="cosine"), TSNE(target_weight=0.1)]


@pytest.mark.parametrize("model", MODELS)
def test_estimators_tell_what_they_can(model):
    model.set_params(max_iter=30, random_state=0)
    measures = model.fit(POINTS, DIGITS).faithfulness()
    assert ("perturbation" in measures) == (model is MODELS[0])
    assert all(rows.shape == (120,) and not np.isnan(rows).any() for rows in measures.values())
    assert measures["kept"].mean() > 0.4
    model.set_params(keep_data=False).fit(POINTS, DIGITS)
    assert not hasattr(model, "faithfulness")


@pytest.mark.parametrize("kind", [PaCMAP, LocalMAP])
def test_scores_of_pacmap_are_of_the_pairs_that_were_fitted(monkeypatch, kind):
    made, own = [], kind._build
    build = lambda *data, **options: made.append(own(*data, **options)) or made[-1]  # noqa: E731
    monkeypatch.setattr(kind, "_build", staticmethod(build))
    model = kind(random_state=5, max_iter=30).fit(POINTS)
    assert "singularity" in model.faithfulness()
    one, other = (objective.value(model.embedding_) for objective in made)
    assert one == other == pytest.approx(model.objective_)


def test_what_does_not_fit_is_refused(places):
    with pytest.raises(InputError, match="one row of finite numbers"):
        faithfulness(POINTS, places[:10])
    for measure in faithfulness, map_quality:
        with pytest.raises(InputError, match="the data are a sparse matrix"):
            measure(scipy.sparse.csr_matrix(POINTS), places)
    with pytest.raises(InputError, match="of faithfulness must be at most 119, not 120"):
        faithfulness(POINTS, places, neighbors=120)
