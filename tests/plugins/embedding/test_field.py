"""The field of fixed points is the sum of their terms, and new points rest where it says."""

import pickle

import numpy as np
import pytest

from thalweg_embedding import TSNE
from thalweg_embedding.pairs import fixed_field
from thalweg_embedding.pairs.fixed_field import FixedField
from thalweg_embedding.pairs.functions import GAUSSIAN, STUDENT


@pytest.mark.parametrize(("function", "dimensions"), [(STUDENT, 2), (GAUSSIAN, 2), (STUDENT, 1)])
def test_a_mesh_gives_the_sums_within_and_beyond(function, dimensions, monkeypatch):
    monkeypatch.setattr(fixed_field, "FIXED_ROWS", 100)
    generator = np.random.default_rng(0)
    points = 10.0 * generator.standard_normal((400, dimensions))
    places = np.concatenate([points[:20], 12.0 * generator.standard_normal((60, dimensions))])
    places[-2], places[-1] = 0.8 * np.ptp(points), 1e4  # beyond the mesh, far from all
    of_mesh = FixedField(function, points)
    assert of_mesh._box is not None
    values, slopes = of_mesh.at(places)
    exact, exact_slopes = of_mesh._summed(places)
    assert np.abs(values - exact).max() <= 1e-4 * np.abs(exact).max()
    assert np.abs(slopes - exact_slopes).max() <= 1e-3 * np.abs(exact_slopes).max()
    # No place feels another, nor the batch that it is in.
    alone = [of_mesh.at(places[n : n + 1]) for n in (0, 30, 79)]
    np.testing.assert_array_equal([v[0] for v, _ in alone], values[[0, 30, 79]])
    np.testing.assert_array_equal([s[0] for _, s in alone], slopes[[0, 30, 79]])


def test_new_points_rest_where_all_sums_say(monkeypatch):
    generator = np.random.default_rng(0)
    points = generator.standard_normal((330, 4)) + 6.0 * (np.arange(330) % 3)[:, None]
    estimator = TSNE(perplexity=10, random_state=0, max_iter=60).fit(points[:300])
    exact = estimator.transform(points[300:])
    monkeypatch.setattr(fixed_field, "FIXED_ROWS", 100)
    other = pickle.loads(pickle.dumps(estimator))
    placed = other.transform(points[300:])
    again = pickle.loads(pickle.dumps(other)).transform(points[300:])
    np.testing.assert_array_equal(placed, again)
    assert not np.array_equal(placed, exact)  # a mesh it was
    extent = np.ptp(estimator.embedding_, axis=0).max()
    assert np.abs(placed - exact).max() <= 1e-4 * extent
