"""Methods do what their textbooks say, on small vectors and at any number of ranks."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from thalweg.numerics import (
    backtrack,
    conjugate_gradients,
    exponential,
    lloyd,
    parabola_ratio,
    principal,
    principal_components,
    squared_distance,
    squared_distances,
    two_loop,
    unit_rows,
)  # fmt: skip
from thalweg.parallel import Layout


@pytest.fixture
def matrix():
    factor = np.random.default_rng(0).standard_normal((6, 6))
    return factor @ factor.T + np.eye(6)


def solved(matrix, right, limit=50, **more):
    zero = np.zeros_like(right)
    return conjugate_gradients(
        lambda v: matrix @ v, zero, right, np.dot, 1e-24 * float(right @ right), limit, **more
    )


@pytest.mark.parametrize("preconditioned", [False, True])
def test_conjugate_gradients_end_after_as_many_products_as_dimensions(matrix, preconditioned):
    right = np.arange(1.0, 7.0)
    inverse = 1.0 / np.diag(matrix)
    precondition = (lambda r: inverse * r) if preconditioned else None
    solution = solved(matrix, right, precondition=precondition)
    np.testing.assert_allclose(solution.x, np.linalg.solve(matrix, right), rtol=1e-8)
    assert solution.definite
    assert 6 <= solution.iterations <= 8


def test_conjugate_gradients_stop_at_the_limit_and_where_a_matrix_is_not_definite(matrix):
    right = np.ones(6)
    assert solved(matrix, right, limit=2).iterations == 2
    refused = solved(-matrix, right)
    assert not refused.definite
    np.testing.assert_array_equal(refused.x, np.zeros(6))
    assert solved(matrix, np.zeros(6)).iterations == 0


def test_the_two_loop_recursion_is_the_product_of_its_updates(matrix):
    rng = np.random.default_rng(1)
    steps = rng.standard_normal((4, 6))
    inverse = np.eye(6)
    for s in steps:  # Nocedal and Wright (2006), equation 6.17
        y = matrix @ s
        left = np.eye(6) - np.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    gradient, pairs = rng.standard_normal(6), [(s, matrix @ s) for s in steps]
    product = two_loop(gradient, pairs, lambda v: v, lambda a, b: float(a @ b))
    np.testing.assert_allclose(product, inverse @ gradient)


def search(first, trials=20, **more):
    """Along a parabola with its minimum at 1."""
    return backtrack(
        lambda step: np.array([step]), lambda x: (float((x[0] - 1.0) ** 2),), 1.0, -2.0, first,
        trials, **more,
    )  # fmt: skip


def test_backtracking_goes_to_the_minimum_of_a_parabola_within_its_bounds():
    assert (search(1.0).trials, search(4.0).step) == (1, 1.0)
    assert search(2.0).trials == 2  # its value is that at the start, so that nothing is lowered
    assert search(100.0).step == pytest.approx(1.0)
    assert search(4.0, ratios=(0.6, 0.6)).step == pytest.approx(4.0 * 0.6**2)


def test_backtracking_says_where_no_step_lowers_enough():
    assert not search(100.0, trials=1).accepted
    assert parabola_ratio(np.nan, -1.0, 0.1, 0.5) == 0.5
    assert parabola_ratio(np.inf, -1.0, 0.1, 0.5) == 0.1


@pytest.mark.ranks(1, 2, 3)
def test_lloyds_iteration_finds_two_heaps(comm):
    rows = np.array([[0.0], [1.0], [10.0], [11.0]])[comm.rank :: comm.size]

    def nearest(rows, centers):
        return np.abs(rows - centers.T).argmin(axis=1)

    labels, centers, moves = lloyd(comm, rows, np.array([[0.0], [1.0], [99.0]]), 10, nearest)
    np.testing.assert_array_equal(labels, (rows[:, 0] > 5.0).astype(int))
    np.testing.assert_allclose(centers[:, 0], [0.5, 10.5, 99.0])
    assert moves == 2


def rows(count, columns):
    random = np.random.default_rng(1)
    return random.standard_normal((count, columns)) * np.arange(1, columns + 1) + 100


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("way", ["covariance", "inner products", "subspace"])
def test_principal_components_are_those_of_the_whole(comm, monkeypatch, way):
    whole = rows(40, 50)
    limit = {"covariance": 50, "inner products": 45, "subspace": 5}[way]
    monkeypatch.setattr(principal, "EXACT_SIZE", limit)
    layout = Layout(comm, *whole.shape)
    found = layout.gather_rows(principal_components(layout.local(whole), layout, 3))
    left, sizes, _ = np.linalg.svd(whole - whole.mean(axis=0), full_matrices=False)
    wanted = left[:, :3] * sizes[:3]
    assert np.allclose(found * np.sign((found * wanted).sum(axis=0)), wanted, atol=1e-5 * sizes[0])


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_as_many_components_as_rows_end_with_one_that_is_zero(comm, monkeypatch, kind):
    monkeypatch.setattr(principal, "EXACT_SIZE", 8)
    whole = rows(5, 500).astype(kind)
    layout = Layout(comm, *whole.shape)
    found = layout.gather_rows(principal_components(layout.local(whole), layout, 5))
    sizes = np.linalg.svd(whole - whole.mean(axis=0))[1]
    wanted = pytest.approx(sizes, abs=100.0 * float(np.finfo(kind).eps * sizes[0]))
    assert np.linalg.norm(found, axis=0) == wanted


def test_squared_distances_hold_no_more_than_two_numbers_for_each_pair():
    points = np.random.default_rng(0).random((600, 3))
    tracemalloc.start()
    size, most = squared_distances(points, points).nbytes, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2.2 * size
    assert squared_distances(np.eye(2, dtype=int), np.ones((1, 2), int)).tolist() == [[1], [1]]


def test_distances_that_differ_by_the_order_of_coordinates_tie():
    for pair in np.random.default_rng(0).random((500, 2)):
        assert squared_distance(pair, np.zeros(2)) == squared_distance(pair[::-1], np.zeros(2))


def test_distances_and_directions_are_those_of_scipy():
    random = np.random.default_rng(1)
    a, b = random.standard_normal((7, 5)), random.standard_normal((4, 5))
    expected = cdist(a, b, "sqeuclidean")
    np.testing.assert_allclose(squared_distances(a, b), expected, rtol=1e-12)
    assert squared_distance(a[2], b[3]) == pytest.approx(expected[2, 3], rel=1e-14)
    scales = 10.0 ** np.array([[-300], [-160], [0], [160], [300], [0], [0]])
    a[5] = 0.0
    found = unit_rows(a * scales)
    lengths = np.linalg.norm(a, axis=1, keepdims=True)
    np.testing.assert_allclose(found, a / np.where(lengths > 0, lengths, 1), atol=1e-15)


def test_the_exponential_errs_by_two_units_in_the_last_place_at_most():
    for x in np.random.default_rng(0).uniform(-700.0, 700.0, 500):
        assert abs(exponential(x) - math.exp(x)) <= 2.0 * np.spacing(math.exp(x))
