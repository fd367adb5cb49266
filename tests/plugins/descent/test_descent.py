"""Native solvers and line searches: conditions they promise, monotony, caps, ranks, restarts."""

import itertools
import math

import numpy as np
import pytest

import thalweg
from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import MPI, Layout
from thalweg.result import Status
from thalweg.testing import check_resumption
from thalweg_descent.descent import Metric
from thalweg_descent.gradient_descent import GradientDescent
from thalweg_descent.lbfgs import LBFGS, LimitedMemory
from thalweg_descent.line_search import Backtracking, LineFunction, StrongWolfe, Trial
from thalweg_descent.nonlinear_cg import LastDirection, NonlinearCG

SOLVERS = [
    GradientDescent(), GradientDescent(line_search="strong-wolfe"),
    NonlinearCG(), NonlinearCG(beta="hager-zhang"), NonlinearCG(beta="fletcher-reeves"),
    NonlinearCG(beta="dai-yuan"), NonlinearCG(line_search="backtracking"),
    LBFGS(), LBFGS(line_search="strong-wolfe"), LBFGS(memory=3),
]  # fmt: skip


# Conjugate gradients need the curvature condition to be fast.
FAST = [solver for solver in SOLVERS[2:] if solver != NonlinearCG(line_search="backtracking")]


class Applied(Preconditioner):
    """A function of the residual, which counts how often it is applied."""

    def __init__(self, function, constant=False):
        self.function, self.constant, self.count = function, constant, 0

    def setup(self, objective, x):
        """Nothing to prepare."""

    def apply(self, residual):
        self.count += 1
        return self.function(residual)


def label(solver):
    return f"{type(solver).__name__}-{solver.line_search}-{getattr(solver, 'beta', '')}"


def minimize(objective, solver, **options):
    options = {"iterations": 2000, "gradient": 1e-8, "decrease": 0.0, **options}
    return thalweg.minimize(objective, solver=solver, **options)


@pytest.mark.parametrize("solver", SOLVERS, ids=label)
@pytest.mark.parametrize("problem", ["quadratic", "rosenbrock", "chain"])
def test_every_step_lowers_the_objective(solver, problem, request):
    objective = request.getfixturevalue(problem)(MPI.COMM_SELF)
    result = minimize(objective, solver, iterations=2000 if solver in FAST else 300, gradient=1e-6)
    assert np.all(np.diff(result.trace["objective"]) <= 0)
    assert np.all(np.isfinite(result.x))
    assert result.objective < 0.01 * result.trace["objective"][0]
    assert solver not in FAST or result.status is Status.SMALL_GRADIENT


@pytest.mark.parametrize("solver", [GradientDescent, NonlinearCG, LBFGS])
def test_the_exact_hessian_as_preconditioner_takes_one_newton_step(
    quadratic, exact_inverse, solver
):
    result = minimize(quadratic(MPI.COMM_SELF), solver(preconditioner=exact_inverse()))
    assert (result.iterations, result.evaluations) == (1, 2)
    assert result.trace["step_length"][-1] == 1.0


@pytest.mark.parametrize(
    "options",
    [
        {"solver": NonlinearCG},
        {"solver": NonlinearCG, "beta": "hager-zhang"},
        {"solver": LBFGS, "scaling": "secant"},
        {"solver": GradientDescent},
    ],
    ids=["pr", "hz", "lbfgs", "gd"],
)
def test_preconditioning_is_a_change_of_variables(quadratic, options):
    # With B = S^2, minimizing over x is minimizing over S x without preconditioner.
    options = dict(options)
    solver = options.pop("solver")
    rough = quadratic(MPI.COMM_SELF, power=1.0)
    smooth = quadratic(MPI.COMM_SELF, power=0.5)
    start = rough.layout.random_normal(5)
    scale = np.sqrt(smooth.weights)
    half = Applied(lambda residual: residual / smooth.weights)  # B: the root of the Hessian
    # A step of 1 scales both runs alike; without a preconditioner the first is unscaled.
    stop = {"iterations": 6, "gradient": 0.0}
    a = minimize(rough, solver(preconditioner=half, **options), x0=start, **stop)
    plain = solver(preconditioner=Applied(np.copy), **options)
    b = minimize(smooth, plain, x0=start * scale, **stop)
    np.testing.assert_allclose(a.x * scale, b.x, rtol=0, atol=1e-9)


def test_a_constant_preconditioner_is_applied_once_per_iteration(chain):
    objective = chain(MPI.COMM_SELF)
    found = []
    for constant in (False, True):
        counting = Applied(lambda residual: residual * [0.5, 2.0], constant)
        result = minimize(objective, LBFGS(preconditioner=counting, memory=3), iterations=15)
        found.append((result, counting.count))
    (first, twice), (second, once) = found
    np.testing.assert_allclose(second.x, first.x, atol=1e-9)
    assert once == second.iterations + 1
    assert twice > 1.5 * once


def test_the_blocked_recursion_is_the_bfgs_formula():
    layout = Layout(MPI.COMM_SELF, 6, 2)
    rng = np.random.default_rng(0)
    hessian = np.diag(np.linspace(1, 9, 12)) + 0.5
    base = np.diag(rng.uniform(0.5, 2, 12))
    rule = LimitedMemory(memory=4, scaling="none")

    def apply(residual):
        return (base @ residual.ravel()).reshape(layout.shape)

    metric = Metric(layout, apply, False)
    memory = rule.start()
    pairs = []
    for _ in range(7):
        s = rng.standard_normal(12)
        y = hessian @ s
        pairs.append((s, y))
        memory = rule._stored(memory, metric, s.reshape(6, 2), y.reshape(6, 2), None)
    gradient = rng.standard_normal(12)
    direction, _ = rule.compute(memory, metric, gradient.reshape(6, 2))
    inverse = base
    for s, y in pairs[-4:]:  # Nocedal and Wright, eq. 6.17
        left = np.eye(12) - np.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    np.testing.assert_allclose(direction.ravel(), -inverse @ gradient, rtol=1e-10)


def test_conjugate_directions_follow_the_papers_formulas():
    layout = Layout(MPI.COMM_SELF, 5, 1)
    old, change, last = np.random.default_rng(3).standard_normal((3, 5))
    new = old + change
    product, square = last @ change, old @ old
    if product < 0:
        last, product = -last, -product
    expected = {
        "fletcher-reeves": new @ new / square,
        "polak-ribiere+": max(0.0, new @ change / square),
        "dai-yuan": new @ new / product,
        # Hager and Zhang (2005), eqs. (1.3) and (1.6).
        "hager-zhang": max(
            (change - 2 * last * (change @ change) / product) @ new / product,
            -1 / (np.linalg.norm(last) * min(0.01, math.sqrt(square))),
        ),
    }
    for beta, value in expected.items():
        rule = NonlinearCG(beta=beta).direction()
        gradient, y, p, z = (each[:, None] for each in (new, change, last, old))
        memory = LastDirection(change=y, direction=p, z=z, old_zg=square)
        metric = Metric(layout, lambda residual: residual, True)
        found = rule._beta(memory, metric, gradient, gradient, new @ new)
        assert found == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("solver", [GradientDescent, LBFGS])
def test_the_first_step_moves_a_row_by_a_tenth_of_the_length_scale(chain, solver):
    objective = chain(MPI.COMM_SELF, coupling=0.1)
    start = objective.layout.random_normal(4)
    places = []
    minimize(objective, solver(), x0=start, iterations=1, callback=lambda i: places.append(+i.rows))
    assert np.linalg.norm(places[1] - places[0], axis=1).max() == pytest.approx(
        0.1 * np.abs(start).max(), rel=1e-12
    )


@pytest.mark.parametrize("solver", [GradientDescent, NonlinearCG, LBFGS])
def test_no_row_moves_farther_than_the_cap(chain, solver):
    objective = chain(MPI.COMM_SELF)
    places, look = [], lambda iterate: places.append(iterate.rows.copy())
    minimize(objective, solver(step_cap=0.05), iterations=30, callback=look)
    for before, after in itertools.pairwise(places):
        farthest = np.linalg.norm(after - before, axis=1).max()
        assert farthest <= 0.05 * np.abs(before).max() * (1 + 1e-12)


def test_a_run_ends_as_stalled_where_no_step_lowers_the_value():
    class Lying(Objective):
        def __init__(self):
            super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 3, 2))

        def value_and_gradient(self, x):
            return 1.0 + float(np.abs(x).sum()), np.ones_like(x)

    result = minimize(Lying(), LBFGS(), x0=np.zeros((3, 2)))
    assert result.status is Status.PRECISION_LIMIT
    assert result.objective == 1.0


def test_where_a_preconditioner_points_uphill_the_gradient_is_followed(rosenbrock):
    uphill = Applied(np.negative)
    solvers = [GradientDescent(preconditioner=b, first_step=0.01) for b in (None, uphill)]
    runs = [minimize(rosenbrock(MPI.COMM_SELF), solver, iterations=10) for solver in solvers]
    for column in ("step_length", "objective"):
        np.testing.assert_allclose(runs[1].trace[column], runs[0].trace[column], rtol=1e-8)


def test_evaluations_are_counted_as_the_objective_sees_them(rosenbrock, counted):
    objective = rosenbrock(MPI.COMM_SELF)
    calls = counted(objective)
    for solver in SOLVERS:
        calls.clear()
        assert minimize(objective, solver, iterations=40).evaluations == len(calls)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("solver", SOLVERS, ids=label)
def test_twenty_iterates_do_not_depend_on_the_ranks(chain, solver, comm):
    whole = chain(MPI.COMM_SELF)
    start = whole.layout.random_normal(2)
    shared = chain(comm)
    alone = minimize(whole, solver, x0=start, iterations=20)
    together = minimize(shared, solver, x0=shared.layout.local(start), iterations=20)
    np.testing.assert_allclose(together.gather(), alone.x, rtol=0, atol=1e-10)
    assert together.evaluations == alone.evaluations


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", SOLVERS, ids=label)
def test_a_resumed_run_ends_on_the_same_bits(rosenbrock, solver, comm):
    objective = rosenbrock(comm)
    check_resumption(lambda: solver, objective, objective.initial_point(0), steps=12)


def test_a_reset_keeps_the_point_and_forgets_the_curvature(rosenbrock):
    objective = rosenbrock(MPI.COMM_SELF)
    for solver in SOLVERS:
        state = solver.init(objective, objective.initial_point(0))
        for _ in range(4):
            state = solver.step(state)
        evaluations, value = state.evaluations, state.value
        state = solver.reset(state)
        assert (state.value, state.evaluations) == (value, evaluations + 1)
        assert solver.direction().is_reset(state.memory)
        assert solver.step(state).value < value
        solver.close(state)


def test_without_growth_steps_only_shrink_until_the_objective_changes(rosenbrock):
    solver = GradientDescent(growth=1.0)
    objective = rosenbrock(MPI.COMM_SELF)
    result = minimize(objective, solver, iterations=100)
    assert np.all(np.diff(result.trace["step_length"][1:]) <= 0)
    state = solver.init(objective, objective.initial_point(0))
    for _ in range(20):
        state = solver.step(state)
    assert solver.reset(state).memory is None
    assert GradientDescent().reset(state).memory == state.memory > 0
    for trials in (2, 40):
        notes = minimize(objective, GradientDescent(trials=trials), iterations=300).notes
        assert any("line search used all of its trials" in note for note in notes) is (trials == 2)


def test_where_a_preconditioner_does_not_descend_the_gradient_is_followed_with_a_note(rosenbrock):
    for function in (np.negative, np.copy):
        solver = GradientDescent(preconditioner=Applied(function))
        result = minimize(rosenbrock(MPI.COMM_SELF), solver, iterations=30)
        assert any("does not descend" in note for note in result.notes) is (function is np.negative)
        assert result.objective < 0.25 * result.trace["objective"][0]


@pytest.mark.parametrize("solver", ["lbfgs", "gradient-descent", "nonlinear-cg"])
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_gradient_whose_square_overflows_diverges(solver):
    class Hill(Objective):
        def __init__(self):
            super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 3, 1))

        def value_and_gradient(self, x):
            return -float((x * x).sum()), -2.0 * x

    assert thalweg.minimize(Hill(), solver=solver).status is Status.DIVERGED


class Curve(Objective):
    """A function of one number, given with its derivative."""

    def __init__(self, function, derivative):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 1, 1))
        self.function, self.derivative = function, derivative
        self.calls = 0

    def value_and_gradient(self, x):
        self.calls += 1
        return self.function(x[0, 0]), np.array([[self.derivative(x[0, 0])]])


CURVES = {
    "parabola": (lambda t: (t - 3) ** 2, lambda t: 2 * (t - 3)),
    "far minimum": (lambda t: (t / 1e4 - 1) ** 2, lambda t: 2e-4 * (t / 1e4 - 1)),
    "near minimum": (lambda t: (t * 1e6 - 1) ** 2, lambda t: 2e6 * (t * 1e6 - 1)),
    "quartic": (lambda t: (t - 1) ** 4 - t, lambda t: 4 * (t - 1) ** 3 - 1),
    "wavy": (
        lambda t: math.sin(5 * t) - t + 0.2 * t * t,
        lambda t: 5 * math.cos(5 * t) - 1 + 0.4 * t,
    ),
    "wall": (
        lambda t: -t + 0.1 * math.log(1 / (2 - t)) if t < 2 else math.nan,
        lambda t: -1 + 0.1 / (2 - t) if t < 2 else math.nan,
    ),
    "cliff": (
        lambda t: t**2 - t if t < 5 else math.inf,
        lambda t: 2 * t - 1 if t < 5 else math.nan,
    ),
}


def line_of(curve, longest=1e20, up=False):
    x, direction = np.zeros((1, 1)), np.ones((1, 1))
    value, gradient = curve.value_and_gradient(x)
    slope = gradient.item()
    if slope > 0 and not up:
        direction, slope = -direction, -slope
    curve.calls = 0
    return LineFunction(curve, direction, Trial(0.0, value, x, slope, gradient), longest)


SEARCHES = [StrongWolfe(curvature=share) for share in (0.9, 0.1, 1e-3)]
SEARCHES += [Backtracking(armijo=share) for share in (1e-4, 0.4)]


@pytest.mark.parametrize("first", [1e-6, 1e-2, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("search", SEARCHES)
def test_an_accepted_point_meets_its_conditions_and_has_its_value_and_gradient(name, first, search):
    curve = Curve(*CURVES[name])
    line = line_of(curve)
    trial = search.search(line, first)
    assert trial.value <= line.start.value + search.armijo * trial.step * line.start.slope
    if isinstance(search, StrongWolfe):
        assert abs(trial.slope) <= search.curvature * abs(line.start.slope)
    else:
        assert trial.step <= first
    assert curve.calls == line.evaluations
    assert curve.value_and_gradient(trial.x) == (trial.value, trial.gradient)
    assert (trial.gradient * line.direction).item() == trial.slope
    assert trial.x == line.start.x + trial.step * line.direction


@pytest.mark.parametrize("search", [Backtracking(), StrongWolfe()])
def test_a_function_that_only_rises_is_given_up(search):
    # The derivative lies: no step along the direction lowers the value.
    assert search.search(line_of(Curve(lambda t: 1 + abs(t), lambda t: -1.0)), 1.0) is None


def test_slopes_decide_where_values_drown_in_rounding():
    # The value cannot show a change of 1e-17, the derivative can.
    curve = Curve(lambda t: 1.0 + 1e-17 * (t - 1) ** 2, lambda t: 2e-17 * (t - 1))
    trial = StrongWolfe(curvature=0.1).search(line_of(curve), 0.7)
    assert trial is not None
    assert abs(trial.step - 1.0) < 0.11
    assert trial.value <= 1.0


def test_interpolation_finds_a_parabolas_minimum_at_the_second_trial():
    line = line_of(Curve(*CURVES["parabola"]))
    trial = Backtracking(shrink=0.99).search(line, 7.0)
    assert (line.evaluations, trial.step) == (2, pytest.approx(3.0))
