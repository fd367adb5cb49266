"""Measures of a map know a good one from a bad one, at any number of ranks."""

import numpy as np
import pytest

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg_embedding import map_quality


def clusters(count=5, size=40, seed=0):
    generator = np.random.default_rng(seed)
    centers = generator.normal(0, 20, (count, 6))
    labels = np.repeat(np.arange(count), size)
    return centers[labels] + generator.normal(size=(count * size, 6)), labels


@pytest.mark.ranks(1, 2, 3)
def test_the_leading_axes_keep_more_than_random_places(comm):
    points, labels = clusters()
    data = Dataset.from_array(points, labels=labels, comm=comm)
    part = slice(data.layout.start, data.layout.stop)
    good = map_quality(data, points[part, :5])
    bad = map_quality(data, np.random.default_rng(1).normal(size=(200, 2))[part])
    assert good["accuracy"] == 1.0
    assert good["center_correlation"] > 0.9
    for name in ("recall", "accuracy", "trustworthiness", "center_correlation"):
        assert good[name] > bad[name] + 0.2
    alone = map_quality(points, points[:, :5], labels)
    assert good == pytest.approx(alone, rel=1e-12)


def test_a_map_that_is_not_finite_or_has_other_rows_is_refused():
    points, _ = clusters()
    for places in (points[:10, :2], np.full((200, 2), np.nan), points[:, 0]):
        with pytest.raises(InputError, match="one row of finite numbers"):
            map_quality(points, places)
