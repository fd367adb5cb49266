"""The bounds of the secant oracle hold for every pair, however few coordinates they see."""

import numpy as np
import pytest

from thalweg.engines.secants import frame as frames
from thalweg.engines.secants.frame import PrincipalFrame
from thalweg.engines.secants.secant_bounds import Accuracy, image_bounds, split_points
from thalweg.engines.secants.secants import SecantSet
from thalweg.parallel import MPI, Layout


@pytest.fixture
def points():
    random = np.random.default_rng(4)
    return random.standard_normal((150, 70)) * np.exp(-np.arange(70) / 8.0) + 1000.0


def frame_of(points, comm=MPI.COMM_SELF):
    layout = Layout(comm, *points.shape)
    return PrincipalFrame(layout.local(points).copy(), layout, points[::7])


@pytest.mark.parametrize(("n_leading", "n_further"), [(1, 0), (8, 0), (40, 0), (70, 0), (3, 9)])
def test_distances_lie_between_the_bounds(points, n_leading, n_further):
    frame = frame_of(points)
    components = frame.directions[:9] * 1.1
    split = split_points(points, frame, n_leading, n_further)
    images = (points - frame.mean) @ components.T
    single, image_range = image_bounds(images, frame, Accuracy.of(components))
    image_low, image_high = image_range.T
    leading, image_dots = split.leading, single @ single.T
    i, j = np.triu_indices(150, 1)
    exact = ((points[i] - points[j]) ** 2).sum(axis=1)
    mapped = (((points[i] - points[j]) @ components.T) ** 2).sum(axis=1)
    for coordinates, bounds in (
        (leading, split.bounds),
        (np.concatenate([leading, split.further], axis=1), split.further_bounds),
    ):
        low, high, tail = bounds.T
        dots, cross = coordinates @ coordinates.T, np.outer(tail, tail)
        assert np.all((low[:, None] + low - 2 * (dots + cross))[i, j] <= exact)
        assert np.all((high[:, None] + high - 2 * (dots - cross))[i, j] >= exact)
    assert np.all((image_low[:, None] + image_low - 2 * image_dots)[i, j] <= mapped)
    assert np.all((image_high[:, None] + image_high - 2 * image_dots)[i, j] >= mapped)


def test_tails_far_below_single_precision_are_kept():
    points = np.zeros((40, 6))
    points[:, :2] = np.random.default_rng(0).standard_normal((40, 2))
    points[::4, 5] = 1e-9
    tail = split_points(points, frame_of(points), 2).bounds[:, 2]
    assert np.all(tail[::4] >= 0.5e-9)
    assert tail.max() < 2e-9


def nearly_inside(random):
    """Most points on some axes; a few, close to each other, differ in another direction only."""
    points = np.zeros((60, 12))
    points[:, :5] = random.standard_normal((60, 5))
    points[:16, 1:5] *= 0.01
    points[:16, 0] = np.where(np.arange(16) < 8, 1.0, -1.0) + 1e-6 * random.random(16)
    points[:16, 8] = np.where(np.arange(16) % 2, 2e-4, -2e-4)
    return points


def near_duplicates(random):
    """Pairs of points that almost coincide, far from the origin."""
    points = random.standard_normal((60, 12))
    points[30:] = points[:30] + 10.0 ** random.uniform(-9, -3, (30, 1))
    return points + 1e3


@pytest.mark.parametrize("family", [nearly_inside, near_duplicates])
@pytest.mark.parametrize("seed", range(4))
def test_the_interval_holds_the_constant_of_extended_precision(family, seed):
    random = np.random.default_rng(seed)
    points = family(random)
    secants = SecantSet(points, Layout(MPI.COMM_SELF, *points.shape))
    i, j = np.triu_indices(60, 1)
    wide = points.astype(np.longdouble)
    difference = wide[i] - wide[j]
    lengths = (difference**2).sum(axis=1)
    pair = points[1] - points[8]
    pair /= np.linalg.norm(pair)
    for components in (
        np.eye(12) + (np.sqrt(1.5) - 1) * np.outer(pair, pair),
        random.standard_normal((4, 12)) / 2,
        np.eye(12),
    ):
        image = difference @ components.T.astype(np.longdouble)
        truth = np.abs((image**2).sum(axis=1) / lengths - 1).max()
        for n in range(13):
            # With pairs to keep, the scan is done again.
            scan = secants.scan(components, max_pairs=1, n_leading=n, n_further=n % 4)
            assert scan.delta_lower <= truth <= scan.delta
            assert scan.delta - scan.delta_lower < 1e-7


def test_distortions_beyond_single_precision_are_found():
    random = np.random.default_rng(0)
    points, components = 1e12 + random.normal(size=(20, 5)), 1e30 * random.normal(size=(3, 5))
    i, j = np.triu_indices(20, 1)
    difference = points[i] - points[j]
    lengths = (difference**2).sum(axis=1)
    truth = np.abs(((difference @ components.T) ** 2).sum(axis=1) / lengths - 1).max()
    scan = SecantSet(points, Layout(MPI.COMM_SELF, 20, 5)).scan(components)
    assert scan.delta_lower <= truth <= scan.delta < 1.001 * truth


@pytest.mark.parametrize("exponent", [-290, 290])
def test_a_unit_of_length_changes_nothing(exponent):
    points = np.random.default_rng(2).standard_normal((50, 6))
    points[1] = points[0]
    points[1, 0] *= 1 + 2.0**-52
    components = np.random.default_rng(3).standard_normal((3, 6))
    layout = Layout(MPI.COMM_SELF, 50, 6)
    plain = SecantSet(points, layout).scan(components)
    scaled = SecantSet(np.ldexp(points, exponent), layout).scan(components)
    assert (plain.delta, plain.pair) == (scaled.delta, scaled.pair)
    assert plain.n_coincident == scaled.n_coincident == 0


def cloud():
    return np.random.default_rng(2).standard_normal((500, 6)) * np.linspace(3.0, 0.5, 6) + 5.0


@pytest.mark.ranks(1, 2, 3)
def test_directions_are_the_eigenvectors_of_the_scatter(comm):
    points = cloud()
    found = frame_of(points, comm)
    centered = points - points.mean(axis=0)
    values = np.linalg.eigvalsh(centered.T @ centered)[::-1]
    np.testing.assert_allclose(found.mean, points.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.variances, values, rtol=1e-5)
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(
        ((centered @ found.directions.T) ** 2).sum(axis=0), values, rtol=1e-5
    )


def test_directions_of_many_coordinates_are_those_of_the_sample_about_the_mean(monkeypatch):
    monkeypatch.setattr(frames, "LARGE_DIMENSION", 4)
    points = cloud()
    found = frame_of(points)
    sample = points[::7] - found.mean
    values, vectors = np.linalg.eigh(sample.T @ sample)
    np.testing.assert_allclose(found.variances, values[::-1] * 500 / len(sample), rtol=1e-9)
    np.testing.assert_allclose(abs(found.directions @ vectors[:, ::-1]), np.eye(6), atol=1e-9)
