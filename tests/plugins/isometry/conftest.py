"""Small secant sets whose truth a loop over all pairs tells."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import thalweg
from thalweg.engines.secants.secants import SecantSet
from thalweg.parallel import MPI, Layout
from thalweg_isometry.near_isometry import NearIsometry


@pytest.fixture(scope="session")
def digits():
    """Images of one digit, 90 x 64, on every rank."""
    values, labels = load_digits(return_X_y=True)
    return values[labels == 5][:90] / 16.0


@pytest.fixture
def true_delta():
    """Isometry constant by a loop over all pairs."""

    def measure(points, psi):
        i, j = np.triu_indices(len(points), 1)
        difference = points[i] - points[j]
        lengths = (difference**2).sum(axis=1)
        distinct = lengths > 0
        mapped = ((difference[distinct] @ psi.T) ** 2).sum(axis=1)
        return np.abs(mapped / lengths[distinct] - 1.0).max()

    return measure


@pytest.fixture
def secants_of():
    """The secant set of points that every rank has whole."""

    def build(points, comm, **options):
        layout = Layout(comm, *points.shape)
        return SecantSet(layout.local(points).copy(), layout, **options)

    return build


@pytest.fixture
def solve(secants_of, true_delta):
    """A run's result, whose delta is that of a loop over all pairs: the wanted one on success."""

    def run(points, delta, rank=None, solver="hinge-lbfgs", comm=MPI.COMM_SELF, **options):
        objective = NearIsometry(secants_of(points, comm), delta, rank)
        result = thalweg.minimize(objective, solver=solver, **options)
        found = true_delta(points, result.solution)
        assert result.metrics["delta"] == pytest.approx(found, rel=1e-7, abs=1e-8)
        assert result.metrics["rank"] == len(result.solution) == (rank or len(result.solution))
        if delta is not None:
            assert (result.status is thalweg.Status.CONVERGED) == (found <= delta)
        return result

    return run
