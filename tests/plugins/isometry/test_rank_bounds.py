"""No embedding beats the rank bounds, and they are what theory says where that is known."""

import itertools

import numpy as np
import pytest

from thalweg.parallel import MPI
from thalweg_isometry.map_ranks import extended, guessed_rank, sampled_ratios, truncated
from thalweg_isometry.rank_bounds import alon_bound, rank_lower_bound, weyl_bound


def squared_distances(points):
    return ((points[:, None] - points) ** 2).sum(axis=2)


def scaled_delta(points, psi):
    """Delta of the best multiple of psi, and that multiple's ratios."""
    upper = np.triu_indices(len(points), 1)
    ratios = squared_distances(points @ psi.T)[upper] / squared_distances(points)[upper]
    return (ratios.max() - ratios.min()) / (ratios.max() + ratios.min())


@pytest.mark.parametrize("seed", range(60))
def test_no_linear_map_has_a_rank_below_the_bound_for_its_delta(seed):
    random = np.random.default_rng(seed)
    n, dimension = int(random.integers(3, 40)), int(random.integers(2, 30))
    points = random.standard_normal((n, dimension)) * random.uniform(0.1, 3, dimension)
    rank = int(random.integers(1, dimension + 1))
    _, _, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    for psi in (directions[:rank], random.standard_normal((rank, dimension))):
        delta = scaled_delta(points, psi)
        assert rank_lower_bound(points, delta) <= min(rank, dimension)


def test_perturbed_distances_of_any_embedding_respect_each_bound():
    random = np.random.default_rng(1)
    for rank, delta in itertools.product((1, 2, 4), (0.05, 0.2, 0.5)):
        images = random.standard_normal((12, rank))
        # Nonlinear: any distances within the bounds may be the originals.
        change = random.uniform(-delta, delta, (12, 12))
        change = np.triu(change, 1) + np.triu(change, 1).T
        originals = squared_distances(images) / (1.0 + change)
        assert weyl_bound(originals, delta) <= rank
        assert np.ceil(alon_bound(originals, delta) - 1e-9) <= rank


def test_the_worst_case_of_alons_bound_is_no_larger_than_a_search_finds():
    random = np.random.default_rng(2)
    distances = squared_distances(random.standard_normal((7, 7)))
    delta, k = 0.3, 7
    centring = np.eye(k) - 1.0 / k
    least = np.inf
    for _ in range(4000):
        signs = np.sign(random.standard_normal((k, k)) + random.normal())
        signs = np.triu(signs, 1) + np.triu(signs, 1).T
        gram = -0.5 * centring @ (distances * (1 + delta * signs)) @ centring
        least = min(least, np.trace(gram) ** 2 / (gram**2).sum())
    assert alon_bound(distances, delta) <= least


def test_equidistant_points_come_near_one_over_delta_squared():
    points = np.eye(2000)[:, :2000]
    distances = 2.0 * (1.0 - np.eye(2000))
    assert 85 < alon_bound(distances, 0.1) <= 99.0
    assert rank_lower_bound(points[:60, :60], 0.1) > 20


def test_delta_of_one_needs_no_rank_at_all():
    assert rank_lower_bound(np.eye(4), 1.0) == 0
    assert rank_lower_bound(np.ones((4, 2)), 0.1) == 0


@pytest.fixture
def psi():
    return np.random.default_rng(0).standard_normal((4, 9))


def test_a_truncated_map_is_the_nearest_of_its_rank(psi):
    values = np.linalg.svd(psi, compute_uv=False)
    low = truncated(psi, 2)
    missing = np.linalg.eigvalsh(psi.T @ psi - low.T @ low)
    np.testing.assert_allclose(missing[-2:][::-1], values[2:] ** 2, rtol=1e-10)


def test_an_extended_map_keeps_its_rows_and_sees_more(psi):
    more = extended(psi, 7, np.eye(9), seed=0)
    np.testing.assert_array_equal(more[:4], psi)
    assert np.linalg.matrix_rank(more) == 7


def test_a_map_can_have_more_rows_than_there_are_directions(psi):
    assert extended(psi[:1], 6, np.eye(9)[:2], seed=0).shape == (6, 9)


def test_a_tighter_delta_asks_for_a_higher_rank(digits, secants_of):
    secants = secants_of(digits, MPI.COMM_SELF)
    ranks = [guessed_rank(secants, delta, "bracket") for delta in (0.8, 0.4, 0.1)]
    assert ranks == sorted(ranks)
    assert 1 <= ranks[0] < ranks[-1] <= digits.shape[1]


def test_the_identity_keeps_every_length(digits):
    np.testing.assert_allclose(sampled_ratios(digits[:50], np.eye(digits.shape[1])), 1.0)
