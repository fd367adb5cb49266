"""|H|^-1 g by both ways, against a dense eigendecomposition, at honest cost."""

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg_saddlefree.curvature import LanczosAbsolute, LanczosBasis, OdeAbsolute, Slices

METHODS = [LanczosAbsolute, OdeAbsolute]


def indefinite(size, condition, seed=0, negative=0.3):
    """A dense symmetric matrix with 30 % negative eigenvalues, and its eigenpairs."""
    rng = np.random.default_rng(seed)
    values = np.geomspace(1 / condition, 1.0, size)
    values[rng.permutation(size)[: int(negative * size)]] *= -1
    vectors, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return vectors @ (values[:, None] * vectors.T), values, vectors


def relative(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("way", METHODS)
@pytest.mark.parametrize("damping", [0.0, 0.05])
def test_every_way_agrees_with_a_dense_eigendecomposition(way, damping):
    matrix, values, vectors = indefinite(80, 10)
    gradient = np.random.default_rng(1).standard_normal(80)
    solver = way(Slices(MPI.COMM_SELF, 80), lambda v: matrix @ v, gradient, 1e-6, 500)
    found = solver.direction(damping)
    wanted = -vectors @ ((vectors.T @ gradient) / np.hypot(values, damping))
    assert found.error <= 1e-6
    assert relative(found.step, wanted) < 1e-5
    assert found.model.slope == pytest.approx(gradient @ wanted, rel=1e-5)
    assert found.model.curvature == pytest.approx(wanted @ matrix @ wanted, rel=1e-4, abs=1e-3)
    change = gradient @ wanted + wanted @ matrix @ wanted / 2
    assert found.model.change == pytest.approx(change, rel=1e-4)


def test_a_preconditioner_is_the_metric_of_the_absolute_value():
    matrix, _, vectors = indefinite(60, 10)
    metric = vectors @ np.diag(np.geomspace(1, 30, 60)) @ vectors.T + np.diag(np.arange(1, 61))
    gradient = np.random.default_rng(1).standard_normal(60)
    low = np.linalg.cholesky(metric)
    values, vectors = np.linalg.eigh(np.linalg.solve(low, np.linalg.solve(low, matrix).T))
    parts = vectors.T @ np.linalg.solve(low, gradient) / np.hypot(values, 0.02)
    wanted = -np.linalg.solve(low.T, vectors @ parts)
    given = Slices(MPI.COMM_SELF, 60), lambda v: matrix @ v, gradient, 1e-9
    found = LanczosAbsolute(*given, solve=lambda r: np.linalg.solve(metric, r)).direction(0.02)
    assert relative(found.step, wanted) < 1e-7
    assert found.model.slope == pytest.approx(gradient @ wanted, rel=1e-8)
    assert found.model.curvature == pytest.approx(wanted @ matrix @ wanted, rel=1e-6, abs=1e-9)
    loose = LanczosAbsolute(*given, solve=lambda r: np.linalg.solve(metric, r) + 1e-2 * abs(r))
    with pytest.raises(InputError, match="linear and exact"):
        loose.direction(0.02)


def test_lanczos_needs_at_most_130_products_where_the_equation_needs_thousands():
    values = np.geomspace(0.1, 1.0, 2000)
    values[np.random.default_rng(2).permutation(2000)[:600]] *= -1
    gradient = np.random.default_rng(3).standard_normal(2000)
    products = {}
    for way in (LanczosAbsolute, OdeAbsolute):
        solver = way(Slices(MPI.COMM_SELF, 2000), lambda v: values * v, gradient, 1e-6, 500)
        assert relative(solver.direction(0.0).step, -gradient / abs(values)) < 1e-6
        products[way] = solver.products
    assert products[LanczosAbsolute] <= 130
    assert products[OdeAbsolute] >= 3000


@pytest.mark.parametrize(
    ("condition", "tolerance"),
    [(3, 1e-2), (3, 1e-7), (10, 1e-2), (10, 1e-4), (10, 1e-7), (40, 1e-2), (40, 1e-4)],
)
def test_the_error_estimate_of_lanczos_is_neither_blind_nor_timid(condition, tolerance):
    rng = np.random.default_rng(condition)
    values = rng.uniform(1 / condition, 1.0, 1500) * rng.choice([1, 1, -1], 1500)
    gradient = rng.standard_normal(1500)
    slices = Slices(MPI.COMM_SELF, 1500)
    found = LanczosAbsolute(slices, lambda v: values * v, gradient, tolerance).direction(0.0)
    error = relative(found.step, -gradient / abs(values))
    assert error < 2 * tolerance
    assert found.error < 20 * error


def test_one_basis_serves_every_damping_without_another_product():
    matrix, values, vectors = indefinite(60, 30)
    gradient = np.random.default_rng(1).standard_normal(60)
    solver = LanczosAbsolute(Slices(MPI.COMM_SELF, 60), lambda v: matrix @ v, gradient, 1e-9)
    solver.direction(0.0)
    products = solver.products
    for damping in (1e-3, 0.1, 10.0):
        wanted = -vectors @ ((vectors.T @ gradient) / np.hypot(values, damping))
        assert relative(solver.direction(damping).step, wanted) < 1e-7
    assert solver.products == products


def test_the_basis_stays_orthonormal_and_sees_the_lowest_eigenvalue():
    matrix, values, _ = indefinite(300, 1e4)
    basis = LanczosBasis(Slices(MPI.COMM_SELF, 300), np.random.default_rng(0).standard_normal(300))
    while len(basis) < 150:
        basis.extend(lambda v: matrix @ v)
    vectors = np.array([basis.vector(k) for k in range(len(basis))])
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(150), atol=1e-11)
    assert basis.second_projections < 90  # where one would do too
    lowest, vector = basis.lowest_ritz_pair()
    assert lowest == pytest.approx(values.min(), rel=1e-8)
    np.testing.assert_allclose(matrix @ vector, lowest * vector, atol=1e-4)


def test_the_basis_ends_by_itself_in_an_invariant_subspace():
    values = np.repeat([-2.0, 1.0, 3.0], 20)
    gradient = np.random.default_rng(0).standard_normal(60)
    for way in METHODS:
        solver = way(Slices(MPI.COMM_SELF, 60), lambda v: values * v, gradient, 1e-8, 500)
        assert relative(solver.direction(0.0).step, -gradient / abs(values)) < 1e-7


@pytest.mark.parametrize("way", METHODS)
def test_a_singular_hessian_without_damping_is_refused(way):
    values = np.array([0.0, 1.0, -1.0, 2.0])
    solver = way(Slices(MPI.COMM_SELF, 4), lambda v: values * v, np.ones(4), 1e-6, 500)
    with pytest.raises(InputError, match="set damping"):
        solver.direction(0.0)
    solver = way(Slices(MPI.COMM_SELF, 4), lambda v: values * v, np.ones(4), 1e-6, 500)
    np.testing.assert_allclose(solver.direction(0.5).step, -1 / np.hypot(values, 0.5), rtol=1e-5)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("way", METHODS)
def test_slices_over_the_ranks_give_the_serial_step(comm, way):
    # Fewer numbers than would fill three ranks evenly; the last rank may hold less.
    values = np.linspace(0.2, 1.0, 50) * np.resize([1, -1, 1], 50)
    gradient = np.random.default_rng(1).standard_normal(50)
    slices = Slices(comm, 50, 50 if comm.size == 1 else (25 if comm.rank < 2 else 0))
    own = slice(slices.layout.start, slices.layout.stop)
    solver = way(slices, lambda v: values[own] * v, gradient[own], 1e-5, 500)
    step = slices.layout.gather_rows(solver.direction(0.0).step.reshape(-1, 1)).ravel()
    assert relative(step, -gradient / abs(values)) < 1e-4
