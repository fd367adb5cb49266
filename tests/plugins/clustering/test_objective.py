"""The KDAC objective: derivatives, the matrix Phi, and what does not depend on the ranks."""

import numpy as np
import pytest

from thalweg.parallel import MPI
from thalweg.testing import check_fixed_point_matrix, check_gradient, check_hessian_product
from thalweg_clustering.pair_sum import GaussianTermSum

METHODS = {"stored": {}, "streamed": {"stored_rows": 0}, "fourier": {"features": 40}}


@pytest.fixture
def objective(comm, way, views, make):
    points, given, _ = views(60, noise=2)
    return make(comm, points, given, 3, 1.0, 0.4, bound=False, **METHODS[way])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("way", METHODS)
def test_gradient_and_hessian_agree_with_differences(objective, comm, way):
    x = objective.initial_point(1)
    check_gradient(objective, x)
    check_hessian_product(objective, x)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("way", ["stored", "streamed"])
def test_the_gradient_is_phi_times_w(objective, comm, way):
    x = objective.initial_point(1)
    check_fixed_point_matrix(objective, x)
    w = np.array(objective.layout.reading(x))
    value, matrix = objective.value_and_fixed_point_matrix(x)
    assert value == pytest.approx(objective.value(x), rel=1e-12)
    np.testing.assert_allclose(matrix @ w, objective.value_and_gradient_at(w)[1], atol=1e-10)


def test_value_and_phi_are_the_sums_of_the_paper(views, make):
    points, given, _ = views(30)
    objective = make(MPI.COMM_SELF, points, given, 2, 1.3, 0.7)
    x = objective.initial_point(0)
    w = np.array(objective.layout.reading(x))
    factor, signs = objective.weights.factor, objective.weights.signs
    gamma = (factor * signs) @ factor.T
    difference = objective.kernel.points[:, None] - objective.kernel.points[None]
    k = np.exp(-((difference @ w) ** 2).sum(-1) / (2 * 1.3**2))
    assert objective.value(x) == pytest.approx(-(gamma * k).sum())
    phi = np.einsum("ij,ijd,ije->de", gamma * k / 1.3**2, difference, difference)
    np.testing.assert_allclose(objective.fixed_point_matrix(x), phi, atol=1e-10)
    lengths = (difference**2).sum(-1)
    bound = (abs(gamma) * k * lengths**2).sum() / 1.3**2
    found = objective.kernel.curvature_bound(w, objective.weights)
    assert found == pytest.approx(bound)
    streamed = make(MPI.COMM_SELF, points, given, 2, 1.3, 0.7, stored_rows=0)
    assert streamed.kernel.curvature_bound(w, objective.weights) == pytest.approx(bound)


def test_weights_are_those_of_equation_4(views, make):
    points, given, _ = views(40)
    objective = make(MPI.COMM_SELF, points, given, 2, 1.0, 0.3)
    u = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 2)))[0]
    degrees = np.linspace(1, 2, 40)
    objective.use_blocks({"embedding": u, "degrees": degrees})
    y = np.eye(2)[given]
    h = np.eye(40) - 1 / 40
    scale = np.diag(degrees**-0.5)
    gamma = scale @ h @ (u @ u.T - 0.3 * y @ y.T) @ h @ scale
    factor, signs = objective.weights.factor, objective.weights.signs
    np.testing.assert_allclose((factor * signs) @ factor.T, gamma, atol=1e-14)


def test_fourier_features_approach_the_exact_kernel(views, make):
    points, given, _ = views(100)
    exact = make(MPI.COMM_SELF, points, given, 2, 1.0, 0.5)
    many = make(MPI.COMM_SELF, points, given, 2, 1.0, 0.5, features=20000)
    x = exact.initial_point(0)
    w = np.array(exact.layout.reading(x))
    weights = exact.weights
    assert many.kernel.value(w, weights) == pytest.approx(exact.value_at(w), rel=0.1)
    np.testing.assert_allclose(many.kernel.row_sums(w), exact.kernel.row_sums(w), rtol=0.1)
    matrix = many.kernel.value_and_matrix(w, weights)[1]
    scale = abs(exact.fixed_point_matrix(x)).max()
    np.testing.assert_allclose(matrix, exact.fixed_point_matrix(x), atol=0.1 * scale)


@pytest.mark.ranks(1, 2)
def test_the_general_form_has_the_same_derivatives(comm):
    stream = np.random.default_rng(2)
    factors = stream.standard_normal((7, 5, 5))
    matrices = factors @ factors.transpose(0, 2, 1)
    gamma = stream.standard_normal(7)
    mine = slice(comm.rank, None, comm.size)
    objective = GaussianTermSum(comm, gamma[mine], matrices[mine], 2.0, 2)
    x = objective.initial_point(3)
    check_gradient(objective, x)
    check_hessian_product(objective, x)
    check_fixed_point_matrix(objective, x)
