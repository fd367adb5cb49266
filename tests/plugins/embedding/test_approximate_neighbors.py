"""Approximate neighbors are nearly the exact ones."""

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
    return centers[np.arange(layout.start, layout.stop) % clusters] + layout.random_normal(1)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_most_neighbors_are_found_and_their_distances_are_exact(comm, monkeypatch, precision):
    monkeypatch.setattr(module, "ROW_COST", 100)
    monkeypatch.setattr(module, "BATCH", 300)  # several
    layout, k = Layout(comm, 2_000, 10), 15
    values = data(layout).astype(precision)
    found = approximate_neighbors(layout, values, k, seed=3)
    exact, _ = nearest_neighbors(layout, values, k)
    hits = [len(np.intersect1d(a, b)) for a, b in zip(found.indices, exact, strict=True)]
    recall = sum(comm.allgather(sum(hits))) / (layout.rows * k)
    assert recall > 0.95
    assert not found.exact_because
    assert found.recall == pytest.approx(recall, abs=0.02)
    check(layout, values, found)
    again = approximate_neighbors(layout, values, k, seed=3)
    np.testing.assert_array_equal(found.indices, again.indices)
    np.testing.assert_array_equal(found.squared, again.squared)


def check(layout, values, found):
    """Distances are those of the rows named, ascending, without the row itself or repetitions."""
    whole = layout.gather_rows(values).astype(float)
    measured = ((values[:, None] - whole[found.indices]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found.squared, measured, rtol=1e-12)
    assert (np.diff(found.squared, axis=1) >= 0).all()
    assert not (found.indices == np.arange(layout.start, layout.stop)[:, None]).any()
    assert all(len(set(row)) == found.indices.shape[1] for row in found.indices.tolist())


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("case", ["duplicates", "close pairs", "outlier", "huge", "tiny cells"])
def test_awkward_rows_are_found_as_well(comm, monkeypatch, case):
    monkeypatch.setattr(module, "ROW_COST", 100)
    layout, k = Layout(comm, 3_000, 4), 10
    values, numbers = data(layout, 60), np.arange(layout.start, layout.stop)
    if case == "duplicates":  # by the hundred, and half of all rows alike
        values = np.round(values[:] / 8.0) * (numbers % 2)[:, None]
    elif case == "close pairs":  # nearer than single precision tells from afar
        values = 10.0 * data(layout, 60) + 1e-5 * layout.random_normal(5)
        values[:] = np.round(values, 1) + 1e-5 * layout.random_normal(6)
    elif case == "outlier":
        values[numbers == 7] = 1e9
    elif case == "huge":
        values *= 1e25
    else:  # the nearest cells have fewer rows than are wanted
        values[numbers < 40] += 1e3 * numbers[numbers < 40, None]
    found = approximate_neighbors(layout, values, k)
    limits = nearest_neighbors(layout, values, k)[1][:, -1:]
    hits = float((found.squared <= limits * (1.0 + 1e-12)).sum())
    assert comm.allreduce(hits) / (layout.rows * k) > 0.94
    check(layout, values, found)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("because", "rows", "columns", "apart"),
    [("few", 50, 3, 1.0), ("others", 1_000, 40, 1.0), ("single precision", 4_000, 10, 1e-6)],
)
def test_rows_are_searched_exactly_for_a_reason_that_is_said(
    comm, because, rows, columns, apart, monkeypatch
):
    monkeypatch.setattr(coarse_cells, "CELLS", 0.1)  # of several groups each
    if because != "few":
        monkeypatch.setattr(module, "ROW_COST", 100)
    layout = Layout(comm, rows, columns)
    values = apart * layout.random_normal(0)
    if apart < 1.0:  # groups of 100
        centers = np.random.default_rng(0).normal(size=(40, columns))
        values += centers[np.arange(layout.start, layout.stop) // 100]
    found = approximate_neighbors(layout, values, 4)
    assert because in found.exact_because
    assert found.recall == 1.0
    np.testing.assert_array_equal(found.indices, nearest_neighbors(layout, values, 4)[0])


@pytest.mark.ranks(1, 3)
def test_bad_values_are_refused(comm):
    layout = Layout(comm, 30_000, 1)
    values = layout.random_normal(0)
    if comm.rank == comm.size - 1:
        values[-1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        approximate_neighbors(layout, values, 4)


@pytest.mark.ranks(2, 3)
def test_coarse_cells_share_rows_out_and_keep_near_ones_together(comm):
    layout = Layout(comm, 2_000, 3)
    values = layout.random_normal(0) + 30.0 * (np.arange(layout.start, layout.stop) % 8)[:, None]
    cells = CoarseCells.of(layout, values)
    places = Relocation(layout, cells.ranks[cells.nearest(values)])
    assert places.layout.counts().max() <= 1.5 * layout.rows / comm.size
    clouds = places.forward(np.arange(layout.start, layout.stop) % 8)
    parts = np.array(comm.allgather(np.bincount(clouds, minlength=8)))
    assert ((parts > 0).sum(axis=0) <= 2).all()
    assert ((parts > 0).sum(axis=0) == 1).sum() >= 8 - comm.size
