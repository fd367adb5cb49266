"""Sums over ranks: exact, and with infinities as usual."""

import math
from contextlib import nullcontext

import numpy as np
import pytest

from thalweg.parallel import (
    MPI,
    any_over_ranks,
    exact_sum,
    max_over_ranks,
    min_over_ranks,
    nth_over_ranks,
    raise_on_all_ranks,
    sum_large,
    sum_over_ranks,
    values_of_all_ranks,
)
from thalweg.parallel.traffic import phases


@pytest.mark.parametrize(
    ("terms", "total"),
    [([math.inf, 1.0], math.inf), ([math.inf, -math.inf], math.nan), ([1e308, 1.5e308], math.inf)],
)
def test_what_has_no_finite_sum_is_infinite_or_nan(terms, total):
    np.testing.assert_equal(exact_sum(terms), total)


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
@pytest.mark.parametrize("size", [0, 1, 7, 20_000, 50_001])  # by one message, or in two steps
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_large_sums_have_the_bits_of_additions_in_the_order_of_ranks(comm, size, dtype):
    numbers = np.random.default_rng(comm.rank).standard_normal(size) * 1e6
    mine = numbers.astype(dtype).reshape(-1, 1)
    parts = comm.allgather(mine)
    for root in range(comm.size):
        alone = mine.copy()
        sum_large(comm, alone, step=30_000, root=root)
        if comm.rank == root:
            assert alone.tobytes() == sum(parts[1:], parts[0]).tobytes()
    before = phases()["other"].bytes
    total = sum_large(comm, mine, step=30_000)
    sent = phases()["other"].bytes - before
    expected = parts[0].copy()
    for part in parts[1:]:
        expected += part
    assert total is mine
    assert total.tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match="contiguous") if comm.size > 1 else nullcontext():
        sum_large(comm, np.zeros((6, 4))[:, ::2])
    if size >= 20_000:
        # Of the array each rank sends 2 (P - 1) / P, and no rank more than another.
        assert abs(sent - 2 * (comm.size - 1) / comm.size * mine.nbytes) <= 16 * comm.size**2


@pytest.mark.ranks(1, 2, 3)
def test_numbers_of_all_ranks_keep_their_type_and_order(comm):
    for mine in (3.5 * comm.rank, comm.rank == 1, 2**62 + comm.rank, np.arange(4) - comm.rank):
        found = values_of_all_ranks(comm, mine)
        assert found.dtype == np.asarray(mine).dtype
        np.testing.assert_array_equal(found, np.array(comm.allgather(mine)))
    assert any_over_ranks(comm, comm.rank == comm.size - 1)
    assert not any_over_ranks(comm, False)
    assert sum_over_ranks(comm, comm.rank) == comm.size * (comm.size - 1) / 2
    assert max_over_ranks(comm, -float(comm.rank)) == 0.0
    assert min_over_ranks(comm, np.float32(-comm.rank)) == 1.0 - comm.size
    assert math.isnan(max_over_ranks(comm, math.nan if comm.rank == 0 else 1.0))


@pytest.fixture
def no_pickle():
    def refused(*_):
        raise AssertionError("a number was pickled")

    MPI.pickle.__init__(refused, refused)
    yield
    MPI.pickle.__init__()


@pytest.mark.ranks(2)
def test_reductions_of_numbers_pickle_nothing(comm, no_pickle):
    with pytest.raises(AssertionError, match="pickled"):
        comm.allgather(0.5)
    assert sum_over_ranks(comm, 0.5) == 1.0
    assert max_over_ranks(comm, comm.rank) == 1.0
    assert any_over_ranks(comm, comm.rank == 1)
    with raise_on_all_ranks(comm):
        pass
