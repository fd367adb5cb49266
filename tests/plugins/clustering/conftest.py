"""Small problems that the tests of this folder share."""

import numpy as np
import pytest

from thalweg.parallel import Layout
from thalweg_clustering.kdac import make_kdac
from thalweg_clustering.prepared_data import centred_points


def _views(n=160, noise=0, seed=0):
    """Two groups in two features, two others in two other features; unit variance."""
    stream = np.random.default_rng(seed)
    truth = np.repeat([0, 1], n // 2)
    given = np.arange(n) % 2  # independent of the truth
    parts = [
        labels[:, None] * [6.0, 3.0] + stream.uniform(-1.5, 1.5, (n, 2))
        for labels in (truth, given)
    ]
    if noise:
        parts.append(stream.uniform(-1, 1, (n, noise)))
    points = np.concatenate(parts, axis=1)
    return (points - points.mean(axis=0)) / points.std(axis=0), given, truth


def _make(comm, points, given, columns=2, sigma=0.4, penalty=0.3, **options):
    layout = Layout(comm, *points.shape)
    mine = centred_points(layout, layout.local(points))
    clusters = options.pop("clusters", 2)
    return make_kdac(layout, mine, given, clusters, columns, sigma, penalty, **options)


@pytest.fixture
def views():
    """``views(n, noise, seed) -> points, given, truth``."""
    return _views


@pytest.fixture
def make():
    """``make(comm, points, given, columns, sigma, penalty, **options) -> KDACObjective``."""
    return _make
