"""Saddle-free steps and Hessian-free ones: escape, monotony, refusals, ranks, resumption, CG."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

import thalweg
from thalweg.data import Dataset
from thalweg.engines.hessian import GaussNewtonProduct, HessianProduct
from thalweg.errors import CapabilityError, InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout, sum_over_ranks
from thalweg.result import Status
from thalweg.testing import check_solver
from thalweg_embedding.objectives import symmetric_sne
from thalweg_embedding.preconditioners.spectral import SpectralDirection
from thalweg_saddlefree.capabilities import GradientSquares
from thalweg_saddlefree.curvature import Slices
from thalweg_saddlefree.hessian_free import HessianFree, truncated_cg
from thalweg_saddlefree.jax_objective import JaxObjective, import_jax
from thalweg_saddlefree.networks.build import build_autoencoder, build_deep_linear, build_mlp
from thalweg_saddlefree.rosenbrock import build_rosenbrock
from thalweg_saddlefree.saddle_free import EXPONENT, METRIC_FLOOR, SaddleFree


def monkey_saddle(x):
    return x[0] ** 3 - 3 * x[0] * x[1] ** 2 + (x @ x) ** 2 / 4


def styblinski_tang(x):
    return 0.5 * (x**4 - 16 * x**2 + 5 * x).sum()


def ginzburg_landau(x):
    bends = (import_jax().numpy.diff(x) ** 2).sum()
    return ((x**2 - 1) ** 2).sum() / (4 * len(x)) + 0.005 * len(x) * bends


#: Objectives, and what their values fall to from beside a saddle.
ESCAPES = {
    "monkey-saddle": (lambda: jax_objective(monkey_saddle, [0.01, 0.002]), -6.75),
    "styblinski-tang": (
        lambda: jax_objective(styblinski_tang, 0.157 + 1e-3 * np.cos(np.arange(8))), -8 * 30.0
    ),
    "ginzburg-landau": (
        lambda: jax_objective(ginzburg_landau, 1e-3 * np.cos(7.0 * np.arange(40) ** 1.5)), 1e-8
    ),
    "deep-linear": (
        lambda: build_deep_linear(None, MPI.COMM_SELF, size=4, depth=3, start=0.02), 1e-8
    ),
}  # fmt: skip


def jax_objective(function, start):
    pytest.importorskip("jax")
    return JaxObjective(MPI.COMM_SELF, function, np.asarray(start))


class Distributed(Objective, HessianProduct):
    """Double wells ``(x^2 - 1)^2 / 4`` of different steepness, rows on the ranks."""

    def __init__(self, comm, rows=7, crooked=0.0):
        super().__init__(comm, Layout(comm, rows, 2))
        self.steep = self.layout.local(np.linspace(1, 5, 2 * rows).reshape(rows, 2))
        self.crooked = crooked

    def value_and_gradient(self, x):
        local = 0.25 * float((self.steep * (x**2 - 1) ** 2).sum())
        return sum_over_ranks(self.comm, local), self.steep * x * (x**2 - 1)

    def hessian_product(self, x, direction):
        product = self.steep * (3 * x**2 - 1) * direction
        product[:, 0] += self.crooked * direction[:, 1]
        return product


def newton(objective, x, steps=60):
    """Plain Newton iterates with the exact dense Hessian."""
    for _ in range(steps):
        _, gradient = objective.value_and_gradient(x)
        units = np.eye(x.size)[:, :, None]
        hessian = np.hstack([objective.hessian_product(x, unit) for unit in units])
        x = x + np.linalg.lstsq(hessian, -gradient, rcond=1e-12)[0]
    return x


@pytest.mark.parametrize("name", ESCAPES)
def test_saddle_free_leaves_where_newton_converges_to_the_saddle(name):
    make, reached = ESCAPES[name]
    objective = make()
    stuck, gradient = objective.value_and_gradient(newton(objective, objective.initial_point(0)))
    assert np.linalg.norm(gradient) < 1e-6
    result = thalweg.minimize(objective, solver="saddle-free", iterations=80, gradient=1e-9)
    assert result.objective < stuck - 0.1
    assert result.objective <= reached + 1e-7


@pytest.mark.parametrize(("solver", "share"), [("saddle-free", 1e-3), ("hessian-free", 0.1)])
def test_the_objective_never_rises_and_newton_speed_sets_in(solver, share):
    objective = build_rosenbrock(None, MPI.COMM_SELF)
    result = thalweg.minimize(objective, solver=solver, iterations=200, gradient=1e-9)
    assert (np.diff(result.trace["objective"]) <= 0).all()
    norms = result.trace["gradient_norm"]
    assert result.status is Status.SMALL_GRADIENT
    assert norms[-1] < share * norms[-2]
    assert result.objective < 1e-9
    if solver == "saddle-free":  # at the exact minimum it says so
        state = SaddleFree().init(objective, np.ones(objective.layout.shape))
        assert SaddleFree().status(SaddleFree().step(state)) is Status.SMALL_GRADIENT


def test_a_step_along_which_the_model_rises_is_damped():
    objective = Distributed(MPI.COMM_SELF)
    x0 = np.full(objective.layout.shape, 1.5)
    assert thalweg.minimize(objective, x0, solver="saddle-free", method="ode").status.converged


def test_every_evaluation_is_counted_also_those_that_lead_nowhere():
    class Counted(Distributed):
        calls = 0

        def value(self, x):
            self.calls += 1
            return np.inf  # no trial is accepted

        def value_and_gradient(self, x):
            self.calls += 1
            return super().value_and_gradient(x)

    objective = Counted(MPI.COMM_SELF)
    result = thalweg.minimize(objective, solver="saddle-free", iterations=3)
    assert result.evaluations == objective.calls > 3


def test_at_an_exact_saddle_it_follows_negative_curvature():
    state = SaddleFree().init(jax_objective(ginzburg_landau, np.zeros(30)), np.zeros((30, 1)))
    assert state.gradient_norm == 0.0
    for _ in range(30):
        state = SaddleFree().step(state)
    assert state.value < 1e-9


@pytest.mark.parametrize("start", [0.0, 1e-12, 1e8])  # a maximum, beside it, a steep slope
def test_negative_curvature_is_followed_where_no_value_shows_the_gradient(start):
    objective, x = Distributed(MPI.COMM_SELF), np.full((7, 2), start)
    result = thalweg.minimize(objective, x, solver="saddle-free", iterations=200)
    assert result.status.converged
    assert result.objective < 1e-9


@pytest.mark.ranks(1, 3)
def test_steps_and_resumption_keep_the_rules(comm):
    check_solver(SaddleFree, Distributed(comm), Distributed(comm).initial_point(3), decreasing=True)
    objective = autoencoder(comm)
    x = objective.initial_point(0)
    for kind, rows in ((SaddleFree, 30), (partial(HessianFree, steps=20), 50)):
        check_solver(partial(kind, curvature_rows=rows), objective, x, steps=3, decreasing=True)


def autoencoder(comm):
    images = load_digits().data[:100] / 16.0
    return build_autoencoder(Dataset.from_array(images, comm=comm), comm, layers=[64, 12, 4])


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "solver",
    [
        SaddleFree(steps=15),
        SaddleFree(curvature_rows=60, steps=15),
        HessianFree(curvature_rows=60, steps=20),
    ],
)
def test_ten_iterates_agree_with_those_of_one_rank(comm, solver):
    points = []
    for here in (comm, MPI.COMM_SELF):
        objective = autoencoder(here)
        state = solver.init(objective, objective.initial_point(0))
        path = []
        for _ in range(10):
            state = solver.step(state)
            path.append(state.x)
        points.append(np.array(path))
    assert np.abs(points[0] - points[1]).max() < 1e-8 * np.abs(points[1]).max()


@pytest.mark.ranks(1, 2)
def test_an_unsymmetric_product_is_refused(comm):
    objective = Distributed(comm, crooked=0.1)
    with pytest.raises(InputError, match="not symmetric"):
        SaddleFree().init(objective, objective.initial_point(0))


def test_a_trial_that_is_not_finite_is_refused_and_damped():
    class Walled(Distributed):
        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            return float("nan") if np.abs(x).max() > 1.5 else value, gradient

    objective = Walled(MPI.COMM_SELF)
    solver = SaddleFree(damping=1e-4)
    state = solver.init(objective, np.full((7, 2), 0.05))
    for _ in range(40):
        state = solver.step(state)
    assert state.value < 1e-12


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_where_products_overflow_the_run_ends_as_diverged_at_its_last_point():
    objective, start = build_rosenbrock(None, MPI.COMM_SELF), np.array([[1e70], [-2e70]])
    result = thalweg.minimize(objective, start, "saddle-free", iterations=50)
    assert result.status is Status.DIVERGED
    assert "not finite" in result.notes[-1]
    assert np.isfinite(result.x).all()
    assert result.objective == objective.value(result.x)


class Saddle(Objective, HessianProduct, GradientSquares):
    """A quadratic function of six variables whose mean squared gradients differ."""

    def __init__(self):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 6))
        factor = np.random.default_rng(2).standard_normal((6, 6))
        self.hessian = factor + factor.T

    def value_and_gradient(self, x):
        return 0.5 * float((x * (self.hessian @ x)).sum()), self.hessian @ x

    def hessian_product(self, x, direction):
        return self.hessian @ direction

    def gradient_squares(self, x):
        return np.geomspace(1e-3, 1.0, 6)[:, None]


def test_a_step_is_that_of_the_variables_scaled_by_mean_squared_gradients():
    problem, solver = Saddle(), SaddleFree(damping=0.0, tolerance=1e-10)
    start = solver.init(problem, np.ones((6, 1)))
    scale = np.ravel(problem.gradient_squares(start.x) / problem.gradient_squares(None).mean())
    scale = np.diag((scale + METRIC_FLOOR) ** (-0.5 * EXPONENT))
    values, vectors = np.linalg.eigh(scale @ problem.hessian @ scale)
    inverse = vectors / abs(values) @ vectors.T
    step = solver.step(start).x - start.x
    wanted = -scale @ inverse @ scale @ start.gradient  # times a length
    size = np.linalg.norm(step) / np.linalg.norm(wanted)
    np.testing.assert_allclose(step, size * wanted, rtol=1e-8, atol=1e-9 * size)


def test_what_the_objective_lacks_is_named():
    class Plain(Objective):
        def value_and_gradient(self, x):
            return 0.5 * float((x**2).sum()), x.copy()

    objective = Plain(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 3))
    with pytest.raises(CapabilityError, match="Hessian product"):
        thalweg.minimize(objective, solver="saddle-free", iterations=1)
    wells = Distributed(MPI.COMM_SELF)
    with pytest.raises(CapabilityError, match="Gauss-Newton product"):
        SaddleFree(curvature="gauss-newton").init(wells, wells.initial_point(0))
    with pytest.raises(InputError, match="no data rows"):
        SaddleFree(curvature_rows=5).init(wells, wells.initial_point(0))
    with pytest.raises(CapabilityError, match="Gauss-Newton product"):
        thalweg.minimize(wells, solver="hessian-free", iterations=1)
    with pytest.raises(InputError, match="'damping'"):
        HessianFree(damping=0.0)


def test_only_lanczos_takes_a_preconditioner_and_none_is_chosen_by_default():
    data = Dataset.from_array(load_digits().data[:40])
    objective = symmetric_sne(data, MPI.COMM_SELF, perplexity=5.0, init="random", init_scale=0.1)
    runs = [
        thalweg.minimize(objective, solver="saddle-free", iterations=4, **options)
        for options in ({}, {"preconditioner": "identity"}, {"preconditioner": "spectral"})
    ]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    assert runs[2].objective < runs[2].trace["objective"][0]
    assert not np.array_equal(runs[2].x, runs[0].x)
    with pytest.raises(InputError, match="method = 'ode' takes no preconditioner"):
        SaddleFree(method="ode", preconditioner=SpectralDirection())


def test_a_loss_of_zero_in_single_precision_is_no_unsymmetric_product():
    rows = np.random.default_rng(0).normal(size=(20, 3)) + np.repeat([[4.0], [0.0]], 10, axis=0)
    data = Dataset.from_array(rows, labels=np.arange(20) // 10)
    stop = {"iterations": 300, "gradient": 0.0, "decrease": None}
    for scale in (1.0, 30.0):
        problem = build_mlp(data, MPI.COMM_SELF, layers=[3, 4, 2], precision="single", scale=scale)
        result = thalweg.minimize(problem, solver="saddle-free", **stop)
        assert result.objective == 0.0
        assert thalweg.minimize(problem, result.x, solver="saddle-free", **stop).objective == 0.0


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
    problem = build_mlp(points, MPI.COMM_SELF, layers=[4, 8, 3])
    options = {"curvature_rows": 10, "damping": 1e-6, "iterations": 60}
    result = thalweg.minimize(problem, solver="hessian-free", **options)
    assert result.iterations > 5
    assert result.objective < 0.3
