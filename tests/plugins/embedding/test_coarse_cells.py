"""Cells of the data share rows out over the ranks, and keep near ones together."""

import numpy as np
import pytest

from thalweg.parallel import Layout
from thalweg_embedding.affinities import coarse_cells
from thalweg_embedding.affinities.coarse_cells import CoarseCells


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


@pytest.mark.parametrize("heavy", range(6))
@pytest.mark.parametrize("ranks", [2, 3, 5, 6])
def test_each_rank_gets_a_cell_wherever_the_rows_are(heavy, ranks):
    centers = np.arange(6.0)[:, None]
    counts = np.where(np.arange(6) == heavy, 1000, 1)
    found = coarse_cells._ranks_of_cells(centers, counts, ranks)
    assert set(found) == set(range(ranks))
    assert (np.diff(found) >= 0).all()  # neighbors stay together
