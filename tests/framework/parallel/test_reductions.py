"""Sums, inner products and norms over ranks: exact, the same on all, with infinities as usual."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from thalweg.parallel import (
    MPI,
    Layout,
    any_over_ranks,
    exact_sum,
    max_over_ranks,
    min_over_ranks,
    nth_over_ranks,
    raise_on_all_ranks,
    reductions,
    sum_large,
    sum_over_ranks,
    values_of_all_ranks,
)
from thalweg.parallel.layout import BLOCK, BLOCKS, add_multiples
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
def test_large_sums_have_the_bits_of_additions_in_the_order_of_ranks(
    comm, size, dtype, monkeypatch
):
    monkeypatch.setattr(reductions, "_STEP", 30_000)
    mine = (1e6 * np.random.default_rng(comm.rank).standard_normal((size, 1))).astype(dtype)
    parts = comm.allgather(mine)
    for root in range(comm.size):
        alone = mine.copy()
        sum_large(comm, alone, root=root)
        if comm.rank == root:
            assert alone.tobytes() == sum(parts[1:], parts[0]).tobytes()
    before = phases()["other"].bytes
    total = sum_large(comm, mine)
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


SIZES = [(0, 1), (1, 3), (100, 2), (BLOCK, 1), (BLOCK * BLOCKS // 2 + 77, 3)]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_inner_products_are_those_of_the_whole_on_every_rank(comm, rows, columns):
    layout = Layout(comm, rows, columns)
    a, *others = (layout.random_normal(seed) for seed in range(6))
    found = layout.dots(a, others)
    whole = layout.gather_rows(a)
    for product, other in zip(found, others, strict=True):
        exact = math.fsum((whole * layout.gather_rows(other)).ravel())
        assert product == pytest.approx(exact, rel=1e-12, abs=1e-12 * rows)
    assert (layout.dot(a, others[0]), comm.allgather(found)) == (found[0], [found] * comm.size)
    assert layout.dots(a, []) == []


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1.0, 1e160, 1e300])
def test_a_norm_neither_overflows_nor_vanishes(comm, scale):
    layout = Layout(comm, 5, 2)
    a = layout.random_normal(0)
    assert layout.norm(scale * a) == pytest.approx(scale * layout.norm(a), rel=1e-14)


@pytest.mark.ranks(1, 2)
def test_norms_of_what_is_zero_or_not_finite(comm):
    layout = Layout(comm, 4, 2)
    a = np.zeros(layout.shape)
    assert layout.norm(a) == 0.0
    for bad, expected in ((np.inf, np.inf), (-np.inf, np.inf), (np.nan, np.nan)):
        if comm.rank == 0:
            a[0, 1] = bad
        assert layout.norm(a) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("size", [0, 5, BLOCK + 3])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 9])
def test_multiples_are_added(size, count):
    rng = np.random.default_rng(0)
    total, others = rng.normal(size=size), list(rng.normal(size=(count, size)))
    weights = rng.normal(size=count)
    expected = total + sum((w * other for w, other in zip(weights, others, strict=True)), 0.0)
    add_multiples(total, weights, others)
    np.testing.assert_allclose(total, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("size", [BLOCK - 1, 50_001, 1_000_003])
def test_bits_do_not_depend_on_threads(size):
    layout = Layout(MPI.COMM_SELF, size)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            x, *others = (layout.random_normal(seed) for seed in range(7))
            x = layout.combine(x, [1 / 3], others[:1])
            x = layout.combine(x, [0.1 * i for i in range(6)], others)
            found.append((x.tobytes(), layout.dots(x, others)))
    assert found[0] == found[1]
