"""Nearest neighbors are exact, whatever the data, the blocks and the number of ranks."""

import numpy as np
import pytest
import scipy.linalg

from thalweg.engines.neighbors import nearest_neighbors, neighbors
from thalweg.errors import InputError, NumericalError
from thalweg.parallel import MPI, Layout
from thalweg.parallel.traffic import phases


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Bands and samples so small that hundreds of rows have many."""
    monkeypatch.setattr(neighbors, "_BAND", 48)
    monkeypatch.setattr(neighbors, "_SAMPLE", 64)


def recorded(monkeypatch, rows):
    """How often each pair of rows, the lower number first, is looked at on this rank."""
    met = np.zeros((rows, rows), dtype=np.int64)

    def recording(tile, top, left, triangle, k, scale, *sides):
        one, other = sides[1][top : top + len(tile)], sides[7][left : left + tile.shape[1]]
        i, j = np.nonzero(np.triu(np.ones(tile.shape), 1 if triangle else -rows))
        met[np.minimum(one[i], other[j]), np.maximum(one[i], other[j])] += 1
        return search(tile, top, left, triangle, k, scale, *sides)

    search = neighbors.kernels.filter_tile
    monkeypatch.setattr(neighbors.kernels, "filter_tile", recording)
    return met


def brute_force(points, k):
    points = np.asarray(points, dtype=float)
    squared = np.array([((points - point) ** 2).sum(axis=1) for point in points])
    np.fill_diagonal(squared, np.inf)
    indices = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return indices, np.take_along_axis(squared, indices, axis=1)


def assert_exact(comm, points, k, local_rows=None):
    layout = Layout(comm, len(points), points.shape[1], local_rows=local_rows)
    indices, distances = nearest_neighbors(layout, layout.local(points), k)
    assert indices.shape == distances.shape == (layout.local_rows, k)
    expected, squared = brute_force(points, k)
    assert np.array_equal(indices, layout.local(expected))
    assert np.allclose(distances, layout.local(squared), rtol=1e-13, atol=0)


def cloud(rows, columns, seed=0):
    # Differences of such numbers, their squares and sums are exact in any order.
    return np.random.default_rng(seed).integers(-1000, 1000, (rows, columns)).astype(float)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(("rows", "k", "far"), [(700, 1, 0.0), (700, 300, 0.0), (2500, 7, 1e37)])
def test_neighbors_of_a_cloud(comm, rows, k, far):
    points = cloud(rows, 5)
    points[0, 0] += far  # as a number that stands for no measurement
    assert_exact(comm, points, k)


@pytest.mark.ranks(3)
def test_a_column_of_one_huge_number_has_no_bearing(comm):
    points = np.random.default_rng(1).integers(-1000, 1000, (300, 3)).astype(float)
    points[:, 0] = 1e110
    assert_exact(comm, points, 4)


@pytest.mark.ranks(1, 2, 3)
def test_each_pair_of_rows_is_looked_at_once(comm, monkeypatch):
    met = recorded(monkeypatch, 500)
    assert_exact(comm, cloud(500, 6), 490)  # so many that no part is too far away
    assert np.array_equal(sum(comm.allgather(met)), np.triu(np.ones((500, 500)), 1))
    # The ranks share them out.
    assert met.sum() < 1.2 * 500 * 499 / 2 / comm.size


@pytest.mark.ranks(1, 3)
def test_parts_that_lie_far_apart_are_not_compared(comm, monkeypatch):
    met = recorded(monkeypatch, 1200)
    assert_exact(comm, cloud(1200, 2), 5)
    assert sum(comm.allgather(met)).max() == 1
    assert sum(comm.allgather(met.sum())) < 0.4 * 1200 * 1199 / 2


@pytest.mark.ranks(1, 2)
def test_leading_coordinates_suffice_where_the_others_are_small(comm):
    points = cloud(900, 40)
    points[:, 6:] = np.rint(points[:, 6:] / 64.0)
    points = points @ scipy.linalg.hadamard(64)[:40, :40]  # so that no column is small
    assert_exact(comm, points, 2)


def test_bounds_are_as_close_wherever_the_points_lie():
    layout, points = Layout(MPI.COMM_SELF, 256, 5), cloud(256, 5)  # a mean without rounding
    both = points, points + 2**30
    here, there = (neighbors._Frame(layout, moved, 2).coordinates(moved) for moved in both)
    assert np.array_equal(here, there)


@pytest.mark.ranks(1, 3)
def test_of_some_rows_they_are_those_that_all_have(comm):
    points = cloud(400, 5)
    layout = Layout(comm, *points.shape)
    whole = nearest_neighbors(layout, layout.local(points), 6)
    rows = np.arange(layout.local_rows)[comm.rank :: 3][::-1]
    part = nearest_neighbors(layout, layout.local(points), 6, rows)
    for some, every in zip(part, whole, strict=True):
        assert np.array_equal(some, every[rows])


@pytest.mark.ranks(1, 2, 3)
def test_copies_of_a_point_are_its_neighbors_at_distance_0(comm):
    assert_exact(comm, np.repeat(cloud(40, 3), 20, axis=0), 25)
    assert_exact(comm, np.zeros((50, 4)), 30)


@pytest.mark.ranks(1, 2, 3)
def test_close_pairs_far_from_the_center_are_told_apart(comm):
    # Distances of 1e-6 at norms of 1: norms and products in single precision see nothing.
    rng = np.random.default_rng(1)
    centers = rng.integers(-512, 512, (12, 6)) / 512
    points = np.repeat(centers, 50, axis=0) + rng.integers(-64, 64, (600, 6)) / 2.0**26
    assert_exact(comm, points, 20)


@pytest.mark.ranks(1, 2, 3)
def test_results_are_the_same_bits_at_any_number_of_ranks(comm):
    points = np.random.default_rng(3).standard_normal((900, 37)).astype(np.float32)
    alone = nearest_neighbors(Layout(MPI.COMM_SELF, 900, 37), points, 15)
    layout = Layout(comm, 900, 37)
    for mine, whole in zip(nearest_neighbors(layout, layout.local(points), 15), alone, strict=True):
        assert np.array_equal(mine, layout.local(whole))


@pytest.mark.ranks(1, 2, 3)
def test_rows_in_another_order_have_the_same_neighbors_by_their_numbers(comm):
    points, numbers = cloud(300, 5) // 400, np.random.default_rng(4).permutation(300)  # with ties
    layout = Layout(comm, 300, 5)
    turned, rows = layout.local(numbers), np.arange(layout.local_rows)[::2]
    whole = nearest_neighbors(Layout(MPI.COMM_SELF, 300, 5), points, 6)
    for found, own in (None, turned), (rows, turned[rows]):
        parts = nearest_neighbors(layout, points[turned], 6, found, turned)
        for part, every in zip(parts, whole, strict=True):
            assert np.array_equal(part, every[own])


@pytest.mark.ranks(2, 3)
def test_blocks_go_half_way_around_and_few_pairs_return(comm):
    points = cloud(800, 30)
    layout = Layout(comm, *points.shape)
    before, numbers = phases()["other"].bytes, np.arange(layout.start, layout.stop)
    nearest_neighbors(layout, layout.local(points), 3, None, numbers)  # which do not move
    sent = phases()["other"].bytes - before - (comm.size - 1) * layout.local_rows * 30 * 8  # sample
    # Values and numbers, limits and counts, and for each row hardly more pairs than neighbors.
    assert sent <= comm.size // 2 * 800 / comm.size * (30 * 8 + 8 + 2 * 8 + 16 * 6) + 1000


@pytest.mark.ranks(1, 2)
def test_what_has_no_neighbors_is_refused_on_all_ranks(comm):
    layout, points = Layout(comm, 8, 2), np.zeros((8, 2))
    for k in (0, 8):
        with pytest.raises(InputError, match="rows"):
            nearest_neighbors(layout, layout.local(points), k)
    points[6, 1] = np.nan
    with pytest.raises(InputError, match="row 6"):
        nearest_neighbors(layout, layout.local(points), 3)


def test_rows_that_lack_neighbors_are_an_error(monkeypatch):
    monkeypatch.setattr(neighbors.kernels, "filter_tile", lambda *_: None)
    with pytest.raises(NumericalError, match="fewer"):
        nearest_neighbors(Layout(MPI.COMM_SELF, 9, 2), np.ones((9, 2)), 3)
