"""The bounds of the secant oracle hold for every pair, however few coordinates they see."""

import numpy as np
import pytest

from thalweg.parallel import MPI, Layout
from thalweg.parallel.pairs.principal_frame import PrincipalFrame
from thalweg.parallel.pairs.secant_bounds import bounded_rows, cheapest_head, squared_distances


@pytest.fixture
def points():
    random = np.random.default_rng(4)
    return random.standard_normal((150, 70)) * np.exp(-np.arange(70) / 8.0) + 1000.0


@pytest.mark.parametrize("head", [1, 8, 40, 70])
def test_distances_lie_between_the_bounds(points, head):
    frame = PrincipalFrame(points, Layout(MPI.COMM_SELF, 150, 70), points[::3])
    components = frame.directions[:9] * 1.1
    arrays = bounded_rows(points, points @ components.T, components, frame, head)
    _, _, _, leading, single, bounds = arrays
    low, high, image_low, image_high, tail = bounds.T
    dots, images = leading @ leading.T, single @ single.T
    cross = np.outer(tail, tail)
    i, j = np.triu_indices(150, 1)
    exact = ((points[i] - points[j]) ** 2).sum(axis=1)
    mapped = (((points[i] - points[j]) @ components.T) ** 2).sum(axis=1)
    assert np.all((low[:, None] + low - 2 * (dots + cross))[i, j] <= exact)
    assert np.all((high[:, None] + high - 2 * (dots - cross))[i, j] >= exact)
    assert np.all((image_low[:, None] + image_low - 2 * images)[i, j] <= mapped)
    assert np.all((image_high[:, None] + image_high - 2 * images)[i, j] >= mapped)


def test_few_coordinates_are_chosen_where_the_rest_is_small(points):
    frame = PrincipalFrame(points, Layout(MPI.COMM_SELF, 150, 70), points)
    assert cheapest_head(frame, frame.directions[:9] * 1.1, 0.8) < 70


def test_squared_distances_are_those_of_the_rows(points):
    expected = ((points[:, None] - points) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(points - 1000.0), expected, atol=1e-9)
