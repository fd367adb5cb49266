"""Repulsion by slabs is that of one rank, and no rank sends or holds more than its share."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from thalweg.parallel import MPI, Layout
from thalweg.parallel.traffic import phases
from thalweg_embedding.pairs import boxes, decomposition
from thalweg_embedding.pairs.cells import bounding_box
from thalweg_embedding.pairs.functions import GAUSSIAN, STUDENT
from thalweg_embedding.pairs.grid_pairs import GridPairs
from thalweg_embedding.pairs.mesh import Transposition
from thalweg_embedding.pairs.pair_sum import SecondOrder


@pytest.fixture(autouse=True)
def slabs_at_any_size(monkeypatch):
    monkeypatch.setattr(decomposition, "SLAB_ROWS", 0)


def the_map(shape, rows, dimensions=2):
    """A map, the same on all ranks, in an order that has nothing to do with place."""
    whole = 5.0 * np.random.default_rng(0).standard_normal((rows, dimensions))
    if shape == "clusters":
        whole += 150.0 * (np.arange(rows) % 3)[:, None]
    elif shape == "collapsed":
        whole *= 1e-5
    elif shape == "vertical":
        whole[:, 0] = 3.0
    elif shape == "horizontal":
        whole[:, 1] = 0.0
    return whole


SHAPES = ["cloud", "clusters", "collapsed", "vertical", "horizontal"]


def everything(layout, whole, function, tolerance):
    """Total, slopes, product, diagonals: of this rank's rows."""
    rows = layout.local(whole).copy()
    moves = layout.local(np.random.default_rng(1).standard_normal(whole.shape)).copy()
    pairs = GridPairs(layout, function, tolerance)
    total, slopes = pairs.total_and_slopes(rows)
    return total, [slopes, *(pairs.second_order(k, rows, moves, 0.0) for k in SecondOrder)]


def agree(layout, found, wanted, tolerance):
    """Assert that this rank's rows are those of one rank, relative to the largest entry."""
    for mine, theirs in zip(found, wanted, strict=True):
        error = np.abs(mine - layout.local(theirs)).max(initial=0.0)
        assert error <= tolerance * np.abs(theirs).max() + 1e-9


def same_bits(first, second):
    """Assert that two evaluations gave the same total and the same arrays."""
    assert first[0] == second[0]
    for mine, theirs in zip(first[1], second[1], strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("shape", SHAPES)
def test_slabs_give_what_one_rank_gives_and_the_same_bits_each_time(comm, shape):
    for function, rows, dimensions in ((STUDENT, 500, 2), (GAUSSIAN, 300, 2), (STUDENT, 200, 3)):
        whole = the_map(shape, rows, dimensions)
        layout = Layout(comm, rows, dimensions)
        alone = Layout(MPI.COMM_SELF, rows, dimensions)
        expected, wanted = everything(alone, whole, function, 1e-4)
        total, found = everything(layout, whole, function, 1e-4)
        assert total == pytest.approx(expected, rel=1e-5)
        agree(layout, found, wanted, 1e-4)
        same_bits((total, found), everything(layout, whole, function, 1e-4))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("cut", [4.0, 2.0**-4, 2.0**-8])
def test_the_halo_holds_all_near_pairs_wherever_a_split_cuts(comm, monkeypatch, cut):
    monkeypatch.setattr(boxes, "CUTS", (cut,))
    whole = the_map("cloud", 300)
    layout, alone = Layout(comm, 300, 2), Layout(MPI.COMM_SELF, 300, 2)
    (total, slopes), (wanted, every) = (
        GridPairs(each, STUDENT, 1e-6).total_and_slopes(each.local(whole).copy())
        for each in (layout, alone)
    )
    assert total == pytest.approx(wanted, rel=1e-9)
    np.testing.assert_allclose(slopes, layout.local(every), atol=1e-7 * np.abs(every).max())


def slab_of(comm, whole):
    """This rank's rows and slab of a map, whose density is that on one rank to the bit."""
    layout, alone = Layout(comm, *whole.shape), Layout(MPI.COMM_SELF, *whole.shape)
    mine = layout.local(whole).copy()
    center, extent = bounding_box(layout, mine)
    slab = decomposition.decompose(layout, mine, center, extent)
    assert slab.density() == decomposition.decompose(alone, whole, center, extent).density()
    return layout, mine, slab


@pytest.mark.ranks(2, 3)
def test_ranks_hold_and_send_their_share(comm):
    rows = 8_000
    layout, mine, held = slab_of(comm, the_map("clusters", rows))
    assert len(held.points) < 1.5 * rows / comm.size
    np.testing.assert_array_equal(held.to_rows(held.from_rows(mine)), mine)

    pairs = GridPairs(layout, STUDENT, 1e-2)
    pairs.total_and_slopes(mine)  # makes the spectrum
    before = phases()["other"].bytes
    pairs.total_and_slopes(mine)
    sent = phases()["other"].bytes - before
    box = pairs._boxes.place(mine).box
    placed = box.mesh
    halo = len(held.halo(box.split.radius)(held.points)) - len(held.points)
    halo = max(comm.allgather(halo))
    points = 16 * (2 * rows / comm.size + halo)  # there and back
    # Rows of the mesh there, and of two fields back; the transposed modes likewise.
    largest = 4.0 / comm.size + 2.0 * placed.window.taps / placed.used
    fields = 3 * 4 * placed.used**2 * min(1.0, largest)
    fields += 3 * 8 * placed.used * placed.kept / comm.size
    assert 0 < sent < 1.5 * (points + fields) + 4_000


@pytest.mark.ranks(2, 3)
def test_the_halo_of_a_slab_has_all_points_that_are_near(comm):
    rows = 3_000
    whole = the_map("clusters", rows, 3)
    slab = slab_of(comm, whole)[2]
    assert len(slab.points) < 2.0 * rows / comm.size
    for radius in (0.5, 5.0):
        reached = slab.halo(radius)(slab.points)
        np.testing.assert_array_equal(reached[: len(slab.points)], slab.points)
        assert len(np.unique(reached, axis=0)) == len(reached)
        near = cKDTree(slab.points).query(whole)[0] <= radius
        assert near.sum() == (cKDTree(slab.points).query(reached)[0] <= radius).sum()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("shape", [(7, 5), (2, 9), (9, 2), (6, 3, 8), (0, 4), (1, 1)])
def test_blocks_of_rows_turn_to_blocks_of_columns_and_back(comm, shape):
    whole = np.random.default_rng(0).random(shape).astype(np.complex64)
    turned = Transposition(comm, shape[0], shape[-1], (0, len(shape) - 1))
    rows, columns = Layout(comm, shape[0]), Layout(comm, shape[-1])
    block, part = rows.local(whole), whole[..., columns.start : columns.stop]
    before = phases()["other"].bytes
    np.testing.assert_array_equal(turned.to_columns(block), part)
    assert (phases()["other"].bytes - before) <= block.nbytes
    np.testing.assert_array_equal(turned.to_rows(part), block)
