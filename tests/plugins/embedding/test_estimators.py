"""The estimators keep scikit-learn's contract and say what they found."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.estimator_checks import parametrize_with_checks

import thalweg_embedding as maps
from thalweg.data import Dataset
from thalweg.driver import HomotopySchedule
from thalweg.errors import InputError
from thalweg_embedding import TSNE, ElasticEmbedding, LocalMAP, PaCMAP

PAIRS = PaCMAP, LocalMAP
KINDS = [TSNE, maps.SymmetricSNE, maps.UMAP, maps.LargeVis, maps.NegTSNE, ElasticEmbedding, *PAIRS]
OTHERS = maps.LaplacianEigenmaps, maps.LocallyLinearEmbedding, maps.NeighborsTransformer
every_estimator = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([*(kind(max_iter=2) for kind in KINDS), *(kind() for kind in OTHERS)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [TSNE, *PAIRS])
@pytest.mark.parametrize("max_iter", [1, 25])
def test_a_limit_ends_at_the_wanted_objective_and_is_warned_of(kind, max_iter):
    points = load_digits().data[:1000]  # from which on maps are exaggerated
    model = kind(max_iter=max_iter, random_state=0)
    with pytest.warns(ConvergenceWarning, match="limit of iterations .* raise max_iter"):
        model.fit(points)
    assert model.trace_[model.trace_.homotopy_parameter][-1] == 1.0 or kind in PAIRS
    assert model.trace_["wanted_objective"][-1] == model.objective_
    if kind is TSNE:
        assert model.objective_ == pytest.approx(model.kl_divergence_, rel=1e-3)


@pytest.mark.ranks(1, 2)
def test_seeds_give_maps_of_equal_quality_that_differ(comm):
    points = Dataset.from_array(load_digits().data[:100], comm=comm)
    chosen = {"init": "pca" if comm.size > 1 else "spectral", "max_iter": 100}
    seeds = [None, None, 0, 0, 1, np.random.default_rng(5)]
    fits = [TSNE(random_state=seed, **chosen).fit(points) for seed in seeds]
    maps = [points.layout.gather_rows(fit.embedding_) for fit in fits]
    same = np.array([[np.array_equal(one, other) for other in maps] for one in maps])
    expected = np.eye(6, dtype=bool)
    expected[[0, 1, 2, 3], [1, 0, 3, 2]] = True
    np.testing.assert_array_equal(same, expected)
    values = [fit.objective_ for fit in fits]
    assert max(values) < 1.02 * min(values)
    near = [kneighbors_graph(maps[fit], 10).toarray() > 0.0 for fit in (2, 4)]
    expected = (near[0] & near[1]).sum(axis=1) / (near[0] | near[1]).sum(axis=1)
    found = points.layout.gather_rows(fits[-1].stability(2, 10))  # of the seeds 0 and 1
    np.testing.assert_allclose(found, expected)


def test_precomputed_affinities_may_be_dense_or_sparse():
    points = load_digits().data[:80]
    graph = kneighbors_graph(points, 8)
    graph = scipy.sparse.csr_matrix(graph + graph.T)
    chosen = {"affinity": "precomputed", "random_state": 0, "max_iter": 10}
    sparse = TSNE(**chosen).fit_transform(graph)
    dense = TSNE(**chosen).fit_transform(graph.toarray())
    np.testing.assert_allclose(sparse, dense, atol=1e-6 * np.abs(dense).max())
    with pytest.raises(InputError, match="symmetric"):
        TSNE(**chosen).fit(kneighbors_graph(points, 8))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", [TSNE, *PAIRS])
def test_a_distributed_data_set_gives_the_map_of_one_rank(kind, comm):
    points = load_digits().data[:90]
    data = Dataset.from_array(points, comm=comm)
    found = kind(random_state=0, max_iter=20).fit_transform(data)
    alone = kind(random_state=0, max_iter=20).fit_transform(points)
    scale = np.abs(alone).max()
    np.testing.assert_allclose(data.layout.gather_rows(found), alone, atol=1e-6 * scale)


@every_estimator
def test_a_map_keeps_neighbors_lowers_the_objective_and_takes_in_new_points(kind):
    digits = load_digits()
    estimator = kind(random_state=0, max_iter=100)
    known = estimator.fit_transform(digits.data[:600])
    assert (digits.target[kneighbors_graph(known, 1).indices] == digits.target[:600]).mean() > 0.85
    values = estimator.trace_["objective"]
    stages = estimator.trace_["mid_near_weight" if kind in PAIRS else "lambda"]
    assert (np.diff(values)[np.diff(stages) == 0] <= 0).all()
    assert estimator.objective_ == values[-1] < values[0]
    placed = estimator.transform(digits.data[600:800])
    nearest = ((placed[:, None] - known[None]) ** 2).sum(axis=2).argmin(axis=1)
    # One nearest neighbor among all 64 features gets 0.95 of these right.  A Gaussian repulsion
    # ends where a cluster does: a point with neighbors in two of them rests in between.
    least = 0.9 if kind is TSNE else 0.75
    assert (digits.target[:600][nearest] == digits.target[600:800]).mean() > least


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", [TSNE, ElasticEmbedding])
def test_new_points_are_placed_by_several_ranks(kind, comm):
    points = load_digits().data[:130]
    known = Dataset.from_array(points[:100], comm=comm)
    estimator = kind(random_state=0, max_iter=20).fit(known)
    # The first ranks have no new points: they take part all the same.
    new = points[100:] if comm.rank == comm.size - 1 else points[:0]
    placed = comm.bcast(estimator.transform(new), root=comm.size - 1)
    alone = kind(random_state=0, max_iter=20).fit(points[:100])
    alone.embedding_ = known.layout.gather_rows(estimator.embedding_)
    alone._placed = dataclasses.replace(alone._placed, places=alone.embedding_)
    np.testing.assert_array_equal(placed, alone.transform(points[100:]))
    np.testing.assert_array_equal(estimator.transform(known), estimator.embedding_)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"perplexity": "a"}, "'perplexity' of TSNE must be a number, not 'a'"),
        ({"init": "nonsense"}, "'init' of TSNE must be one of"),
        ({"n_components": 0}, "'n_components' of TSNE must be at least 1"),
        ({"n_components": 10**7}, "at most 29 dimensions"),
        ({"max_iter": -1}, "'max_iter' of TSNE must be at least 0"),
        ({"solver_options": {"seed": 1}}, "solver_options has 'seed', which is a parameter"),
        ({"solver_options": {"homotopy": HomotopySchedule((1.0, 0.5))}}, "end at its lambda_"),
    ],
)
def test_parameters_are_checked_as_options_are(parameters, words):
    with pytest.raises(InputError, match=words):
        TSNE(**parameters).fit(load_digits().data[:30])


@pytest.mark.ranks(1, 2)
def test_places_of_a_map_lead_back_to_points(comm):
    points = load_digits().data[:90]
    estimator = TSNE(random_state=0, max_iter=30).fit(Dataset.from_array(points, comm=comm))
    layout = estimator._placed.layout
    whole = estimator.embedding_ if layout is None else layout.gather_rows(estimator.embedding_)
    np.testing.assert_allclose(estimator.inverse_transform(whole), points)
    between = estimator.inverse_transform(whole[:1] + np.array([1e-3, 0.0]))
    assert np.linalg.norm(between - points[0]) < 25.0  # digits of one kind lie 20 apart
    assert (between >= points.min(axis=0) - 1e-9).all()
    with pytest.raises(InputError, match=r"must have shape \(n, 2\)"):
        estimator.inverse_transform(np.zeros((2, 3)))


@pytest.mark.parametrize("estimator", [TSNE(max_iter=5), maps.LaplacianEigenmaps()])
def test_a_map_keeps_rows_of_its_own(estimator):
    rows, later = np.split(load_digits().data[:100], [80])
    wanted = estimator.fit(rows).transform(later)
    buffer = rows.copy()
    estimator.fit(buffer)
    buffer[:] = 0.0  # as for the next rows
    np.testing.assert_array_equal(estimator.transform(later), wanted)


@pytest.mark.parametrize("kind", [TSNE, *PAIRS, scipy.sparse.csr_matrix])
def test_rows_that_come_later_join_the_map_and_leave_the_others_nearly_in_place(kind):
    kind, form = (kind, np.asarray) if kind in KINDS else (TSNE, kind)
    points = load_digits().data[:100]
    estimator = kind(random_state=0, max_iter=20).partial_fit(form(points[:80]))
    before = estimator.embedding_
    placed = estimator.transform(form(points[80:]))
    estimator.set_params(max_iter=0).partial_fit(form(points[80:]))
    np.testing.assert_array_equal(estimator.embedding_, np.vstack([before, placed]))
    objective = estimator.objective_
    estimator.set_params(max_iter=20).partial_fit(form(points[:1]))  # a duplicate, which stays
    assert estimator.embedding_.shape == (101, 2)
    assert estimator.objective_ < 1.05 * objective + 0.1
    placed = estimator.transform(form(points[80:]))
    estimator.set_params(keep_data=False)  # for the next fit
    np.testing.assert_array_equal(estimator.transform(form(points[80:])), placed)
    assert not hasattr(estimator.partial_fit(form(points[:2])), "partial_fit")


@pytest.mark.parametrize("estimator", [TSNE, ElasticEmbedding])
def test_a_start_that_has_collapsed_or_is_in_the_units_of_data_is_no_end(estimator):
    random = np.random.default_rng(0)
    rows, places = random.normal(size=(80, 5)), random.normal(size=(80, 2))
    tiny = estimator(init=1e-8 * places).fit(rows)
    assert any("narrower than" in note for note in tiny.notes_)
    line = estimator(init=places[:, :1] * [1.0, 2.0]).fit(rows)
    assert any("was flat" in note for note in line.notes_)
    assert np.linalg.svd(line.embedding_, compute_uv=False)[1] > 0.1
    small = estimator(init=0.01 * places).fit(rows)
    assert tiny.objective_ == pytest.approx(small.objective_, rel=0.1)
    wide = estimator(init=1e6 * places).fit(rows)
    assert any("it was scaled to 8.94427" in note for note in wide.notes_)
    assert wide.objective_ == pytest.approx(small.objective_, rel=0.1)
