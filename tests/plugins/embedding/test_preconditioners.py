"""The partial-Hessian strategies are the matrices they say, and speed descent up."""

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits

import thalweg
from thalweg import HomotopySchedule, Stop
from thalweg.data import Dataset
from thalweg.driver import homotopy
from thalweg.driver.homotopy import Predictor
from thalweg.driver.progress import Progress
from thalweg.engines.laplacian import LaplacianSolver
from thalweg.parallel import Layout
from thalweg.testing import check_preconditioner, check_resumption
from thalweg_descent.lbfgs import LBFGS
from thalweg_embedding import objectives
from thalweg_embedding.preconditioners import spectral
from thalweg_embedding.preconditioners.diagonal import FixedPoint, HessianDiagonalScaling
from thalweg_embedding.preconditioners.partial_hessian import PartialHessian
from thalweg_embedding.preconditioners.spectral import SpectralDirection, strongest

every_rank_count = pytest.mark.ranks(1, 2, 3)


def elastic(comm, rows=90, family=objectives.elastic_embedding, **options):
    data = Dataset.from_array(load_digits().data[:rows], comm=comm)
    return family(data, comm, **{"perplexity": 8.0, "init_scale": 0.5, **options})


def student(comm, **options):
    return elastic(comm, 83, objectives.t_sne, **{"perplexity": 7.0, "init_scale": None, **options})


def applied(preconditioner, objective):
    """Solution for a fixed right-hand side without constant part, gathered; and that side."""
    x, right = objective.initial_point(0), objective.layout.random_normal(5)
    residual = right - objective.comm.allreduce(right.sum(axis=0)) / objective.layout.rows
    preconditioner.setup(objective, x)
    preconditioner.update(x)
    found = objective.layout.gather_rows(preconditioner.apply(residual))
    given = objective.layout.gather_rows(residual)
    preconditioner.close()
    return found, given


def whole_weights(objective):
    weights = objective.attractive_weights(objective.initial_point(0))
    dense = weights.toarray() if scipy.sparse.issparse(weights) else weights
    return objective.layout.gather_rows(np.ascontiguousarray(dense))


@every_rank_count
@pytest.mark.parametrize("graph", ["dense", "sparse"])
def test_spectral_solves_with_the_laplacian(comm, graph):
    objective = elastic(comm, graph=graph)
    found, given = applied(SpectralDirection(), objective)
    weights = whole_weights(objective)
    image = 4 * (weights.sum(axis=1)[:, None] * found - weights @ found)
    np.testing.assert_allclose(image, given, atol=1e-6)


@every_rank_count
def test_kappa_keeps_the_largest_weights_and_the_whole_degrees(comm):
    objective = elastic(comm)
    weights = whole_weights(objective)
    degrees = weights.sum(axis=1)[:, None]
    found, given = applied(SpectralDirection(neighbors=5), objective)
    fifth = np.sort(weights, axis=1)[:, -5]
    kept = np.where((weights >= fifth[:, None]) | (weights >= fifth[None, :]), weights, 0.0)
    np.testing.assert_allclose(4 * (degrees * found - kept @ found), given, atol=1e-7)
    spectral, _ = applied(SpectralDirection(neighbors=0), objective)
    fixed, given = applied(FixedPoint(), objective)
    np.testing.assert_allclose(spectral, fixed, rtol=1e-6)
    np.testing.assert_allclose(4 * degrees * fixed, given, atol=1e-12)


@every_rank_count
@pytest.mark.parametrize("kappa", [0, 1, 4, 50])
def test_the_strongest_weights_stay_symmetric(comm, kappa):
    layout = Layout(comm, 40)
    full = scipy.sparse.random(40, 40, 0.3, random_state=0, format="csr")
    full = (full + full.T).tocsr()
    every = layout.gather_rows(strongest(layout, full[layout.start : layout.stop], kappa).toarray())
    np.testing.assert_array_equal(every, every.T)
    dense = full.toarray()
    for row, own in zip(dense, every, strict=True):
        top = np.sort(row)[::-1][:kappa]
        assert np.isin(top[top > 0], own).all()
    if kappa == 50:
        np.testing.assert_array_equal(every, dense)


@every_rank_count
def test_partial_hessian_solves_with_attraction_and_repulsion(comm):
    objective = elastic(comm)
    for inner in ("spectral", "none"):
        solver = PartialHessian(tolerance=1e-8, inner_iterations=500, inner=inner)
        found, given = applied(solver, objective)
        x = objective.initial_point(0)
        repelled = objective.repulsive_product(x, objective.layout.local(found))
        weights = whole_weights(objective)
        image = 4 * (weights.sum(axis=1)[:, None] * found - weights @ found)
        image += objective.layout.gather_rows(repelled)
        np.testing.assert_allclose(image, given, atol=1e-6 * np.abs(given).max())


@pytest.mark.parametrize("name", ["elastic_embedding", "symmetric_sne", "t_sne"])
@pytest.mark.parametrize(
    "preconditioner", ["fixed-point", "hessian-diagonal", "spectral", "partial-hessian"]
)
@pytest.mark.parametrize("solver", ["gradient-descent", "nonlinear-cg", "lbfgs"])
def test_every_strategy_composes_with_every_descent(comm, name, preconditioner, solver):
    data = Dataset.from_array(load_digits().data[:100], comm=comm)
    objective = getattr(objectives, name)(data, comm, perplexity=10.0)
    result = thalweg.minimize(objective, None, solver, preconditioner, iterations=15, decrease=0.0)
    values = result.trace["objective"]
    assert (np.diff(values) <= 0.0).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize(("solver", "factor"), [("gradient-descent", 8), ("lbfgs", 10)])
def test_the_spectral_direction_needs_far_fewer_evaluations_than_gradient_descent(
    comm, solver, factor
):
    # With weights of the data's squared distances, as the authors have them, and a run long
    # enough to leave the first steps behind, in which the two hardly differ.
    objective = elastic(comm, rows=200, init_scale=1e-2, repulsive_weights="squared-distances")
    plain = thalweg.minimize(objective, None, "gradient-descent", "identity", iterations=200)
    spectral = thalweg.minimize(objective, solver=solver, preconditioner="spectral", iterations=40)
    reached = spectral.trace["objective"] <= plain.objective
    assert reached.any()
    assert factor * spectral.trace["evaluations"][reached.argmax()] < plain.evaluations


@pytest.mark.petsc
@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    ("solver", "residual"), [("lbfgs", "0.1"), ("gradient-descent", "1e-08")]
)  # fmt: skip
def test_a_result_says_which_factorization_of_petsc_it_used(comm, solver, residual):
    points = np.random.default_rng(0).standard_normal((1200, 5))
    objective = objectives.t_sne(Dataset.from_array(points, comm=comm), comm, perplexity=10.0)
    result = thalweg.minimize(objective, solver=solver, preconditioner="spectral", iterations=2)
    (note,) = (note for note in result.notes if "solves with the Laplacian" in note)
    assert "'icc': PETSc's conjugate gradients and incomplete factors" in note
    assert f"to a residual of {residual} in at most" in note
    assert note.endswith(" weights)")


def followed(comm, solver, preconditioner, points=60, stages=6, most=20, **given):
    data = Dataset.from_array(load_digits().data[:points], comm=comm)
    weights = {"repulsive_weights": "squared-distances", "lambda_": 100.0}
    objective = objectives.elastic_embedding(data, comm, perplexity=8.0, **weights)
    rule = Stop(iterations=most, decrease=1e-6, window=1)
    homotopy = HomotopySchedule.logarithmic(1e-4, 1e2, stages, rule)
    return thalweg.minimize(objective, None, solver, preconditioner, homotopy=homotopy, **given)


@pytest.mark.parametrize("preconditioner", ["identity", "spectral", "partial-hessian"])
@pytest.mark.parametrize("solver", ["gradient-descent", "lbfgs"])
def test_a_map_that_collapsed_at_a_small_lambda_unfolds_at_a_larger_one(
    comm, solver, preconditioner
):
    result = followed(comm, solver, preconditioner, iterations=300)
    collapsed = 100.0  # the value of coinciding points: lambda times the sum of w-
    assert result.objective < 0.1 * collapsed
    assert (np.diff(result.trace["objective"])[np.diff(result.trace["lambda"]) == 0.0] <= 0.0).all()


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("solver", ["gradient-descent", "lbfgs"])
def test_one_factorization_serves_all_of_a_homotopy(comm, solver, monkeypatch):
    factored = []

    def counted(*arguments, **options):
        factored.append(LaplacianSolver(*arguments, **options))
        return factored[-1]

    monkeypatch.setattr(spectral, "LaplacianSolver", counted)
    result = followed(comm, solver, "spectral", iterations=60, points=90)
    assert len(set(result.trace["lambda"])) == 6
    assert result.objective < 10.0  # it has unfolded
    assert len(factored) == 1
    assert any(factored[0].description in note for note in result.notes)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("name", ["elastic_embedding", "symmetric_sne"])
def test_the_tangent_of_a_homotopy_is_the_derivative_of_the_minimum(comm, name, monkeypatch):
    data = Dataset.from_array(load_digits().data[:20], comm=comm)
    objective = getattr(objectives, name)(data, comm, perplexity=4.0, lambda_=1.0)
    schedule = HomotopySchedule((0.5, 2.0), error=0.1)
    solver, at = LBFGS(preconditioner=SpectralDirection()), Progress(stage=0.5)

    def minimum(stage, start=None):
        objective.homotopy_parameter = schedule.parameter(stage)
        rules = {"iterations": 300, "decrease": None, "gradient": 1e-8}
        return thalweg.minimize(objective, start, **rules).x

    def squared(x):
        return pdist(objective.layout.gather_rows(x), "sqeuclidean")

    x = minimum(0.5)
    ahead, behind = (squared(minimum(0.5 + step, x)) for step in (1e-3, -1e-3))
    objective.homotopy_parameter = schedule.parameter(0.5)
    monkeypatch.setattr(homotopy, "TOLERANCE", 1e-9)
    monkeypatch.setattr(homotopy, "PRODUCTS", 1000)
    solver.preconditioner.setup(objective, x)
    state = solver.init(objective, x)
    follower = Predictor(objective, solver, at, schedule.parameter, 0.1)
    tangent, after = follower._tangent(state, state.gradient, 1.0)
    # Distances do not see how a map is turned.
    change = (squared(x + 1e-4 * tangent) - squared(x - 1e-4 * tangent)) / 2e-4
    np.testing.assert_allclose(change, (ahead - behind) / 2e-3, atol=1e-4 * np.abs(change).max())
    assert after.evaluations == state.evaluations + 1
    assert 0 < at.products <= 60


@pytest.mark.ranks(1, 2)
def test_an_adaptive_homotopy_of_t_sne_ends_at_the_wanted_lambda(comm):
    data = Dataset.from_array(load_digits().data[:60], comm=comm)
    schedule = HomotopySchedule((0.05, 0.1, 1.0), Stop(iterations=30, decrease=1e-4, window=1), 0.1)
    objective = objectives.t_sne(data, comm, perplexity=10.0)
    result = thalweg.minimize(objective, homotopy=schedule)
    values = np.unique(result.trace["lambda"])
    assert (values[0], values[-1], result.stages_left) == (0.05, 1.0, 0)
    assert len(values) > 3
    assert result.trace["tangent_products"][-1] > 0
    assert result.metrics["kl_divergence"] < thalweg.minimize(objective).objective + 0.02


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("kind", [FixedPoint, HessianDiagonalScaling, SpectralDirection])
def test_preconditioners_are_positive_definite_and_linear(comm, kind):
    objective = student(comm, init_scale=0.5)
    check_preconditioner(kind(), objective, objective.initial_point(0))


@pytest.mark.parametrize("kind", [SpectralDirection, PartialHessian, HessianDiagonalScaling])
def test_a_resumed_run_ends_at_the_same_bits(comm, kind):
    objective = student(comm)
    check_resumption(lambda: LBFGS(preconditioner=kind()), objective, objective.initial_point(0))


def test_early_exaggeration_is_a_homotopy(comm):
    objective = student(comm, early_exaggeration=12.0)
    # In equal ratios down to half, then evenly, as for all maps of few points.
    factors = [1 / 12, 24**-0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    np.testing.assert_allclose(objective.default_homotopy(), factors)
    maps, keep = [], lambda at: maps.append(at.rows.copy())
    trace = thalweg.minimize(objective, iterations=120, callback=keep).trace
    assert trace.homotopy_parameter == "lambda"
    np.testing.assert_allclose(trace["lambda"], np.array(factors)[trace["stage"].astype(int)])
    assert trace["stage"][-1] == 7.0
    last = trace["stage"] == 7.0
    np.testing.assert_array_equal(trace["wanted_objective"][last], trace["objective"][last])
    for row in (0, 20, 40):  # in stages before the last
        assert not last[row]
        assert trace["wanted_objective"][row] == pytest.approx(objective.value(maps[row]), rel=1e-9)
    assert student(comm).default_homotopy() == ()
