"""Mean and principal directions are right, and the same bits on any number of ranks."""

import numpy as np
import pytest

from thalweg.engines.secants import frame as frames
from thalweg.engines.secants.frame import PrincipalFrame
from thalweg.parallel import MPI, Layout


def cloud(n, dimension):
    random = np.random.default_rng(2)
    return random.standard_normal((n, dimension)) * np.linspace(3.0, 0.5, dimension) + 5.0


def frame(points, comm):
    layout = Layout(comm, *points.shape)
    return PrincipalFrame(layout.local(points).copy(), layout, points[::7])


@pytest.mark.ranks(1, 2, 3)
def test_directions_are_the_eigenvectors_of_the_scatter(comm):
    points = cloud(500, 6)
    found = frame(points, comm)
    centered = points - points.mean(axis=0)
    values = np.linalg.eigvalsh(centered.T @ centered)[::-1]
    np.testing.assert_allclose(found.mean, points.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.variances, values, rtol=1e-5)
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(6), atol=1e-12)
    turned = centered @ found.directions.T
    np.testing.assert_allclose((turned**2).sum(axis=0), values, rtol=1e-5)


def test_directions_of_many_coordinates_are_those_of_the_sample_about_the_mean(monkeypatch):
    monkeypatch.setattr(frames, "LARGE_DIMENSION", 4)
    points = cloud(500, 6)
    found = frame(points, MPI.COMM_SELF)
    sample = points[::7] - found.mean
    values, vectors = np.linalg.eigh(sample.T @ sample)
    np.testing.assert_allclose(found.variances, values[::-1] * 500 / len(sample), rtol=1e-9)
    np.testing.assert_allclose(abs(found.directions @ vectors[:, ::-1]), np.eye(6), atol=1e-9)
