"""Rows go where their holder sends them and come back; blocks of rows turn to blocks of columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from thalweg.engines.laplacian import Relocation, RowMatrix
from thalweg.parallel import Layout, RowRoutes
from thalweg.parallel.traffic import phases
from thalweg_embedding.affinities import coarse_cells
from thalweg_embedding.affinities.coarse_cells import CoarseCells
from thalweg_embedding.pairs.pencils import RankGrid, Transposition, grid_shape


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


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("shape", [(7, 5), (2, 9), (9, 2), (6, 3, 8), (0, 4), (1, 1)])
def test_blocks_of_rows_turn_to_blocks_of_columns_and_back(comm, shape):
    whole = np.random.default_rng(0).random(shape).astype(np.complex64)
    turned = Transposition(comm, shape[0], shape[-1])
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


@pytest.mark.ranks(1, 2, 3)
def test_a_relocated_matrix_has_the_entries_and_products_of_the_whole(comm):
    whole = scipy.sparse.random(40, 40, 0.2, random_state=0, format="csr")
    layout = Layout(comm, 40, 2)
    places = Relocation(
        layout, np.random.default_rng(comm.rank).integers(0, comm.size, layout.local_rows)
    )
    names = places.forward(np.arange(layout.start, layout.stop))
    numbers = places.new_numbers(np.arange(40))
    assert sorted(numbers) == list(range(40))
    np.testing.assert_array_equal(places.original_numbers(numbers), np.arange(40))
    back = np.argsort(numbers)
    there = whole[names][:, back].tocsr()  # rows and columns as placed
    mine = slice(layout.start, layout.stop)
    np.testing.assert_array_equal(places.backward_matrix(there).toarray(), whole[mine].toarray())
    block = layout.random_normal(0)
    expected = whole[mine] @ layout.gather_rows(block)
    for kind in (there, there.toarray()):
        matrix = RowMatrix(layout, kind, places)
        np.testing.assert_allclose(matrix.multiply(block), expected, atol=1e-12)
        matrix.destroy()


@pytest.mark.ranks(2, 3)
def test_coarse_cells_share_rows_out_and_keep_near_ones_together(comm):
    layout = Layout(comm, 2_000, 3)
    values = layout.random_normal(0) + 30.0 * (np.arange(layout.start, layout.stop) % 8)[:, None]
    places = CoarseCells.of(layout, values).relocation(layout, values)
    assert places.layout.counts().max() <= 1.5 * layout.rows / comm.size
    clouds = places.forward(np.arange(layout.start, layout.stop) % 8)
    parts = np.array(comm.allgather(np.bincount(clouds, minlength=8)))
    assert ((parts > 0).sum(axis=0) <= 2).all()
    assert ((parts > 0).sum(axis=0) == 1).sum() >= 8 - comm.size


@pytest.mark.ranks(1, 2, 3)
def test_centers_are_those_of_k_means_though_no_rank_has_the_sample(comm, monkeypatch):
    held = []
    nearest = coarse_cells._nearest

    def noting(values, centers, most):
        held.append(len(values))
        return nearest(values, centers, most)

    monkeypatch.setattr(coarse_cells, "_nearest", noting)
    layout = Layout(comm, 3_000, 3)
    values = layout.random_normal(0)
    found = coarse_cells._centers(layout, values, seed=1)
    count = coarse_cells.CELLS * comm.size
    drawn = np.linspace(0, layout.rows - 1, coarse_cells.SAMPLED * count).astype(int)
    assert max(held) <= len(drawn) / comm.size + 1
    sample = layout.gather_rows(values)[drawn]
    centers = sample[np.sort(np.random.default_rng(1).choice(len(drawn), count, replace=False))]
    for _ in range(10):
        cell = ((sample[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        centers = np.array([sample[cell == each].mean(axis=0) for each in range(count)])
    np.testing.assert_allclose(found, centers, atol=1e-5)
    for again in (comm.bcast(found), coarse_cells._centers(layout, values, seed=1)):
        np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("heavy", range(6))
@pytest.mark.parametrize("ranks", [2, 3, 5, 6])
def test_each_rank_gets_a_cell_wherever_the_rows_are(heavy, ranks):
    centers = np.arange(6.0)[:, None]
    counts = np.where(np.arange(6) == heavy, 1000, 1)
    found = coarse_cells._ranks_of_cells(centers, counts, ranks)
    assert set(found) == set(range(ranks))
    assert (np.diff(found) >= 0).all()  # neighbors stay together
