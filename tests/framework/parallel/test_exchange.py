"""Rows and blocks reach those who need them, and back; what is sent counts for its phase."""

import os
import time

import numpy as np
import pytest

from thalweg.parallel import Layout, Ring, RowExchange, RowPlan, RowRoutes, phase, sum_over_ranks
from thalweg.parallel.traffic import phases, profile
from thalweg.workbench.command.main import main
from thalweg.workbench.report.tables import profile_table

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
                    some = np.arange(0, layout.rows, 3)
                    assert np.array_equal(layout.gather_some(block, some), array[some])


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


@pytest.mark.ranks(1, 2, 3)
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
    np.testing.assert_array_equal(routes.give_back(arrived), block[rows])
    once = RowRoutes(comm, np.full(mine, comm.size - 1))
    whole = sum(len(theirs) for *_, theirs in everyone)
    assert len(once.deliver(block)) == (whole if comm.rank == comm.size - 1 else 0)


def blocks(comm, kind):
    """Layouts of 11 rows that are even, uneven, mostly on one rank; and of very few rows."""
    counts = {"uneven": [6, 2, 3, 0], "one rank has all": [0, 11, 0, 0]}.get(kind)
    total = {"two rows": 2, "no rows": 0}.get(kind, 11)
    if counts is None or comm.size == 1:
        return Layout(comm, total)
    counts = counts[: comm.size]
    counts[-1] += total - sum(counts)
    return Layout(comm, total, local_rows=counts[comm.rank])


KINDS = ["even", "uneven", "one rank has all", "two rows", "no rows"]
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.ranks(1, 2, 3)
@kinds
def test_every_rank_sees_every_row_of_every_array(comm, kind):
    layout = blocks(comm, kind)
    whole = (
        np.arange(layout.rows * 3, dtype=np.float32).reshape(-1, 3),
        np.arange(layout.rows, dtype=np.int64) ** 2,
        np.arange(layout.rows * 5, dtype=np.uint8).reshape(-1, 5),
    )
    mine = [layout.local(array) for array in whole]
    seen = np.zeros(layout.rows, dtype=int)
    owners = []
    for block in Ring(layout).blocks(*mine):
        owners.append(block.owner)
        seen[block.start : block.stop] += 1
        assert (block.own, block.rows) == (block.owner == comm.rank, slice(0, layout.local_rows))
        for array, received in zip(whole, block.arrays, strict=True):
            assert received.dtype == array.dtype
            assert not received.flags.writeable
            assert np.array_equal(received, array[block.start : block.stop])
    assert (seen == 1).all()
    assert owners == [(comm.rank + step) % comm.size for step in range(comm.size)]


@pytest.mark.ranks(1, 2, 3)
@kinds
def test_pieces_of_blocks_meet_the_same_pairs(comm, kind):
    layout = blocks(comm, kind)
    values = np.arange(layout.rows * 2.0).reshape(-1, 2)
    for pieces in (1, 2, 5):
        for once in (True, False):
            met = np.zeros((layout.rows, layout.rows))
            ring = Ring(layout).blocks(layout.local(values), each_pair_once=once, pieces=pieces)
            for block in ring:
                rows = slice(layout.start + block.rows.start, layout.start + block.rows.stop)
                met[rows, block.start : block.stop] += 1
                np.testing.assert_array_equal(block.arrays[0], values[block.start : block.stop])
                if block.own and once:  # those with i < j
                    met[rows, rows] = np.triu(np.ones((rows.stop - rows.start,) * 2), 1)
            total = sum(comm.allgather(met))
            if once:
                total += total.T + np.eye(layout.rows)
            assert (total == 1).all()
    even = Ring(Layout(comm, 20 * comm.size, 1))
    others = [b for b in even.blocks(np.zeros(20), each_pair_once=True, pieces=10) if not b.own]
    work = [(block.rows.stop - block.rows.start) * (block.stop - block.start) for block in others]
    # Ranks that wait for each other have as much to do in every two pieces.
    sums = comm.allgather([one + other for one, other in zip(work[::2], work[1::2], strict=True)])
    assert np.unique(sums).size <= 1
    with pytest.raises(ValueError, match="go around whole"):
        Ring(layout).blocks(layout.local(values), contributions=layout.local(values), pieces=2)


@pytest.mark.ranks(2, 3)
def test_a_round_with_each_pair_once_shares_the_work_out(comm):
    layout = Layout(comm, 240)
    work = 0.0
    for block in Ring(layout).blocks(np.zeros((layout.local_rows, 1)), each_pair_once=True):
        pairs = (block.rows.stop - block.rows.start) * (block.stop - block.start)
        work += pairs / 2 if block.own else pairs
    shares = comm.allgather(work)
    assert max(shares) <= 1.01 * min(shares)


@pytest.mark.ranks(1, 2, 3)
@kinds
@pytest.mark.parametrize("each_pair_once", [True, False])
def test_contributions_reach_their_owners(comm, kind, each_pair_once):
    layout = blocks(comm, kind)
    points = layout.with_columns(2).random_normal(3)
    whole = layout.gather_rows(points)
    force = np.zeros_like(points)
    for block in Ring(layout).blocks(points, each_pair_once=each_pair_once, contributions=force):
        (theirs,) = block.arrays
        difference = points[block.rows, None] - theirs[None]
        if each_pair_once and block.own:
            difference = np.triu(np.ones(difference.shape[:2]), 1)[..., None] * difference
        if each_pair_once:
            force[block.rows] += difference.sum(1)
        block.contributions[...] -= difference.sum(0)
    assert np.allclose(force, layout.local((whole[:, None] - whole[None]).sum(1)), atol=1e-12)


@pytest.mark.ranks(1, 2, 3)
def test_messages_and_seconds_count_for_the_innermost_phase(comm):
    layout = Layout(comm, 30, 2)
    before = phases()
    with phase("outside"):
        layout.gather_rows(np.zeros((layout.local_rows, 2)))
        with phase("inside"):
            time.sleep(0.02)
            sum_over_ranks(comm, np.zeros(5))
    ranks = profile(comm, before)
    assert len(ranks) == comm.size
    for rank, entry in enumerate(ranks):
        outside, inside = entry["phases"]["outside"], entry["phases"]["inside"]
        several = comm.size > 1
        assert (inside["bytes"], inside["messages"]) == (40 * several, several)
        assert outside["messages"] == comm.size - 1
        assert outside["bytes"] == 16 * layout.counts()[rank] * (comm.size - 1)
        assert inside["seconds"] >= 0.02
        assert entry["peak_memory"] > 1e6
    table = profile_table(ranks)
    assert "inside" in table
    assert table.count("\n") >= 4


@pytest.mark.petsc
def test_what_follows_two_dashes_is_for_petsc(capsys, monkeypatch):
    monkeypatch.setenv("PETSC_OPTIONS", "-before 1")
    assert main(["--version", "--", "-after", "-ksp_type", "cg"]) == 0
    assert os.environ["PETSC_OPTIONS"] == "-before 1 -after -ksp_type cg"
    assert "thalweg" in capsys.readouterr().out
