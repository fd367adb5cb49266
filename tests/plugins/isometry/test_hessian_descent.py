"""Gaussian maps fail with the probability that is said, and descent makes them one map."""

import numpy as np
import pytest
import scipy.stats

import thalweg
from thalweg import Status
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.testing import check_gradient, check_hessian_product
from thalweg_isometry.active import ActiveSecants, holders, measured
from thalweg_isometry.hessian_descent import GaussianMaps, density
from thalweg_isometry.near_isometry import NearIsometry


@pytest.fixture
def points():
    return np.random.default_rng(3).standard_normal((12, 10)) * np.exp(-np.arange(10) / 6.0)


@pytest.fixture
def active(points, secants_of):
    def build(comm):
        secants = secants_of(points, comm)
        pairs = np.array(np.triu_indices(12, 1)).T
        pairs = pairs[holders(secants.layout, pairs) == comm.rank]
        return ActiveSecants(secants, *measured(secants, pairs))

    return build


@pytest.mark.parametrize("degrees", [1, 2, 9, 60])
def test_the_density_is_that_of_the_noncentral_chi_squared_distribution(degrees):
    noncentral = np.array([1e-8, 0.4, 30.0, 2000.0])
    for x in (0.3, 12.0, 2100.0):
        expected = scipy.stats.ncx2.pdf(x, degrees, noncentral)
        found = density(x, noncentral, degrees)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_the_value_is_how_many_secants_random_maps_miss(active, points):
    secants = active(MPI.COMM_SELF)
    maps = GaussianMaps(secants, (5, 10), 0.4, 0.03)
    x = maps.initial_point(0)
    random = np.random.default_rng(7)
    missed = [
        (np.abs(secants.ratios(secants.images(a)) - 1.0) > 0.4).sum()
        for a in x + np.sqrt(0.03) * random.standard_normal((2000, 5, 10))
    ]
    error = np.std(missed) / np.sqrt(len(missed))
    assert abs(maps.value(x) - np.mean(missed)) < 4.0 * error


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("variance", [0.15, 0.01])
def test_derivatives(comm, active, variance):
    maps = GaussianMaps(active(comm), (5, 10), 0.4, variance)
    x = maps.initial_point(0)
    check_gradient(maps, x)
    check_hessian_product(maps, x)


@pytest.mark.ranks(1, 2, 3)
def test_a_random_projection_becomes_a_map_of_lower_rank(comm, points, true_delta, secants_of):
    objective = NearIsometry(secants_of(points, comm), 0.4, 6)
    result = thalweg.minimize(objective, solver="hessian-descent")
    assert result.status is Status.CONVERGED
    assert true_delta(points, result.solution) <= 0.4
    assert result.evaluations < 80  # variances fall as soon as little is gained at one
    same = comm.bcast(result.solution)
    np.testing.assert_array_equal(result.solution, same)
    random = thalweg.minimize(objective, solver="random-projection")
    assert random.status is Status.TARGET_NOT_REACHED


def test_the_solver_at_each_variance_is_found_by_its_name(points, secants_of):
    objective = NearIsometry(secants_of(points, MPI.COMM_SELF), 0.4, 6)
    with pytest.raises(InputError, match="lbgfs"):
        thalweg.minimize(objective, solver="hessian-descent", descent="lbgfs")
    result = thalweg.minimize(objective, solver="hessian-descent", descent="lbfgs")
    assert result.metrics["delta"] < 0.9
