"""PaCMAP and LocalMAP: pairs are those of the papers, values weighted sums in each phase."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_embedding.affinities.pair_sets import PairOptions, pair_matrix, pair_sets
from thalweg_embedding.localmap import localmap
from thalweg_embedding.pacmap import pacmap


def digits(comm, rows=90):
    return Dataset.from_array(load_digits().data[:rows], comm=comm)


def whole(layout, numbers):
    return layout.gather_rows(pair_matrix(layout, numbers).toarray())


@pytest.mark.ranks(1, 3)
def test_neighbors_are_the_nearest_by_distances_in_units_of_both_points(comm):
    data = digits(comm)
    found = whole(data.layout, pair_sets(data, PairOptions(n_neighbors=4)).neighbors)
    points = load_digits().data[:90]
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    ascending = np.sqrt(np.sort(squared, axis=1))
    scales = ascending[:, 4:7].mean(axis=1)  # the first is the point itself
    scaled = squared / np.outer(scales, scales)
    expected = np.zeros((90, 90))
    for n in range(90):
        nearest = np.argsort(squared[n], kind="stable")[1:55]
        expected[n, nearest[np.argsort(scaled[n, nearest], kind="stable")[:4]]] = 0.5
    assert not np.array_equal(expected > 0, squared <= ascending[:, 4:5] ** 2)  # scales do matter
    np.testing.assert_array_equal(found, expected + expected.T)


@pytest.mark.ranks(2, 3)
def test_pairs_are_the_same_at_any_number_of_ranks(comm):
    data = digits(comm)
    found, alone = (pair_sets(rows, PairOptions(seed=5)) for rows in (data, digits(MPI.COMM_SELF)))
    for mine, expected in zip(found[:3], alone[:3], strict=True):
        np.testing.assert_array_equal(data.layout.gather_rows(mine), expected)


def test_random_pairs_are_as_many_and_as_different_as_they_should_be(comm):
    data = digits(comm, 200)
    found = [pair_sets(data, PairOptions(n_neighbors=10, seed=seed)) for seed in (0, 1)]
    neighbors, mid_near, further = (pair_matrix(data.layout, numbers) for numbers in found[0][:3])
    for matrix, pairs in ((neighbors, 10), (mid_near, 5), (further, 20)):
        assert matrix.sum() == 200 * pairs
        assert not matrix.diagonal().any()
        assert abs(matrix - matrix.T).max() == 0.0
    # Its own further pairs are no neighbors of a point; a count of 1/2 is of one of both points.
    assert further.multiply(neighbors).data.max(initial=0.0) <= 0.25
    assert further.max() == 1.0  # never twice by the same point
    assert (found[0].further != found[1].further).any()
    squared = ((data.values[:, None] - data.values) ** 2).sum(axis=2)
    rank = squared.argsort(axis=1).argsort(axis=1) / 199.0
    near, far = (rank[matrix.nonzero()].mean() for matrix in (mid_near, further))
    # The second of six uniform numbers is 2/7 on average; seen from the other end it is more.
    assert 0.27 < near < 0.42
    assert 0.45 < far < 0.6


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("build", [pacmap, localmap])
def test_the_value_is_the_weighted_sum_of_each_phase(comm, build):
    data = digits(comm)
    objective = build(data, comm, n_neighbors=5, init="random", init_scale=3.0, seed=2)
    x = objective.layout.random_normal(0, 3.0)
    rows = objective.layout.gather_rows(x)
    d = 1.0 + ((rows[:, None] - rows) ** 2).sum(axis=2)
    near, mid_near, further = (whole(data.layout, numbers) for numbers in objective.pairs[:3])
    terms = ((near * d / (10 + d)).sum(), (mid_near * d / (1e4 + d)).sum())
    last = pushed = (further / (1 + d)).sum()
    curve = np.sqrt(d) / (10 + d) + np.arctan(np.sqrt(d / 10)) / np.sqrt(10)
    last += terms[0] if build is pacmap else 5.0 * (near * curve).sum()
    assert objective.homotopy_parameter == 0.0
    objective.initial_point(0)  # which changes no pair
    assert objective.value(x) == pytest.approx(last, rel=1e-12)
    for weight, w_near in ((1000.0, 2.0), (3.0, 3.0)):
        objective.homotopy_parameter = weight
        value = objective.value(x)
        assert value == pytest.approx(w_near * terms[0] + weight * terms[1] + pushed, rel=1e-12)
        known = objective.value_at(0.0, value)
        assert known == pytest.approx(last, rel=1e-12) or (build is localmap and np.isnan(known))
        assert np.isnan(objective.value_at(0.0, value + 1.0))  # of another evaluation


@pytest.mark.ranks(1, 3)
def test_further_pairs_of_localmap_come_to_lie_near_in_the_map(comm):
    made, alone = (localmap(digits(where, 200), where) for where in (comm, MPI.COMM_SELF))
    places, (neighbors, _, first, _) = alone.layout.random_normal(0, 12.0), alone.pairs
    for _ in range(2):
        before, places = alone.state().numbers, places[::-1].copy()
        for objective in (made, alone):
            objective.escape_stationary_point(objective.layout.local(places))
        numbers = alone.state().numbers
        np.testing.assert_array_equal(made.layout.gather_rows(made.state().numbers), numbers)
        near = np.linalg.norm(places[numbers] - places[:, None], axis=2) <= 10.0
        assert (near | (numbers == before)).all()
        assert near.mean() > 0.7
        taken = np.hstack([neighbors, np.arange(200)[:, None]])
        assert not (numbers[:, :, None] == taken[:, None]).any()
    alone.homotopy_parameter = 1000.0  # another run begins
    np.testing.assert_array_equal(alone.state().numbers, first)


@pytest.mark.ranks(1, 2)
def test_a_run_of_localmap_goes_on_with_the_pairs_it_had(comm, folder):
    def fit(stop, **options):
        objective, end = localmap(digits(comm), comm), lambda at: at.iteration == stop
        return objective, thalweg.minimize(objective, callback=end, iterations=200, **options)

    objective, through = fit(-1)
    fit(130, checkpoint=folder)  # amid the last phase
    other, result = fit(-1, checkpoint=folder, resume=True)
    assert objective.state().draws == 5
    assert result.iterations == through.iterations > 130
    np.testing.assert_array_equal(result.x, through.x)
    np.testing.assert_array_equal(other.state().numbers, objective.state().numbers)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize(("rows", "ratio"), [(3, 0.5), (1_000, 0.0)])
def test_ranks_may_have_no_points_and_sets_no_pairs(comm, rows, ratio):
    points = np.random.default_rng(0).normal(size=(rows, 4))
    data = Dataset.from_array(points, comm=comm)
    objective = pacmap(data, comm, n_neighbors=4, mid_near_ratio=ratio)
    alone = pacmap(Dataset.from_array(points), MPI.COMM_SELF, n_neighbors=4, mid_near_ratio=ratio)
    values = []
    for made in (objective, alone):
        made.homotopy_parameter = 1000.0
        x = made.initial_point(0)
        norms = [made.layout.norm(made.hessian_product(x, x))]
        value, gradient = made.value_and_gradient(x)
        values.append((value, made.layout.norm(gradient), *norms))
    np.testing.assert_allclose(*values, rtol=1e-4)  # the second has single precision


def test_a_run_passes_the_three_phases_and_ends_at_the_wanted_objective(comm):
    objective = pacmap(digits(comm), comm)
    result = thalweg.minimize(objective, preconditioner="spectral", iterations=120)
    weights = result.trace["mid_near_weight"]
    assert (weights[0], weights[-1]) == (1000.0, 0.0)
    assert (np.diff(weights) <= 0.0).all()
    assert objective.value(result.x) == pytest.approx(result.objective)


def test_what_pacmap_cannot_take_is_said(comm):
    with pytest.raises(InputError, match="needs dense rows"):
        pacmap(SparseDataset.of(scipy.sparse.identity(20, format="csr")), comm)
    with pytest.raises(InputError, match="further pairs that its run ended with"):
        localmap(digits(comm), comm).row_measures(None, None)
    with pytest.raises(InputError, match="start must be an array of shape"):
        pacmap(data := digits(comm), comm, start=np.zeros((data.layout.local_rows, 1)))
    objective = pacmap(data, comm, metric="cosine")
    with pytest.raises(InputError, match="mid_near_weight must be a finite number of at least 0"):
        objective.check_homotopy(-1.0)
