"""Rows go where their holder sends them, and come back."""

import numpy as np
import pytest

from thalweg.parallel import RowRoutes


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
