"""Maps of another rank stay near the map that they come from."""

import numpy as np
import pytest

from thalweg.parallel import MPI
from thalweg_isometry.map_ranks import extended, guessed_rank, sampled_ratios, truncated


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
