"""Saddle-free steps in a subspace: the small model, schedules of batches, resumption, saddles."""

import contextlib
import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import CapabilityError, InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout
from thalweg.result import Status
from thalweg.testing import check_solver
from thalweg_descent.descent import Identity
from thalweg_saddlefree.capabilities import Forms
from thalweg_saddlefree.kronecker import KroneckerPreconditioner
from thalweg_saddlefree.minibatches import BatchSchedule, EpochOrder, random_signs
from thalweg_saddlefree.networks.build import build_autoencoder, build_deep_linear, build_mlp
from thalweg_saddlefree.rosenbrock import build_rosenbrock
from thalweg_saddlefree.subspace.model import SubspaceModel
from thalweg_saddlefree.subspace.solver import SubspaceSaddleFree

IMAGES = load_digits().data[:60, 20:36] / 16.0


def autoencoder(comm, values=IMAGES, **options):
    options = {"output": "sigmoid", "layers": [16, 9, 4], **options}
    return build_autoencoder(Dataset.from_array(values, comm=comm), comm, **options)


def stepped(solver, state, count):
    for _ in range(count):
        state = solver.step(state)
    return state


def test_a_solver_may_run_on_another_problem_within_its_own_run():
    solver, inner = SubspaceSaddleFree(preconditioner=Identity()), list[thalweg.Result]()

    def callback(at):
        if at.iteration == 1:
            few = autoencoder(MPI.COMM_SELF, IMAGES[:30, :9], layers=[9, 2])
            inner.append(thalweg.minimize(few, solver=solver, iterations=2))

    problem = autoencoder(MPI.COMM_SELF)
    outer = thalweg.minimize(problem, solver=solver, iterations=2, callback=callback)
    assert (outer.iterations, inner[0].iterations) == (2, 2)


def small_model(curvature, slopes, gauss_newton=True):
    """Model in the coordinates themselves."""
    hessian = np.diag(np.asarray(curvature, dtype=float))
    simple = np.abs(hessian) if gauss_newton else None
    return SubspaceModel(np.asarray(slopes, float), np.eye(len(slopes)), Forms(simple, hessian))


def test_absolute_eigenvalues_reverse_no_step_and_make_none_long():
    found = small_model([4.0, -4.0, 1e-9], [1.0, 1.0, 1.0]).step(1e-3)
    # Down every direction; as far along -4 as along 4 (up to the damping).
    assert np.all(found.coefficients < 0)
    np.testing.assert_allclose(found.coefficients[:2], -0.25, rtol=2e-3)
    assert found.lowest == pytest.approx(-4.0)
    assert found.change < 0
    alone = small_model([4.0, -4.0], [1.0, 1.0], gauss_newton=False).step(0.5)
    np.testing.assert_allclose(alone.coefficients, -1 / 4.5)
    # Where the Hessian is nearly flat, the Gauss-Newton matrix holds the step back.
    forms = Forms(2.0 * np.eye(2), np.diag([1e-3, 5.0]))
    held = SubspaceModel(np.ones(2), np.eye(2), forms).step(0.0)
    np.testing.assert_allclose(held.coefficients, [-1 / 2, -1 / 5])


def test_where_both_matrices_agree_it_is_the_damped_newton_step_whatever_the_directions():
    stream = np.random.default_rng(0)
    root = stream.standard_normal((6, 6))
    matrix, gradient = root @ root.T, stream.standard_normal(6)
    directions = stream.standard_normal((3, 6)) * np.array([[1e-6], [1.0], [1e5]])
    # A repeated direction must not matter.
    directions = np.vstack([directions, directions[1]])
    form = directions @ matrix @ directions.T
    model = SubspaceModel(directions @ gradient, directions @ directions.T, Forms(form, form))
    step = model.step(0.1).coefficients @ directions
    basis = np.linalg.qr(directions[:3].T)[0]
    small = basis.T @ (matrix + 0.1 * np.eye(6)) @ basis
    np.testing.assert_allclose(step, -basis @ np.linalg.solve(small, basis.T @ gradient), rtol=1e-5)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    "options",
    [{}, {"lanczos": 2}, {"curvature": "gauss-newton", "layerwise": True}],
    ids=["hessian", "lanczos", "gn"],
)
def test_a_stop_in_mid_epoch_goes_on_to_the_same_bits(comm, options):
    def build():
        metric = {"preconditioner": KroneckerPreconditioner(inverse_every=3)}
        return SubspaceSaddleFree(batch=17, growth=1.3, check_every=2, **metric, **options)

    problem = autoencoder(comm, precision="single")
    check_solver(build, problem, problem.initial_point(1), steps=5)


def test_an_earlier_state_may_be_stepped_from_again():
    problem, solver = autoencoder(MPI.COMM_SELF), SubspaceSaddleFree(batch=20)
    states = [solver.init(problem, problem.initial_point(0))]
    for _ in range(4):
        states.append(solver.step(states[-1]))
    again = solver.step(states[1])  # on another batch than the objective uses by now
    assert again.value == states[2].value
    np.testing.assert_array_equal(again.x, states[2].x)


@pytest.mark.ranks(2, 3)
def test_the_iterates_do_not_depend_on_the_ranks(comm):
    found = []
    for ranks in (comm, MPI.COMM_SELF):
        solver = SubspaceSaddleFree(preconditioner=KroneckerPreconditioner(), batch=20)
        problem = autoencoder(ranks)
        found.append(thalweg.minimize(problem, solver=solver, iterations=8, decrease=None))
    np.testing.assert_allclose(found[0].x, found[1].x, rtol=1e-6, atol=1e-8)


def test_a_step_by_layers_promises_more_than_one_along_their_sum():
    problem, promised = autoencoder(MPI.COMM_SELF), []
    for layerwise in (False, True):
        options = {"layerwise": layerwise, "curvature": "gauss-newton"}
        solver, state = with_batches_of(20, problem, **options)
        promised.append(solver._moved(state)[0].predicted)
    plain, layered = promised
    assert layered > plain > 0.0
    with pytest.raises(CapabilityError, match="layerwise = true"):
        SubspaceSaddleFree(layerwise=True).init(Quadratic(), np.ones((3, 1)))


def test_forms_are_those_of_products():
    """The two routes to the model: forward passes, and whole products."""
    problem = autoencoder(MPI.COMM_SELF, l2=0.01)
    x = problem.initial_point(0)
    vectors = [problem.layout.random_normal(k) for k in range(3)]
    forms = problem.curvature_forms(x, vectors, hessian=True)
    for product, form in (
        (problem.gauss_newton_product, forms.gauss_newton),
        (problem.hessian_product, forms.hessian),
    ):
        for i, vector in enumerate(vectors):
            image = product(x, vector)
            np.testing.assert_allclose(form[i], [np.vdot(image, v) for v in vectors], rtol=1e-9)
    assert problem.curvature_forms(x, vectors, hessian=False).hessian is None


def test_it_leaves_a_planted_saddle_and_says_that_it_met_one():
    problem = build_deep_linear(None, MPI.COMM_SELF, size=5, depth=3, start=0.05)
    solver = SubspaceSaddleFree(preconditioner=KroneckerPreconditioner(), lanczos=2)
    result = thalweg.minimize(problem, solver=solver, iterations=150, decrease=None)
    assert result.objective < 1e-6
    assert result.trace["negative_steps"][-1] > 0
    assert np.nanmin(result.trace["lowest_curvature"]) < 0
    # All rows in every step: none may raise the objective.
    assert np.all(np.diff(result.trace["objective"]) <= 0)


def test_growing_batches_end_with_a_low_loss():
    values, labels = load_digits(return_X_y=True)
    digits = Dataset.from_array(values[:300] / 16, labels[:300], MPI.COMM_SELF)
    problem = build_mlp(digits, MPI.COMM_SELF, layers=[64, 20, 10])
    metric = KroneckerPreconditioner()
    solver = SubspaceSaddleFree(preconditioner=metric, batch=50, growth=2.0, damping=1.0)
    result = thalweg.minimize(problem, solver=solver, iterations=60, decrease=None)
    assert result.trace["batch_rows"][0] == 50
    assert result.trace["batch_rows"][-1] > 50
    assert result.metrics["training_accuracy"] == 1.0


def with_batches_of(batch, problem, **options):
    metric, x = KroneckerPreconditioner(), problem.initial_point(0)
    metric.setup(problem, x)
    solver = SubspaceSaddleFree(preconditioner=metric, batch=batch, **options)
    return solver, solver.init(problem, x)


def test_batches_grow_where_noise_asks_and_not_else():
    for rows, grows in ((np.repeat(IMAGES[:1], 60, axis=0), False), (IMAGES, True)):
        problem = autoencoder(MPI.COMM_SELF, rows)
        state = stepped(*with_batches_of(10, problem), 60)
        assert (state.batch_rows > 10) == grows, state.batch_rows
        assert state.noisy == grows
    for options, rows in (({"growth": 1.0}, 10), ({"largest_batch": 15}, 15)):
        assert stepped(*with_batches_of(10, problem, **options), 60).batch_rows == rows
    damped = stepped(*with_batches_of(10, problem, least_damping=0.1), 60)
    assert state.damping < 0.1 <= damped.damping


def test_a_step_that_the_next_batch_shows_to_be_far_too_long_is_taken_back():
    problem = autoencoder(MPI.COMM_SELF, activation="linear", output="linear")
    solver, state = with_batches_of(20, problem)
    state = stepped(solver, state, 4)
    start, last, damping = state.x - state.last, 10.0 * state.last, state.damping
    wild = replace(state, x=start + last, last=last, in_use=None, settled=True)
    state = solver.step(wild)  # the fifth, which is compared
    assert state.damping > 1.5 * damping
    assert state.value < 0.5 * problem.value(wild.x)
    # The step is from where the wild one began.
    np.testing.assert_allclose(state.x - state.last, start, rtol=1e-9, atol=1e-12)


def test_a_function_without_rows_or_layers_is_taken_whole():
    problem = build_rosenbrock(None, MPI.COMM_SELF)
    result = thalweg.minimize(
        problem, solver=SubspaceSaddleFree(lanczos=1, damping=1e-3), iterations=300, gradient=1e-6
    )
    assert result.status is Status.SMALL_GRADIENT
    assert np.all(np.diff(result.trace["objective"]) <= 0)


class Quadratic(Objective, HessianProduct):
    """Half the squares of three numbers, each with its weight."""

    weights = np.array([[1.0], [3.0], [10.0]])

    def __init__(self):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 3))

    def value_and_gradient(self, x):
        return 0.5 * float((self.weights * x**2).sum()), self.weights * x

    def hessian_product(self, x, direction):
        return self.weights * direction


def test_a_quadratic_function_is_minimized_in_as_many_steps_as_variables():
    # Along the gradient and the last step, as by conjugate gradients.
    solver = SubspaceSaddleFree(damping=1e-12)
    result = thalweg.minimize(Quadratic(), np.ones((3, 1)), solver=solver, iterations=3)
    assert result.objective < 1e-14 * result.trace["objective"][0]


@pytest.mark.ranks(1, 2)
def test_a_run_counts_epochs_and_reports_the_objective_over_all_rows(comm):
    problem = autoencoder(comm, held_out=0.25)
    assert problem.data_layout.rows == 45
    assert [autoencoder(comm, held_out=s).data_layout.rows for s in (1e-3, 0.999)] == [59, 1]
    seen = []
    result = thalweg.minimize(
        problem,
        solver=SubspaceSaddleFree(preconditioner=KroneckerPreconditioner(), batch=15, growth=1.0),
        epochs=3,
        callback=lambda iterate: seen.append(iterate.state.epoch),
    )
    assert result.status is Status.EPOCH_LIMIT
    assert (result.iterations, seen) == (9, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    np.testing.assert_array_equal(result.trace["epoch"], seen)
    epochs, values = result.trace["epoch_value"], result.trace["objective"]
    assert np.isnan(epochs[:3]).all()
    assert epochs[3] == pytest.approx(values[:3].mean())
    assert epochs[-1] == pytest.approx(values[6:9].mean())
    assert np.isfinite(result.trace["held_out_value"][3:]).all()
    assert result.objective == problem.value(result.x)  # with all rows in use
    assert result.trace["held_out_value"][-1] == problem.held_out_value(result.x)
    # Three gradients of all rows, forward passes and samples for the curvature, of all these few.
    assert 3 < result.trace["work"][-1] < 12


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        ("saddle-free-subspace", {"batch": 11}),
        ("hessian-free", {"curvature_rows": 5}),
        ("saddle-free", {"curvature_rows": 5}),
    ],
)
@pytest.mark.parametrize("ended", ["", "by an exception"])
def test_rows_that_a_run_drew_are_not_those_of_the_next(solver, options, ended):
    data = Dataset.from_array(np.random.default_rng(0).normal(size=(80, 6)), np.arange(80) % 3)
    network = build_mlp(data, MPI.COMM_SELF, layers=[6, 5, 3])
    x, v = network.initial_point(1), network.initial_point(2)
    value, product = network.value(x), network.hessian_product(x, v)

    def callback(iterate):
        if ended and iterate.iteration == 2:
            raise RuntimeError(ended)

    with pytest.raises(RuntimeError, match=ended) if ended else contextlib.nullcontext():
        thalweg.minimize(network, solver=solver, callback=callback, iterations=3, **options)
    assert network.value(x) == value
    assert np.array_equal(network.hessian_product(x, v), product)


@pytest.mark.ranks(1, 2)
def test_what_is_said_of_a_run_that_diverged_is_of_all_rows(comm):
    problem = autoencoder(comm)
    inner, calls = problem.value_and_gradient, []

    def spoiled(x):
        calls.append(x)
        value, gradient = inner(x)
        return (value if len(calls) < 9 else np.nan), gradient

    problem.value_and_gradient = spoiled
    result = thalweg.minimize(problem, solver=SubspaceSaddleFree(batch=17))
    del problem.value_and_gradient
    assert result.status is Status.DIVERGED
    assert result.objective == problem.value(result.x)
    assert dict(result.metrics) == dict(problem.metrics(result.x))


@pytest.mark.parametrize("rows", [1, 2, 3, 64, 1000])
def test_an_epoch_is_a_permutation_and_its_batches_a_partition(rows):
    schedule = BatchSchedule(rows, 7, seed=4)
    for epoch in range(4):
        assert sorted(schedule.positions(epoch, np.arange(rows))) == list(range(rows))
        bounds = [schedule.bounds(k) for k in range(schedule.batches)]
        assert (bounds[0][0], bounds[-1][1]) == (0, rows)
        assert all(a[1] == b[0] for a, b in itertools.pairwise(bounds))
        sizes = [last - first for first, last in bounds]
        assert max(sizes) - min(sizes) <= 1
    for given, words in (((rows, 0), "at least one row, not 0"), ((0, 7), "one data row")):
        with pytest.raises(InputError, match=words):
            BatchSchedule(*given)


@pytest.mark.ranks(1, 2, 3)
def test_the_rows_of_a_batch_are_the_same_on_any_number_of_ranks(comm):
    schedule = BatchSchedule(50, 12, seed=2)
    layout = Layout(comm, 50)
    order = EpochOrder(schedule, layout, 3)
    positions = schedule.positions(3, np.arange(50))
    for batch in range(schedule.batches):
        first, last = schedule.bounds(batch)
        for share in (1.0, 0.25):
            count = max(1, round(share * (last - first)))
            rows = order.batch(batch, share)
            gathered = np.concatenate(comm.allgather(layout.start + rows.local))
            wanted = np.flatnonzero((positions >= first) & (positions < first + count))
            assert (sorted(gathered), rows.total) == (list(wanted), count)
    part, whole = order.batch(1, 0.5).local, order.batch(1).local
    np.testing.assert_array_equal(part, whole[: len(part)])


def test_random_signs_belong_to_a_row_and_are_uncorrelated():
    rows = np.arange(3000)
    signs = random_signs(rows, 70, 5, np.dtype(np.float32))
    assert set(np.unique(signs)) == {-1.0, 1.0}
    np.testing.assert_array_equal(random_signs(rows[[7, 3]], 70, 5, signs.dtype), signs[[7, 3]])
    # Standard deviation of a correlation over 3,000 rows is 0.018.
    assert np.abs(np.corrcoef(signs.T) - np.eye(70)).max() < 0.1
    assert abs(float((signs * random_signs(rows, 70, 6, signs.dtype)).mean())) < 0.01
