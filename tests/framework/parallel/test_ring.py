"""The ring shows every pair of rows, once, to some rank, whatever the blocks."""

import numpy as np
import pytest

from thalweg.parallel import Layout, Ring


def blocks(comm, kind):
    """Layouts of 11 rows that are even, uneven, mostly on one rank; and of very few rows."""
    counts = {
        "even": None,
        "uneven": [6, 2, 3, 0],
        "one rank has all": [0, 11, 0, 0],
        "two rows": None,
        "no rows": None,
    }[kind]
    total = {"two rows": 2, "no rows": 0}.get(kind, 11)
    if counts is None or comm.size == 1:
        return Layout(comm, total)
    counts = counts[: comm.size]
    counts[-1] += total - sum(counts)
    return Layout(comm, total, local_rows=counts[comm.rank])


KINDS = ["even", "uneven", "one rank has all", "two rows", "no rows"]
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.ranks(1, 2, 3, 4)
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
        assert block.own == (block.owner == comm.rank)
        assert block.rows == slice(0, layout.local_rows)
        for array, received in zip(whole, block.arrays, strict=True):
            assert received.dtype == array.dtype
            assert not received.flags.writeable
            assert np.array_equal(received, array[block.start : block.stop])
    assert (seen == 1).all()
    assert owners == [(comm.rank + step) % comm.size for step in range(comm.size)]


@pytest.mark.ranks(1, 2, 3, 4)
@kinds
def test_pieces_of_blocks_meet_the_same_pairs(comm, kind):
    layout = blocks(comm, kind)
    values = np.arange(layout.rows * 2.0).reshape(-1, 2)
    for pieces in (1, 2, 5):
        for each_pair_once in (True, False):
            met = np.zeros((layout.rows, layout.rows))
            ring = Ring(layout).blocks(
                layout.local(values), each_pair_once=each_pair_once, pieces=pieces
            )
            for block in ring:
                rows = slice(layout.start + block.rows.start, layout.start + block.rows.stop)
                met[rows, block.start : block.stop] += 1
                np.testing.assert_array_equal(block.arrays[0], values[block.start : block.stop])
                if block.own and each_pair_once:  # those with i < j
                    met[rows, rows] = np.triu(np.ones((rows.stop - rows.start,) * 2), 1)
            total = sum(comm.allgather(met))
            if each_pair_once:
                total += total.T + np.eye(layout.rows)
            assert (total == 1).all()
    with pytest.raises(ValueError, match="go around whole"):
        Ring(layout).blocks(layout.local(values), contributions=layout.local(values), pieces=2)


@pytest.mark.ranks(2, 3, 4)
def test_a_round_with_each_pair_once_shares_the_work_out(comm):
    layout = Layout(comm, 240)
    work = 0.0
    for block in Ring(layout).blocks(np.zeros((layout.local_rows, 1)), each_pair_once=True):
        pairs = (block.rows.stop - block.rows.start) * (block.stop - block.start)
        work += pairs / 2 if block.own else pairs
    shares = comm.allgather(work)
    assert max(shares) <= 1.01 * min(shares)


@pytest.mark.ranks(1, 2, 3, 4)
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
    expected = (whole[:, None] - whole[None]).sum(1)
    assert np.allclose(force, layout.local(expected), atol=1e-12)
