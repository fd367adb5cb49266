"""Rows move to those who need them, and back: any type and width, at any number of ranks."""

import numpy as np
import pytest

from thalweg.parallel import Layout, RowExchange, RowPlan, RowRoutes

DTYPES = ["f8", "f4", "i8", "i4", "u1", "?", "c16", "S3", [("a", "f8"), ("b", "i2")]]
SHAPES = [(), (1,), (3,), (2, 5), (0,)]


def layouts(comm):
    yield Layout(comm, 17)
    yield Layout(comm, 1)  # fewer rows than ranks
    yield Layout(comm, 997)  # far more than are needed
    yield Layout(comm, 17, local_rows={1: [17], 2: [0, 17], 3: [12, 0, 5]}[comm.size][comm.rank])


def needed(layout, seed):
    """Row numbers, repeated and in disorder, others on each rank; on rank 0 none at first."""
    count = 0 if seed == 0 and layout.comm.rank == 0 else min(2 * layout.rows, 40)
    return np.random.default_rng([seed, layout.comm.rank]).integers(0, layout.rows, count)


def whole(layout, dtype, shape):
    numbers = np.random.default_rng(0).integers(0, 100, (layout.rows, *shape))
    if isinstance(dtype, list):
        found = np.zeros(numbers.shape, dtype)
        found["a"], found["b"] = numbers / 3, numbers
        return found
    return (numbers / 3 if dtype in ("f8", "f4", "c16") else numbers).astype(dtype)


@pytest.mark.ranks(1, 2, 3)
def test_every_rank_gets_the_rows_it_asked_for(comm):
    for layout in layouts(comm):
        for seed in range(2):
            rows = needed(layout, seed)
            plan = RowPlan.of(layout, rows)
            exchange = RowExchange(plan)
            for dtype in DTYPES:
                for shape in SHAPES:
                    array = whole(layout, dtype, shape)
                    block = layout.local(array)
                    ghosts = exchange.fetch(block)
                    assert ghosts.dtype == array.dtype
                    found = np.concatenate([block, ghosts])[plan.positions(rows)]
                    assert np.array_equal(found, array[rows])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1"])
def test_what_is_gathered_for_ghosts_reaches_their_owners(comm, dtype):
    for layout in layouts(comm):
        plan = RowPlan.of(layout, needed(layout, 1))
        exchange = RowExchange(plan)
        for shape in SHAPES:
            mine = (1 + np.arange(len(plan.ghosts)) % 3).astype(dtype)
            given = np.broadcast_to(mine.reshape(-1, *[1] * len(shape)), (len(mine), *shape))
            sums, least = np.full((2, layout.rows, *shape), 5, dtype)
            for ghosts, amounts in comm.allgather((plan.ghosts, mine)):
                for row, amount in zip(ghosts, amounts, strict=True):
                    sums[row] += amount
                    least[row] = np.minimum(least[row], amount)
            for combine, expected in ((exchange.add, sums), (exchange.minimum, least)):
                block = np.full((layout.local_rows, *shape), 5, dtype)
                combine(given.copy(), block)
                assert np.array_equal(block, layout.local(expected))


@pytest.mark.ranks(1)
def test_rows_and_arrays_that_do_not_fit_are_refused(comm):
    for row in (10, -1):
        with pytest.raises(ValueError, match="0 to 9"):
            RowPlan.of(Layout(comm, 10), [row])
    exchange = RowExchange(RowPlan.of(Layout(comm, 4), []))
    with pytest.raises(ValueError, match="not one of 4 rows"):
        exchange.fetch(np.zeros(3))
    with pytest.raises(ValueError, match="objects"):
        exchange.fetch(np.array([None] * 4))
    with pytest.raises(ValueError, match="type and row shape"):
        exchange.add(np.zeros((0, 2)), np.zeros((4, 3)))


@pytest.mark.ranks(2)
def test_a_fetch_that_an_error_leaves_writes_nowhere_else(comm):
    layout = Layout(comm, 1000, 8)
    exchange = RowExchange(RowPlan.of(layout, np.arange(1000)))
    for k in range(10):
        end = exchange.begin_fetch(np.full(layout.shape, 7.0))
        del end  # as the frame of an error does
        others = [np.zeros(layout.shape) for _ in range(3)]
        comm.Barrier()
        assert (exchange.fetch(np.full(layout.shape, float(k))) == k).all()
        assert not np.any(others)


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "?", "c8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (0,)])
def test_rows_go_where_they_are_sent_and_their_answers_come_back(comm, dtype, shape):
    mine = 11 * (comm.rank % 3)  # rank 0 has none
    generator = np.random.default_rng(comm.rank)
    block = generator.integers(0, 100, (mine, *shape)).astype(dtype)
    rows = generator.integers(0, mine, 4 * mine) if mine else np.arange(0)
    ranks = generator.integers(0, comm.size, len(rows))
    routes = RowRoutes(comm, ranks, rows)
    senders = np.repeat(np.arange(comm.size), routes.received)
    arrived = routes.deliver(block)
    assert arrived.dtype == block.dtype
    everyone = comm.allgather((rows, ranks, block))
    expected = [theirs[rows[ranks == comm.rank]] for rows, ranks, theirs in everyone]
    np.testing.assert_array_equal(arrived, np.concatenate(expected))
    assert len(senders) == len(arrived)
    np.testing.assert_array_equal(routes.give_back(arrived), block[routes.rows])
    once = RowRoutes(comm, np.full(mine, comm.size - 1))
    whole = sum(len(theirs) for *_, theirs in everyone)
    assert len(once.deliver(block)) == (whole if comm.rank == comm.size - 1 else 0)
