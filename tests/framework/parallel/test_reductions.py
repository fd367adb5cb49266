"""Sums over ranks: exact, and with infinities as usual."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest

from thalweg.parallel import (
    any_over_ranks,
    exact_sum,
    max_over_ranks,
    min_over_ranks,
    nth_over_ranks,
    phases,
    sum_large,
    sum_over_ranks,
)


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


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("shape", [(0,), (1,), (2, 1), (7, 3), (4, 5, 6)])
def test_a_large_sum_has_one_value_on_all_ranks_and_no_rank_sends_more_than_others(comm, shape):
    parts = [np.random.default_rng(rank).standard_normal(shape) for rank in range(comm.size)]
    for step in (2**28, 5):
        mine = parts[comm.rank].copy()
        before = phases()["other"].bytes
        assert sum_large(comm, mine, step) is mine
        sent = phases()["other"].bytes - before
        np.testing.assert_allclose(mine, sum(parts), rtol=1e-12, atol=1e-12)
        assert len({array.tobytes() for array in comm.allgather(mine)}) == 1
        assert set(comm.allgather(sent)) == {2 * mine.nbytes * (comm.size - 1) // comm.size}
    with pytest.raises(ValueError, match="contiguous") if comm.size > 1 else nullcontext():
        sum_large(comm, np.zeros((6, 4))[:, ::2])


@pytest.mark.ranks(1, 3)
def test_numbers_of_ranks_are_compared_and_flags_joined(comm):
    mine = float([5, -2, 7][comm.rank])
    every = comm.allgather(mine)
    assert max_over_ranks(comm, mine) == max(every)
    assert min_over_ranks(comm, np.float32(mine)) == min(every)
    assert sum_over_ranks(comm, comm.rank) == comm.size * (comm.size - 1) / 2
    assert math.isnan(max_over_ranks(comm, math.nan if comm.rank == 0 else mine))
    assert any_over_ranks(comm, comm.rank == comm.size - 1)
    assert not any_over_ranks(comm, False)
