"""Every solver lowers the objective, keeps the columns orthonormal, and ends at a fixed point."""

import dataclasses
import itertools

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

import thalweg
from thalweg import Dataset, InputError
from thalweg.parallel import MPI
from thalweg.result import Status
from thalweg.testing import check_resumption
from thalweg_clustering.build import build_kdac
from thalweg_clustering.curvilinear import Curvilinear, cayley_point
from thalweg_clustering.dimension_growth import DimensionGrowth
from thalweg_clustering.ism import ISM

SOLVERS = {
    "ism": ISM(inner_tolerance=1e-12, inner_iterations=300),
    "ism unmixed": ISM(inner_tolerance=1e-12, inner_iterations=300, mixing=0),
    "stiefel": Curvilinear(inner_tolerance=1e-13, gradient_tolerance=1e-7),
}


def _steps(solver, objective, most=400, seed=0):
    state = solver.init(objective, objective.initial_point(seed))
    values = [(state.round, state.value)]
    while solver.status(state).running and len(values) < most:
        state = solver.step(state)
        values.append((state.round, state.value))
    return state, values


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", SOLVERS)
def test_general_form_ends_at_a_stationary_point(name, sign, cycling_terms):
    objective = cycling_terms(sign)
    state, _ = _steps(SOLVERS[name], objective)
    w = state.x
    np.testing.assert_allclose(w.T @ w, np.eye(2), atol=1e-12)
    value, slope = objective.value_and_gradient(w)
    assert np.linalg.norm(slope - w @ (w.T @ slope)) <= 1e-3 * np.linalg.norm(slope)
    assert state.value == pytest.approx(value)
    cut, _ = _steps(dataclasses.replace(SOLVERS[name], inner_iterations=2), objective)
    assert cut.outcome is Status.ITERATION_LIMIT


@pytest.mark.parametrize("name", SOLVERS)
def test_no_step_raises_the_objective_within_a_round(name, views, make):
    points, given, _ = views(120)
    _, values = _steps(SOLVERS[name], make(MPI.COMM_SELF, points, given, sigma=0.15), most=80)
    for (earlier, before), (later, after) in itertools.pairwise(values):
        if earlier == later:
            assert after <= before


def test_the_plain_iteration_raises_the_objective_where_the_safeguarded_does_not(cycling_terms):
    objective = cycling_terms(-1.0, sigma=0.6)
    _, plain = _steps(ISM(safeguard="none", inner_iterations=30, inner_tolerance=0.0), objective)
    assert any(after > before for (_, before), (_, after) in itertools.pairwise(plain))
    for seed in range(5):
        _, safe = _steps(ISM(mixing=0), objective, seed=seed)
        assert all(b <= a for (_, a), (_, b) in itertools.pairwise(safe))


def test_quasi_newton_steps_need_fewer_evaluations_and_end_as_low(views, make):
    points, given, _ = views(160)
    counts, values = [], []
    for finish in ("none", "quasi-newton"):
        objective = make(MPI.COMM_SELF, points, given, 3, 0.2)
        solver = ISM(inner_tolerance=1e-8, mixing=0, rounds=1, inner_iterations=1000, finish=finish)
        state, trace = _steps(solver, objective, most=2000)
        counts.append(state.evaluations)
        values.append(min(value for round_, value in trace if round_ == 0))
    assert counts[1] < 0.6 * counts[0]
    assert values[1] <= values[0] + 1e-6 * abs(values[0])


@pytest.mark.parametrize(("d", "q"), [(9, 2), (4, 3)])
def test_the_cayley_curve_is_feasible_and_starts_downhill(d, q):
    stream = np.random.default_rng(0)
    w = np.linalg.qr(stream.standard_normal((d, q)))[0]
    slope = stream.standard_normal((d, q))
    for length in (1e-3, 0.5, 30.0):
        point = cayley_point(w, slope, length)
        np.testing.assert_allclose(point.T @ point, np.eye(q), atol=1e-13)
    a = slope @ w.T - w @ slope.T
    np.testing.assert_allclose((cayley_point(w, slope, 1e-6) - w) / 1e-6, -a @ w, atol=1e-4)
    inverse = np.linalg.solve(np.eye(d) + 0.25 * a, w - 0.25 * a @ w)
    np.testing.assert_allclose(cayley_point(w, slope, 0.5), inverse, atol=1e-12)


def test_dimension_growth_adds_one_column_after_the_other(cycling_terms):
    objective = cycling_terms(1.0, d=6, q=3)
    solver = DimensionGrowth()
    state = solver.init(objective, objective.initial_point(0))
    start = state.value
    columns = []
    while solver.status(state).running:
        state = solver.step(state)
        columns.append(state.column)
        w = state.x
        filled = np.linalg.norm(w, axis=0) > 0.5
        assert filled.sum() in (state.column + 1, 3)
        np.testing.assert_allclose(w.T @ w, np.diag(filled.astype(float)), atol=1e-10)
    assert sorted(set(columns)) == [0, 1, 2]
    assert state.value <= start


def test_dimension_growth_says_that_its_columns_are_not_stationary_together():
    iris = load_iris()
    rows = Dataset.from_array(scale(iris.data), iris.target)
    objective = build_kdac(rows, MPI.COMM_SELF, tuning="none")
    for solver, told in (("dimension-growth", True), ("ism", False)):
        result = thalweg.minimize(objective, solver=solver, iterations=5000)
        assert result.status is Status.CONVERGED
        assert any("33% of the gradient is along" in note for note in result.notes) is told


@pytest.mark.parametrize("solver", ["ism", "stiefel", "dimension-growth"])
def test_every_solver_finds_the_alternative(solver, views, make):
    points, given, truth = views(160)
    objective = make(MPI.COMM_SELF, points, given, true_labels=truth)
    result = thalweg.minimize(objective, solver=solver, iterations=5000)
    assert result.metrics["nmi"] > 0.95
    assert result.metrics["novelty"] < 0.01
    assert {"residual", "round", "change"} <= set(result.trace.columns)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("name", ["ism", "stiefel", "growth"])
def test_a_resumed_run_goes_on_to_the_same_bits(comm, name, tmp_path, views, make):
    points, given, _ = views(90)
    solver = {**SOLVERS, "ism": ISM(), "growth": DimensionGrowth()}[name]
    objective = make(comm, points, given)
    check_resumption(lambda: solver, objective, objective.initial_point(0))


def test_a_solver_that_leaves_the_manifold_is_told(views, make):
    points, given, _ = views(60)
    objective = make(MPI.COMM_SELF, points, given)
    with pytest.raises(InputError, match="orthonormal"):
        objective.value(3.0 * np.ones((4, 2)))
