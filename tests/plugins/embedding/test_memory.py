"""A large embedding says beforehand what memory it takes, and grows as it should."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg_embedding import TSNE
from thalweg_embedding.memory import announce, estimated_bytes


def test_the_estimate_grows_with_points_neighbors_and_features(comm):
    small, large = Layout(comm, 10**5, 2), Layout(comm, 10**6, 2)
    assert estimated_bytes(large, 64, 90) > 5 * estimated_bytes(small, 64, 90)
    assert estimated_bytes(large, 64, 90) > estimated_bytes(large, 64, 30)
    assert estimated_bytes(large, 784, 30) > estimated_bytes(large, 64, 30)


def test_only_large_runs_are_announced(comm, caplog):
    with caplog.at_level(logging.WARNING, logger="thalweg.embedding"):
        announce(Layout(comm, 1000, 2), 64, 90)
        assert not caplog.records
        announce(Layout(comm, 10**6, 2), 64, 90)
    assert "1000000 points with 90 neighbors" in caplog.text


def test_dense_affinities_of_300000_points_are_refused_before_any_is_computed():
    points = np.zeros((300_000, 2), dtype=np.float32)
    with pytest.raises(InputError, match=r"300,000 points .* GiB .* use graph = 'sparse'"):
        TSNE(graph="dense").fit(points)
