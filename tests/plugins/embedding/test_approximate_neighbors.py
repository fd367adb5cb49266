"""Approximate neighbors are nearly the exact ones, and no rank works with all rows."""

import numpy as np
import pytest

from thalweg.engines.neighbors import nearest_neighbors
from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg_embedding.affinities import approximate_neighbors as module
from thalweg_embedding.affinities import coarse_cells
from thalweg_embedding.affinities.approximate_neighbors import approximate_neighbors
from thalweg_embedding.affinities.coarse_cells import CoarseCells
from thalweg_embedding.relocation import Relocation


def data(layout, clusters=30):
    """Clouds in 10 dimensions, in an order that has nothing to do with place."""
    centers = 4.0 * np.random.default_rng(0).standard_normal((clusters, layout.columns))
    numbers = np.arange(layout.start, layout.stop)
    return centers[numbers % clusters] + layout.random_normal(1)


@pytest.mark.ranks(1, 2, 4)
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_most_neighbors_are_found_and_their_distances_are_exact(comm, monkeypatch, precision):
    monkeypatch.setattr(module, "FEW_ROWS", 300)
    monkeypatch.setattr(module, "FETCHED", 2**19)  # several parts
    seen = []
    by_trees = module._by_trees
    monkeypatch.setattr(module, "_by_trees", lambda p, *rest: seen.append(p) or by_trees(p, *rest))
    layout, k = Layout(comm, 2_000, 10), 15
    values = data(layout).astype(precision)
    found = approximate_neighbors(layout, values, k, seed=3)
    exact, _ = nearest_neighbors(layout, values, k)
    hits = [len(np.intersect1d(a, b)) for a, b in zip(found.indices, exact, strict=True)]
    recall = sum(comm.allgather(sum(hits))) / (layout.rows * k)
    assert recall > 0.97
    assert not found.exact_because
    assert found.recall == pytest.approx(recall, abs=0.02)
    whole = layout.gather_rows(values).astype(float)
    measured = ((values[:, None] - whole[found.indices]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found.squared, measured, rtol=1e-12)
    assert (np.diff(found.squared, axis=1) >= 0).all()
    own = np.arange(layout.start, layout.stop)[:, None]
    assert not (found.indices == own).any()
    assert all(len(set(row)) == k for row in found.indices.tolist())
    (places,) = seen
    assert max(comm.allgather(places.own)) <= 1.5 * layout.rows / comm.size
    again = approximate_neighbors(layout, values, k, seed=3)
    np.testing.assert_array_equal(found.indices, again.indices)
    np.testing.assert_array_equal(found.squared, again.squared)


@pytest.mark.ranks(2, 3)
def test_what_a_round_finds_on_other_ranks_makes_up_for_missing_copies(comm, monkeypatch):
    monkeypatch.setattr(module, "FEW_ROWS", 300)
    for name, value in (("COPIES", 1), ("NEAREST_CELLS", 2), ("TREES", 2), ("LEAF", 40)):
        monkeypatch.setattr(module, name, value)
    layout = Layout(comm, 1_500, 4)
    values = layout.random_normal(0)  # one cloud: cells cut it everywhere
    recalls = []
    for rounds in (0, 2):
        monkeypatch.setattr(module, "ROUNDS", rounds)
        recalls.append(approximate_neighbors(layout, values, 10).recall)
    assert recalls[0] < 0.99
    assert recalls[1] > recalls[0] + 0.5 * (1.0 - recalls[0])


@pytest.mark.ranks(1, 3)
def test_few_rows_are_searched_exactly_and_bad_values_are_refused(comm):
    layout = Layout(comm, 50, 3)
    values = layout.random_normal(0)
    found = approximate_neighbors(layout, values, 4)
    np.testing.assert_array_equal(found.indices, nearest_neighbors(layout, values, 4)[0])
    assert found.recall == 1.0
    assert "few" in found.exact_because
    layout = Layout(comm, 20_000, 1)
    values = layout.random_normal(0)
    if comm.rank == comm.size - 1:
        values[-1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        approximate_neighbors(layout, values, 4)


@pytest.mark.ranks(2, 3)
def test_rows_that_lie_unevenly_are_searched_exactly_and_said_to_be(comm, monkeypatch):
    monkeypatch.setattr(module, "FEW_ROWS", 50)
    layout = Layout(comm, 400, 2)
    values = np.zeros((layout.local_rows, 2))  # one cell has them all
    values[:1] = layout.random_normal(0)[:1]
    found = approximate_neighbors(layout, values, 4)
    assert "unevenly" in found.exact_because
    np.testing.assert_array_equal(found.indices, nearest_neighbors(layout, values, 4)[0])


@pytest.mark.ranks(2, 3)
def test_coarse_cells_share_rows_out_and_keep_near_ones_together(comm):
    layout = Layout(comm, 2_000, 3)
    values = layout.random_normal(0) + 30.0 * (np.arange(layout.start, layout.stop) % 8)[:, None]
    places = Relocation(layout, CoarseCells.of(layout, values).ranks_near(values)[:, 0])
    assert places.layout.counts().max() <= 1.5 * layout.rows / comm.size
    clouds = places.forward(np.arange(layout.start, layout.stop) % 8)
    parts = np.array(comm.allgather(np.bincount(clouds, minlength=8)))
    assert ((parts > 0).sum(axis=0) <= 2).all()
    assert ((parts > 0).sum(axis=0) == 1).sum() >= 8 - comm.size


@pytest.mark.parametrize("heavy", range(6))
@pytest.mark.parametrize("ranks", [2, 3, 5, 6])
def test_each_rank_gets_a_cell_wherever_the_rows_are(heavy, ranks):
    centers = np.arange(6.0)[:, None]
    counts = np.where(np.arange(6) == heavy, 1000, 1)
    found = coarse_cells._ranks_of_cells(centers, counts, ranks)
    assert set(found) == set(range(ranks))
    assert (np.diff(found) >= 0).all()  # neighbors stay together
