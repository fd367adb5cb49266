"""Hessian-free optimization: convergence, its CG, and what it keeps for the next step."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import thalweg
from thalweg.data import Dataset
from thalweg.engines.hessian import GaussNewtonProduct
from thalweg.errors import CapabilityError, InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout
from thalweg_saddlefree import functions
from thalweg_saddlefree.curvature import Slices
from thalweg_saddlefree.hessian_free import HessianFree
from thalweg_saddlefree.networks.build import build_mlp
from thalweg_saddlefree.truncated_cg import truncated_cg


@pytest.mark.parametrize("name", ["rosenbrock", "powell_singular", "broyden_tridiagonal"])
def test_sums_of_squares_are_solved(name):
    objective = getattr(functions, f"build_{name}")(None, MPI.COMM_SELF)
    result = thalweg.minimize(objective, solver="hessian-free", iterations=60, gradient=1e-8)
    assert result.objective < 1e-9
    assert (np.diff(result.trace["objective"]) <= 0).all()


def test_truncated_cg_predicts_the_undamped_model_at_every_kept_iterate():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((40, 40))
    matrix, gradient = root @ root.T / 40, rng.standard_normal(40)
    start = 0.1 * rng.standard_normal(40)
    slices = Slices(MPI.COMM_SELF, 40)
    diagonal = np.linspace(1, 2, 40)
    found = truncated_cg(
        slices, lambda v: matrix @ v, gradient, 0.1, start, lambda v: v / diagonal, 1e-6, 100
    )
    for p, model in zip(found.iterates, found.models, strict=True):
        assert model == pytest.approx(gradient @ p + 0.5 * p @ matrix @ p, rel=1e-9)
    wanted = np.linalg.solve(matrix + 0.1 * np.eye(40), -gradient)
    np.testing.assert_allclose(found.iterates[-1], wanted, rtol=1e-2, atol=1e-2)


def test_truncated_cg_stops_when_progress_is_slow():
    values = np.geomspace(1e-4, 1.0, 400)
    slices = Slices(MPI.COMM_SELF, 400)
    options = (lambda v: values * v, np.ones(400), 0.0, np.zeros(400), np.copy)
    loose = truncated_cg(slices, *options, progress=1e-1, limit=400)
    tight = truncated_cg(slices, *options, progress=1e-4, limit=400)
    assert 10 < loose.iterations < tight.iterations < 400


def test_what_cannot_be_used_is_refused():
    with pytest.raises(CapabilityError, match="Gauss-Newton product"):
        thalweg.minimize(
            functions.build_monkey_saddle(None, MPI.COMM_SELF), solver="hessian-free", iterations=1
        )
    with pytest.raises(InputError):
        HessianFree(damping=0.0)


class Parabola(Objective, GaussNewtonProduct):
    """Half the square of a number, of which products give but half the curvature."""

    def __init__(self, comm):
        super().__init__(comm, Layout(MPI.COMM_SELF, 1))

    def value_and_gradient(self, x):
        return 0.5 * float((x**2).sum()), x.copy()

    def gauss_newton_product(self, x, direction):
        return direction / 1.99


@pytest.mark.ranks(1, 2)
def test_a_step_that_lowers_the_objective_by_too_little_is_shortened(comm):
    solver, problem = HessianFree(damping=1e-9), Parabola(comm)
    state = solver.step(solver.init(problem, np.ones((1, 1))))
    # A whole step comes to -0.99 and gains a hundredth of the slope's promise.
    assert state.step_length == pytest.approx(0.8)
    assert abs(state.x[0, 0]) == pytest.approx(0.8 * 1.99 - 1.0)


def test_a_refused_step_is_tried_again_with_more_damping():
    data = load_iris()
    points = Dataset.from_array(data.data, labels=data.target)
    result = thalweg.minimize(
        build_mlp(points, MPI.COMM_SELF, layers=[4, 8, 3]),
        solver="hessian-free",
        curvature_rows=10,
        damping=1e-6,
        iterations=60,
    )
    assert result.iterations > 5
    assert result.objective < 0.3
