"""Blocks of rows turn to blocks of columns, over ranks in a row or in a grid."""

import numpy as np
import pytest

from thalweg.parallel import Layout
from thalweg.parallel.traffic import phases
from thalweg_embedding.pairs.pencils import RankGrid, Transposition, grid_shape


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("shape", [(7, 5), (2, 9), (9, 2), (6, 3, 8), (0, 4), (1, 1)])
def test_blocks_of_rows_turn_to_blocks_of_columns_and_back(comm, shape):
    whole = np.random.default_rng(0).random(shape).astype(np.complex64)
    turned = Transposition(comm, shape[0], shape[-1], (0, len(shape) - 1))
    rows, columns = Layout(comm, shape[0]), Layout(comm, shape[-1])
    block, part = rows.local(whole), whole[..., columns.start : columns.stop]
    before = phases()["other"].bytes
    np.testing.assert_array_equal(turned.to_columns(block), part)
    sent = phases()["other"].bytes - before
    assert sent <= block.nbytes
    np.testing.assert_array_equal(turned.to_rows(part), block)


@pytest.mark.ranks(1, 4)
@pytest.mark.parametrize("lengths", [(7, 5, 9, 11), (2, 3, 4, 1), (1, 8, 6, 5)])
def test_pencils_have_each_axis_whole_in_turn_on_any_grid_of_ranks(comm, lengths):
    first, second, turned, last = lengths
    random = np.random.default_rng(0)
    whole = random.random((first, second, last))
    after = random.random((first, turned, last))  # what a transform makes of the second axis
    for shape in {(1, comm.size), (comm.size, 1), (2, comm.size // 2), (comm.size // 2, 1)}:
        if 0 in shape or shape[0] * shape[1] > comm.size:
            continue
        grid = RankGrid(comm, shape)
        across, along = grid.transpositions(*lengths)
        assert grid.takes_part == (comm.rank < shape[0] * shape[1])
        a, b = (slice(part.rows.start, part.rows.stop) for part in (along, across))
        c = slice(across.columns.start, across.columns.stop)
        lines = whole[a, b]
        owned = grid.owners(*np.divmod(np.arange(first * second), second), (first, second))
        mine = np.stack(np.divmod(np.flatnonzero(owned == comm.rank), second))
        np.testing.assert_array_equal(whole[mine[0], mine[1]], lines.reshape(-1, last))
        here = across.to_columns(lines)
        np.testing.assert_array_equal(here, whole[a, :, c] if grid.takes_part else here[:0])
        np.testing.assert_array_equal(across.to_rows(here), lines[..., : across.columns.rows])
        block = after[a, :, c] if grid.takes_part else np.zeros((0, turned, 0))
        part = slice(along.columns.start, along.columns.stop)
        there = along.to_columns(block)
        np.testing.assert_array_equal(there, after[: along.rows.rows, part, c])
        np.testing.assert_array_equal(along.to_rows(there), block[:, : along.columns.rows])
        again = RankGrid(comm, shape)  # communicators are made once
        assert again.along is grid.along
        assert again.across is grid.across


def test_ranks_are_in_slabs_until_there_are_more_than_rows_then_in_the_squarest_grid():
    assert [grid_shape(ranks, 8, 6) for ranks in (1, 7, 8)] == [(1, 1), (7, 1), (8, 1)]
    assert grid_shape(9, 8, 6) == (3, 3)
    assert grid_shape(11, 8, 6) == (2, 5)  # one rank of a prime number is left
    assert grid_shape(36, 8, 6) == (6, 6)
    assert grid_shape(1000, 8, 6) == (8, 6)
    assert grid_shape(10_000, 192, 128) == (100, 100)
