"""Small problems that the tests of this folder share."""

import numpy as np
import pytest

from thalweg import Dataset
from thalweg_clustering.build import build_kdac


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


def _make(comm, points, given, components=2, sigma=0.4, lambda_=0.3, **options):
    settings = {"clusters": 2, "condition": False, "precision": "double", **options}
    labelings = [] if given is None else given if isinstance(given, list) else [given]
    return build_kdac(
        Dataset.from_array(points, None, comm), comm, components=components, sigma=sigma,
        lambda_=lambda_, labelings=labelings, **settings,
    )  # fmt: skip


@pytest.fixture
def views():
    """``views(n, noise, seed) -> points, given, truth``."""
    return _views


@pytest.fixture
def make():
    """``make(comm, points, given, components, sigma, lambda_, **options) -> KDACObjective``."""
    return _make
