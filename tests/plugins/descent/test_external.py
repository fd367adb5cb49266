"""TAO and SciPy behind the same interface: every type, any rank count, resumed to the bit."""

import itertools
import math

import numpy as np
import pytest

import thalweg
from thalweg.driver import HomotopySchedule, Stop
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import CapabilityError, InputError
from thalweg.interfaces import Homotopy, Objective
from thalweg.parallel import MPI, Layout, sum_over_ranks
from thalweg.result import Status
from thalweg.testing import check_resumption
from thalweg_descent.scipy_minimize import METHODS, WITH_PRODUCT, WITHOUT_GRADIENT, ScipyMinimize
from thalweg_descent.tao import FITTING, NEWTON, WITH_H0, Tao

TAO = [f"tao:{kind}" for kind in FITTING]
SCIPY = [f"scipy:{method}" for method in METHODS]
#: Representatives of the ways in which external solvers call us.
SEVERAL_RANKS = [
    *("tao:lmvm", "tao:cg", "tao:nls", "tao:ntr", "tao:bntl", "tao:bqnls"),
    *("scipy:L-BFGS-B", "scipy:TNC", "scipy:trust-ncg", "scipy:SLSQP"),
]
FAST = [n for n in (*TAO, *SCIPY) if n.partition(":")[2] not in WITHOUT_GRADIENT]


class Tilted(Objective, Homotopy):
    """(x² − 1)² / 4 + tilt x."""

    homotopy_parameter = 0.0

    def __init__(self, comm):
        super().__init__(comm, Layout(comm, 1, 1))

    def value_and_gradient(self, x):
        value = ((x**2 - 1) ** 2 / 4 + self.homotopy_parameter * x).sum()
        return sum_over_ranks(self.comm, float(value)), x * (x**2 - 1) + self.homotopy_parameter


def test_a_method_whose_equal_runs_differ_is_refused():
    with pytest.raises(InputError, match=r"equal runs .* differ; use 'scipy:trust-ncg'"):
        ScipyMinimize(method="trust-krylov")


def minimize(objective, solver, **options):
    options = {"iterations": 400, "gradient": 1e-5, "decrease": 0.0, **options}
    if solver.startswith("tao"):
        options.setdefault("preconditioner", "identity")
    return thalweg.minimize(objective, solver=solver, **options)


@pytest.mark.parametrize("solver", FAST)
def test_a_curved_valley_is_followed_to_its_end(rosenbrock, solver):
    result = minimize(rosenbrock(MPI.COMM_SELF, rows=2), solver)
    assert result.objective < 1e-4
    assert np.all(np.isfinite(result.trace["objective"]))


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", [f"scipy:{method}" for method in WITHOUT_GRADIENT])
def test_methods_without_gradient_evaluate_none_that_no_rule_asks_for(comm, rosenbrock, solver):
    class Values(rosenbrock):
        def value(self, x):
            return super().value_and_gradient(x)[0]

        def value_and_gradient(self, x):
            raise AssertionError("no rule asks for a gradient")

    result = minimize(Values(comm, rows=1), solver, gradient=None)
    assert result.status is Status.PRECISION_LIMIT
    assert result.objective < 1e-8
    assert np.isnan(result.trace["gradient_norm"]).all()
    homotopy = HomotopySchedule((1.0, 0.5), Stop(iterations=5, decrease=None))
    tilted = minimize(Tilted(comm), solver, gradient=None, iterations=60, homotopy=homotopy)
    assert tilted.gather() == pytest.approx(-1.19148788, abs=1e-6)  # x^3 - x + 0.5 = 0


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", [f"scipy:{method}" for method in WITH_PRODUCT])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_an_exact_minimum_is_the_end(comm, quadratic, solver, start, folder):
    objective = quadratic(comm, rows=3, columns=1, condition=1.0)
    rules = {"gradient": None, "decrease": None, "checkpoint": folder}
    x0 = np.full((objective.layout.local_rows, 1), start)
    for resume in (False, True):
        result = minimize(objective, solver, x0=x0, resume=resume, **rules)
        assert result.status is Status.SMALL_GRADIENT
        assert result.objective == 0.0
        assert not result.x.any()


@pytest.mark.parametrize("solver", ["scipy:BFGS", "scipy:L-BFGS-B"])
def test_a_minimum_reached_to_the_bit_is_no_failure(quadratic, solver):
    objective = quadratic(MPI.COMM_SELF, rows=10, columns=1)
    result = thalweg.minimize(objective, solver=solver, x0=np.ones((10, 1)))
    assert not result.status.failed
    assert result.objective < 1e-150


class Slope(Objective, HessianProduct):
    """x⁴ / 4 − x, without a curvature at the start."""

    def __init__(self, comm):
        super().__init__(comm, Layout(comm, 6, 1))

    def value_and_gradient(self, x):
        with np.errstate(all="ignore"):  # a first step may be of any length
            return sum_over_ranks(self.comm, float((x**4 / 4 - x).sum())), x**3 - 1.0

    def hessian_product(self, x, direction):
        with np.errstate(all="ignore"):
            return 3.0 * x**2 * direction


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", ["tao:nls", "tao:ntr", *(f"scipy:{m}" for m in WITH_PRODUCT)])
def test_a_start_without_curvature_is_left_or_a_failure(comm, solver):
    objective = Slope(comm)
    result = minimize(objective, solver, x0=np.zeros((objective.layout.local_rows, 1)))
    assert result.status.failed or result.objective == pytest.approx(-4.5)


@pytest.mark.parametrize("solver", [*TAO, *SCIPY])
def test_the_state_holds_value_and_gradient_of_its_iterate(chain, solver):
    objective = chain(MPI.COMM_SELF, rows=3, columns=1)
    rows, moves = [], []

    def look(iterate):
        rows.append(iterate.rows.copy())
        moves.append(iterate.state.step_length)
        value, gradient = objective.value_and_gradient(iterate.state.x)
        assert value == iterate.objective
        assert iterate.gradient_norm == objective.layout.norm(gradient)
        if solver.partition(":")[2] in WITHOUT_GRADIENT:
            assert iterate.state.gradient is None
        else:
            np.testing.assert_array_equal(gradient, iterate.state.gradient)

    minimize(objective, solver, iterations=6, callback=look)
    expected = [np.linalg.norm(b - a) for a, b in itertools.pairwise(rows)]
    np.testing.assert_allclose(moves[1:], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", [*NEWTON, *WITH_H0])
def test_the_preconditioner_works_inside_tao(quadratic, exact_inverse, kind):
    objective = quadratic(MPI.COMM_SELF)
    without = minimize(objective, f"tao:{kind}", gradient=1e-4)
    within = minimize(objective, f"tao:{kind}", gradient=1e-4, preconditioner=exact_inverse())
    assert within.status is Status.SMALL_GRADIENT
    if kind in WITH_H0:  # a Newton step at once
        assert within.iterations == 1
        assert without.iterations > 10
    else:
        products = "hessian_products"
        assert within.trace[products][-1] < without.trace[products][-1] / 3


def test_a_preconditioner_that_has_no_place_is_refused(quadratic, exact_inverse):
    with pytest.raises(InputError, match=r"'tao:cg' has no place for a preconditioner.*lmvm"):
        minimize(quadratic(MPI.COMM_SELF), "tao:cg", preconditioner=exact_inverse())


class Plain(Objective):
    """An objective with nothing but a gradient."""

    def __init__(self):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 3, 1))

    def value_and_gradient(self, x):
        return 0.5 * float(np.sum(x**2)), x


@pytest.mark.parametrize(
    "solver", [*(f"tao:{kind}" for kind in NEWTON), *(f"scipy:{m}" for m in WITH_PRODUCT)]
)
def test_newton_methods_ask_for_a_hessian_product(solver):
    with pytest.raises(CapabilityError, match=r"Hessian product.*would fit"):
        minimize(Plain(), solver)


@pytest.mark.parametrize(
    ("solver", "options", "word"),
    [
        ("tao:lmvn", {}, "lmvm"),
        ("tao:pounders", {}, "that fits"),
        ("scipy:bgfs", {}, "known: BFGS"),
        ("scipy:COBYLA", {}, "that fits"),
        ("tao:lmvm", {"restart": 0}, "restart"),
        ("scipy:BFGS", {"restart": 0}, "restart"),
        ("scipy:BFGS", {"gtol": 1.0}, "no option 'gtol'"),
    ],
)
def test_what_does_not_fit_is_refused(solver, options, word):
    with pytest.raises(InputError, match=word):
        minimize(Plain(), solver, **options)


def check_resumed(objective, name, steps=6, preconditioner=lambda: None):
    """Check that a run of a named method goes on to the same bits, within and between restarts."""
    kind, _, variant = name.partition(":")
    build, option = {"tao": (Tao, "type"), "scipy": (ScipyMinimize, "method")}[kind]
    options = {option: variant, "restart": 4}
    if kind == "tao":
        options["preconditioner"] = preconditioner()
    check_resumption(lambda: build(**options), objective, objective.initial_point(0), steps=steps)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", [*TAO, *SCIPY])
def test_a_resumed_run_ends_on_the_same_bits(rosenbrock, solver, comm):
    if comm.size == 1 or solver in SEVERAL_RANKS:
        check_resumed(rosenbrock(comm, rows=3), solver)


@pytest.mark.parametrize("solver", ["tao:lmvm", "tao:nls"])
@pytest.mark.parametrize("steps", [3, 4, 7])
def test_a_preconditioner_with_memory_is_brought_back_too(rosenbrock, remembering, solver, steps):
    check_resumed(rosenbrock(MPI.COMM_SELF), solver, steps, remembering)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("solver", SEVERAL_RANKS)
def test_the_ranks_agree_with_one(chain, solver, comm):
    whole, shared = chain(MPI.COMM_SELF, rows=4), chain(comm, rows=4)
    start = whole.layout.random_normal(2)
    alone = minimize(whole, solver, x0=start, iterations=8)
    together = minimize(shared, solver, x0=shared.layout.local(start), iterations=8)
    np.testing.assert_allclose(together.gather(), alone.x, rtol=0, atol=1e-8)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("solver", ["tao:lmvm", "tao:bncg", "scipy:L-BFGS-B", "scipy:TNC"])
def test_replicated_variables_stay_equal_on_all_ranks(fit, solver, comm):
    result = minimize(fit(comm), solver, iterations=20)
    assert len(set(comm.allgather(result.x.tobytes()))) == 1
    assert result.objective < 0.1 * result.trace["objective"][0]


class Broken(Plain):
    """Fails at its third evaluation."""

    calls = 0

    def value_and_gradient(self, x):
        self.calls += 1
        if self.calls == 3:
            raise ValueError("the third evaluation fails")
        return float(np.sum(x**4)), 4 * x**3


@pytest.mark.parametrize("solver", ["tao:lmvm", "tao:cg", "tao:bncg", "scipy:BFGS", "scipy:TNC"])
def test_errors_of_the_objective_pass_through_the_external_loop(solver):
    with pytest.raises(ValueError, match="the third evaluation fails"):
        minimize(Broken(), solver)


class Flat(Plain):
    """Its minimum is so flat that an assertion in TAO's line search fails near it."""

    def value_and_gradient(self, x):
        return float(np.sum(x**8)), 8.0 * x**7


@pytest.mark.parametrize("solver", ["tao:lmvm", "tao:cg"])
def test_an_assertion_in_taos_line_search_costs_no_result(solver):
    result = thalweg.minimize(Flat(), np.ones((3, 1)), solver=solver, iterations=500)
    assert result.objective < 1e-20


class Walled(Plain):
    """Not a number outside a ball."""

    def value_and_gradient(self, x):
        if float(np.sum(x**2)) > 9:
            return math.nan, np.full_like(x, np.nan)
        return float(np.sum(x**4 - x**2)), -2 * x + 4 * x**3


@pytest.mark.parametrize("solver", [*TAO, *SCIPY])
def test_no_iterate_lies_where_the_objective_is_not_finite(solver):
    if solver.partition(":")[2] in (*NEWTON, *WITH_PRODUCT):
        pytest.skip("this objective has no Hessian product")
    result = minimize(Walled(), solver, x0=np.array([[2.9], [0.1], [-0.2]]), iterations=40)
    assert np.all(np.isfinite(result.trace["objective"]))
    assert result.trace["objective"].max() < 100
    assert result.objective < 0


def test_a_state_can_be_dropped_in_the_middle_of_a_foreign_loop(rosenbrock):
    for solver in (Tao(), Tao(type="ntr"), ScipyMinimize(), ScipyMinimize(method="TNC")):
        objective = rosenbrock(MPI.COMM_SELF)
        state = solver.init(objective, objective.initial_point(0))
        before = solver.step(state)
        after = solver.step(before)
        solver.close(after)
        for again in (solver.step(before), solver.step(solver.step(state))):
            np.testing.assert_array_equal(again.x, after.x)
            solver.close(again)
