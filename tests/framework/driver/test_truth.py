"""What a run says of its end is so: NaN is a failure, noise is no convergence."""

import contextlib
import math

import numpy as np
import pytest

import thalweg
from thalweg.driver import Stop
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import NumericalError
from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import Layout, sum_over_ranks
from thalweg.result import Status

SOLVERS = (
    "gradient-descent", "nonlinear-cg", "lbfgs", "tao:lmvm", "tao:cg", "tao:nls", "tao:bqnktr",
    "scipy:BFGS", "scipy:L-BFGS-B", "scipy:Nelder-Mead", "scipy:trust-ncg", "scipy:SLSQP",
)  # fmt: skip


class Valley(Objective, HessianProduct):
    """A quadratic of condition 100, whose values, gradients or noise can be spoiled."""

    def __init__(self, comm, fault="", after=math.inf, noise=0.0):
        super().__init__(comm, Layout(comm, 7, 2))
        self.fault, self.after, self.noise = fault, after, noise
        self.calls = 0
        self.weights = np.logspace(0, 2, 14).reshape(7, 2)[self.layout.start : self.layout.stop]

    def value_and_gradient(self, x):
        self.calls += 1
        gradient = self.weights * x
        value = 1.0 + 0.5 * sum_over_ranks(self.comm, float((self.weights * x**2).sum()))
        if self.noise:
            value += self.noise * math.sin(1e9 * value)
        if self.calls > self.after:
            if self.fault == "gradient":
                gradient[...] = math.nan
            elif self.fault == "value":
                return math.nan, gradient
            elif self.fault == "below":
                return -math.inf, gradient
        return value, gradient

    def hessian_product(self, x, direction):
        return self.weights * direction

    def value_error(self, value):
        return max(self.noise, super().value_error(value))


class Pit(Valley):
    """The quadratic, minus infinity below a finite level."""

    def value_and_gradient(self, x):
        value, gradient = super().value_and_gradient(x)
        return value if value > 2.0 else -math.inf, gradient


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", ["gradient-descent", "nonlinear-cg", "lbfgs"])
def test_steps_that_end_before_minus_infinity_have_not_converged(comm, solver):
    pit = Pit(comm)
    result = thalweg.minimize(
        pit, np.ones(pit.layout.shape), solver=solver, preconditioner="identity", iterations=5000
    )
    assert result.status is Status.DIVERGED
    assert math.isfinite(result.objective)


#: Of the solvers, those that are tried on several ranks too.
ON_RANKS = ("lbfgs", "tao:nls", "scipy:BFGS")


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("fault", ["value", "gradient"])
def test_nan_after_the_start_is_a_failure_that_keeps_the_last_good_iterate(comm, solver, fault):
    if (solver, fault) == ("scipy:Nelder-Mead", "gradient"):
        return  # it evaluates no gradient
    if comm.size > 1 and solver not in ON_RANKS:
        return
    objective = Valley(comm, fault, after=6)
    result = thalweg.minimize(objective, solver=solver, decrease=None, iterations=1000)
    assert result.status is Status.DIVERGED
    assert result.status.exit_code == 3
    assert math.isfinite(result.objective)
    assert np.isfinite(result.trace["objective"]).all()
    assert Valley(comm).value(result.x) == pytest.approx(result.objective, rel=1e-12)


class Edge(Objective):
    """A quadratic with a weak barrier before what is no number; its minimum is 50 within."""

    def __init__(self, comm):
        super().__init__(comm, Layout(comm, 2, 1))

    def initial_point(self, seed):
        return self.layout.local(np.array([[0.0], [1.0]]))

    def value_and_gradient(self, x):
        (a,), (b,) = self.layout.gather_rows(x)
        value = (a - 100) ** 2 / 2 + 50 * (b + 1) ** 2 - (1e-6 * np.log(b) if b > 0 else math.nan)
        slope = 100 * (b + 1) - (1e-6 / b if b > 0 else math.nan)
        return float(value), self.layout.local(np.array([[a - 100], [slope]]))


@pytest.mark.ranks(1, 2)
def test_steps_that_the_edge_of_the_domain_cuts_short_are_not_called_convergence(comm):
    found = [thalweg.minimize(Edge(comm), solver=name) for name in ("gradient-descent", "lbfgs")]
    assert [result.status.converged for result in found] == [False, True]
    assert found[0].status is Status.DIVERGED
    assert found[1].objective == pytest.approx(50.0, rel=1e-6)


def spoiled(fault):
    """An objective whose value and gradient do not belong together, or are not given."""

    class Spoiled(Valley):
        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            if fault == "alone":
                return value
            spoiled = {"sign": -gradient, "list": gradient.tolist(), "flat": gradient.ravel()}
            values = {"constant": 1.0, "zero": 0.0, "bool": True, "none": None, "complex": 1j}
            return values.get(fault, value), spoiled.get(fault, gradient)

    return Spoiled


DESCENT = [solver for solver in SOLVERS if solver != "scipy:Nelder-Mead"]


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("solver", [*DESCENT, "saddle-free"])
@pytest.mark.parametrize("fault", ["sign", "constant", "zero"])
def test_a_gradient_that_is_not_that_of_the_value_is_a_failure(comm, solver, fault):
    if comm.size > 1 and (solver not in ON_RANKS or fault != "sign"):
        return
    with np.errstate(over="ignore"):
        result = thalweg.minimize(spoiled(fault)(comm), solver=solver)
    assert result.status.exit_code == 3
    if (solver, fault) != ("scipy:SLSQP", "sign"):  # it goes up for ever
        assert result.status is Status.INCONSISTENT
        assert "thalweg.testing.check_gradient" in result.message


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", ["saddle-free", "saddle-free-subspace"])
def test_a_value_other_than_the_one_beside_the_gradient_is_a_failure(comm, solver):
    class Penalized(Valley):
        def value(self, x):
            return super().value(x) + 1.0

    assert thalweg.minimize(Penalized(comm), solver=solver).status is Status.INCONSISTENT


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", ["lbfgs", "nonlinear-cg", "tao:lmvm", "saddle-free-subspace"])
@pytest.mark.parametrize("scale", [1e-200, 1e200, 1e-310])
def test_a_slope_whose_square_is_lost_is_not_called_convergence(comm, solver, scale):
    class Scaled(Valley):
        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            return scale * (value - 1.0), scale * gradient

        def hessian_product(self, x, direction):
            return scale * self.weights * direction

    with np.errstate(all="ignore"), contextlib.suppress(NumericalError):
        assert thalweg.minimize(Scaled(comm), solver=solver).status.failed


@pytest.mark.parametrize("solver", ["lbfgs", "scipy:CG", "scipy:BFGS", "tao:lmvm", "tao:cg"])
@pytest.mark.parametrize("seed", [0, 4, 7])
def test_a_gradient_with_a_few_wrong_signs_is_not_called_convergence(comm, solver, seed):
    random = np.random.default_rng(seed)
    signs = np.ones((30, 1))
    signs[random.choice(30, random.integers(1, 4), replace=False)] = -1.0
    weights = np.linspace(1.0, 100.0, 30)[:, None]

    class Spoiled(Objective):
        def __init__(self):
            super().__init__(comm, Layout(comm, 30, 1))

        def value_and_gradient(self, x):
            return 0.5 * float((weights * x**2).sum()), signs * weights * x

    result = thalweg.minimize(Spoiled(), random.normal(size=(30, 1)), solver, iterations=500)
    assert result.status.failed or result.status.limited or result.objective < 1e-3


@pytest.mark.parametrize("solver", DESCENT)
@pytest.mark.parametrize("kind", ["single", "noisy", "kinks"])
def test_values_that_only_round_or_have_kinks_are_no_contradiction(comm, solver, kind):
    class Rough(Valley):
        def value_and_gradient(self, x):
            if kind == "kinks":
                return float(np.abs(x).sum()), np.sign(x)
            rounded = x.astype(np.float32) if kind == "single" else x
            value, gradient = super().value_and_gradient(rounded)
            if kind == "single":
                return float(np.float32(value)), gradient.astype(np.float32)
            return value + 1e-8 * math.sin(1e9 * value), gradient  # beyond what it states

    result = thalweg.minimize(Rough(comm), solver=solver, decrease=None, iterations=80)
    assert not result.status.failed


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("flat", r"the gradient must be an array of shape \(\d, 2\), the rows of this rank, not"),
        ("list", "the gradient must be an array of shape .* not a list"),
        ("alone", "must return the objective's value and its gradient, not a float"),
        ("bool", "must return the objective's value, a number, not"),
        ("none", "must return the objective's value, a number, not"),
        ("complex", "must return the objective's value, a number, not a comp"),
    ],
)
def test_a_value_or_gradient_of_another_form_is_named(comm, fault, message):
    with pytest.raises(TypeError, match=rf"Spoiled\.value_and_gradient:? {message}"):
        thalweg.minimize(spoiled(fault)(comm))


class Kept(Objective):
    """Half the sum of i |x_i - 1|^2, whose arrays lie in one buffer."""

    def __init__(self, comm, buffer):
        super().__init__(comm, Layout(comm, 9, 2))
        self.weights = 1.0 + np.arange(9)[self.layout.start : self.layout.stop, None]
        whole = np.empty((self.layout.local_rows + 2, 2))
        own = np.empty(self.layout.shape)
        self.flat = own.reshape(-1)
        self.buffer = {"view": whole[1:-1], "own": own, "fresh": None}[buffer]

    def kept(self, array):
        if self.buffer is None:
            return array
        self.buffer[...] = array
        return self.buffer

    def value_and_gradient(self, x):
        gradient = self.weights * (x - 1.0)
        return 0.5 * self.layout.dot(gradient, x - 1.0), self.kept(gradient)


class KeptJacobi(Preconditioner):
    """The exact inverse of the wrong matrix, in the objective's buffer."""

    constant = True

    def setup(self, objective, x):
        self.objective = objective

    def apply(self, residual):
        return self.objective.kept(residual / self.objective.weights**0.5)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("buffer", ["view", "own"])
@pytest.mark.parametrize("solver", ["lbfgs", "nonlinear-cg"])
def test_what_an_objective_returns_may_lie_in_one_buffer(comm, buffer, solver):
    def run(kind):
        return thalweg.minimize(Kept(comm, kind), None, solver, KeptJacobi(), iterations=12)

    np.testing.assert_array_equal(run(buffer).x, run("fresh").x)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", ["lbfgs", "tao:lmvm"])
def test_a_solution_that_a_preconditioner_does_not_return_is_named(comm, solver):
    class Forgets(Preconditioner):
        def setup(self, objective, x):
            pass

        def apply(self, residual):
            direction = residual.copy()  # noqa: F841

    with pytest.raises(TypeError, match=r"Forgets\.apply: the answer must be an array .* not None"):
        thalweg.minimize(Valley(comm), solver=solver, preconditioner=Forgets())


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("fault", ["value", "gradient", "below"])
def test_any_solver_that_steps_onto_nan_is_brought_back(comm, heavy_ball, fault):
    objective = Valley(comm, fault, after=6)
    before = thalweg.minimize(Valley(comm), solver=heavy_ball(rate=0.005), iterations=5)
    result = thalweg.minimize(objective, solver=heavy_ball(rate=0.005), iterations=50)
    assert result.status is Status.DIVERGED
    assert result.iterations == 5
    np.testing.assert_array_equal(result.x, before.x)
    assert result.objective == before.objective


@pytest.mark.ranks(1, 2)
def test_a_gradient_that_is_nan_at_the_start_is_refused(comm):
    with pytest.raises(NumericalError, match="gradient is not finite at the starting point"):
        thalweg.minimize(Valley(comm, "gradient", after=0))


@pytest.mark.parametrize("solver", ["gradient-descent", "lbfgs", "nonlinear-cg"])
@pytest.mark.parametrize("search", ["backtracking", "strong-wolfe"])
def test_noise_is_not_called_convergence(comm, solver, search):
    options = {"line_search": search}
    noisy = Valley(comm, noise=1e-6)
    result = thalweg.minimize(noisy, solver=solver, decrease=None, iterations=5000, **options)
    assert result.status is Status.NOISE_LIMIT
    assert not result.status.converged
    assert result.status.exit_code == 0
    assert result.objective < 1.001
    clean = thalweg.minimize(Valley(comm), solver=solver, decrease=None, iterations=5000, **options)
    assert clean.status in (Status.PRECISION_LIMIT, Status.SMALL_GRADIENT)


def test_a_decrease_below_the_noise_is_not_called_convergence():
    rules = Stop(decrease=1e-9)
    values = [1.0] * 6
    assert rules.convergence(values, 1.0) is Status.SMALL_DECREASE
    assert rules.convergence(values, 1.0, error=1e-6) is Status.NOISE_LIMIT


def test_one_small_decrease_is_not_convergence():
    rules = Stop(decrease=1e-3, window=3)
    values = [4.0, 3.0, 2.9999, 2.0, 1.0, 0.9999, 0.99985]
    running = [rules.convergence(values[: k + 1], 1.0) for k in range(len(values))]
    assert set(running) == {Status.RUNNING}
    assert rules.convergence([*values, 0.9998], 1.0) is Status.SMALL_DECREASE
