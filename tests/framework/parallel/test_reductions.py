"""Sums over ranks: exact, and with infinities as usual."""

from __future__ import annotations

import math

import numpy as np
import pytest

from thalweg.parallel import exact_sum, nth_over_ranks, sum_over_ranks


def test_finite_sums_are_exact():
    assert exact_sum([1e16, 1.0, -1e16]) == 1.0


@pytest.mark.parametrize(
    ("terms", "total"),
    [([math.inf, 1.0], math.inf), ([math.inf, -math.inf], math.nan), ([1e308, 1.5e308], math.inf)],
)
def test_what_has_no_finite_sum_is_infinite_or_nan(terms, total):
    np.testing.assert_equal(exact_sum(terms), total)


@pytest.mark.ranks(2)
def test_infinities_of_two_ranks_that_cancel_give_nan(comm):
    mine = math.inf if comm.rank == 0 else -math.inf
    assert math.isnan(sum_over_ranks(comm, mine))
    assert np.isnan(sum_over_ranks(comm, np.array([mine, 1.0]))).tolist() == [True, False]


@pytest.mark.ranks(1, 3)
def test_the_value_of_any_place_is_found_without_gathering(comm):
    random = np.random.default_rng(0)
    for values in (
        random.standard_normal(20) ** 2 * 10.0 ** random.integers(-300, 300, 20),
        random.integers(0, 4, 20),  # many are equal
        np.array([0.0, np.inf, 1e-310]),
    ):
        mine = values[comm.rank :: comm.size] if comm.rank != 1 else values[:0]
        every = np.sort(np.concatenate(comm.allgather(mine)))
        assert [nth_over_ranks(comm, mine, n) for n in range(len(every))] == every.tolist()
