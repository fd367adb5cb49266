"""The objective: derivatives of every kernel and task, Phi, and what ranks do not change."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import thalweg
from thalweg import Dataset, InputError
from thalweg.parallel import MPI, Layout
from thalweg.testing import check_gradient, check_hessian_product
from thalweg_clustering.build import build_kdac
from thalweg_clustering.feature_sums import NystromKernel
from thalweg_clustering.kdac import TASKS
from thalweg_clustering.kernels import KERNELS, kernel_function
from thalweg_clustering.stiefel import EigenvectorFixedPoint
from thalweg_clustering.stiefel_objectives import LinkSum

LINKS = np.array([[0, 2, 1.0], [1, 40, -1.0], [3, 59, 0.5]])

#: Ways to sum, beside the tasks and kernels of the matrix below.
METHODS = {
    "product": {"kernel": "polynomial", "degree": 3},
    "inverse": {"kernel": "inverse-multiquadratic"},
    "bandwidths": {"bandwidths": [1.0, 2.0, 0.5, 1.0, 3.0, 3.0]},
    "nystrom": {"approximation": "nystrom", "features": 20},
    "nystrom product": {"approximation": "nystrom", "features": 20, "kernel": "polynomial"},
}


def _of_task(make, comm, views, task, **options):
    points, given, _ = views(60, noise=2)
    if task == "semi-supervised":
        given = np.where(np.arange(60) % 3 == 0, given, -1)
        options["pairs"] = LINKS
    return make(comm, points, given, 3, options.pop("sigma", 1.0), 0.4, task=task, **options)


def _check(objective, fixed_point=True):
    x = objective.initial_point(1)
    check_gradient(objective, x)
    if not isinstance(getattr(objective, "kernel", None), NystromKernel):
        check_hessian_product(objective, x)
    if fixed_point:
        EigenvectorFixedPoint.check(objective, x)
        value, _ = objective.value_and_fixed_point_matrix(x)
        assert value == pytest.approx(objective.value(x), rel=1e-11)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("kernel", KERNELS)
def test_derivatives_and_phi_of_every_kernel_and_task(comm, kernel, views, make):
    # The last has an embedding, labels and links: all that is summed over ranks.
    for task in TASKS if comm.size == 1 else TASKS[-1:]:
        _check(_of_task(make, comm, views, task, kernel=kernel, degree=3))


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_every_way_to_sum(comm, method, views, make):
    objective = _of_task(make, comm, views, "semi-supervised", **METHODS[method])
    # The features' Phi is the exact formula with their kernel, not their gradient's.
    _check(objective, fixed_point=method != "nystrom")


@pytest.mark.parametrize("task", TASKS)
def test_the_start_has_the_smallest_eigenvectors_of_phi_where_the_kernel_is_flat(task, views, make):
    objective = _of_task(make, MPI.COMM_SELF, views, task)
    x = objective.initial_point(0)
    phi = objective.fixed_point_matrix(1e-7 * x)
    least = np.linalg.eigvalsh(phi)[: x.shape[1]]
    assert np.trace(x.T @ phi @ x) == pytest.approx(least.sum(), rel=1e-9)
    if task == "semi-supervised":
        flat = objective.kernel.flat_matrix(objective.weights)  # the links have a part in it
        assert np.abs(phi - flat).max() > 1e-3 * np.abs(phi).max()


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_of_kernel_functions(name):
    kernel = kernel_function(name, degree=4, offset=0.7)
    beta, step = np.linspace(0.1, 3, 7), 1e-5
    for lower, higher in ((kernel.value, kernel.first), (kernel.first, kernel.second)):
        slope = (lower(beta + step) - lower(beta - step)) / (2 * step)
        np.testing.assert_allclose(higher(beta), slope, rtol=1e-6, atol=1e-9)
    own = replace(kernel, parameters=())  # of a user, who may call it what it is not
    assert (own.positive, own.gaussian) == (True, False)


@pytest.mark.parametrize("kernel", KERNELS)
def test_value_and_phi_are_the_sums_written_out(kernel, views, make):
    points, given, _ = views(30)
    objective = make(MPI.COMM_SELF, points, given, 2, 1.3, 0.7, kernel=kernel)
    w = objective.initial_point(0)
    function = kernel_function(kernel)
    factor, signs = objective.weights.factor, objective.weights.signs
    gamma = (factor * signs) @ factor.T
    rows = objective.kernel.points
    z = rows @ w / 1.3
    difference = rows[:, None] - rows[None]
    both = np.einsum("id,je->ijde", rows, rows)
    if function.of == "product":
        beta, a = z @ z.T, 0.5 * (both + both.transpose(0, 1, 3, 2))
    else:
        beta = ((z[:, None] - z[None]) ** 2).sum(-1)
        a = np.einsum("ijd,ije->ijde", difference, difference)
    assert objective.value(w) == pytest.approx(-(gamma * function.value(beta)).sum(), rel=1e-9)
    phi = -2 * np.einsum("ij,ijde->de", gamma * function.first(beta) / 1.3**2, a)
    np.testing.assert_allclose(objective.fixed_point_matrix(w), phi, atol=1e-9 * abs(phi).max())
    bound = objective.kernel.curvature_bound(w, objective.weights)
    if kernel == "gaussian":
        written = (abs(gamma) * function.value(beta) * (difference**2).sum(-1) ** 2).sum() / 1.3**2
        assert bound == pytest.approx(written)
        i, j = np.indices(gamma.shape).reshape(2, -1)
        links = LinkSum(function, 1.3, rows[i], rows[j], gamma.ravel())
        assert links.curvature_bound(w) == pytest.approx(written)
    else:
        assert np.isnan(bound)


@pytest.mark.ranks(1, 2, 3)
def test_weights_are_those_of_equation_4_for_any_number_of_labelings(comm, views, make):
    points, given, truth = views(40)
    third = np.arange(40) % 5
    objective = make(comm, points, [given, truth, third], 2, 1.0, 0.3)
    layout = Layout(comm, 40, 2)
    u = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 2)))[0]
    degrees = np.linspace(1, 2, 40)
    known = sum(np.eye(k)[y] @ np.eye(k)[y].T for y, k in ((given, 2), (truth, 2), (third, 5)))
    h = np.eye(40) - 1 / 40
    scale = np.diag(degrees**-0.5)
    gamma = scale @ h @ (u @ u.T - 0.3 * known) @ h @ scale
    # A run may be resumed with other numbers of rows on the ranks.
    for mine in (slice(layout.start, layout.stop), slice(0 if comm.rank else 40)):
        objective.use_blocks({"embedding": u[mine], "degrees": degrees[mine, None]})
        factor, signs = layout.gather_rows(objective.weights.factor), objective.weights.signs
        np.testing.assert_allclose((factor * signs) @ factor.T, gamma, atol=1e-14)


@pytest.mark.parametrize("approximation", ["fourier", "nystrom"])
def test_features_approach_the_exact_kernel(approximation, views, make):
    points, given, _ = views(100)
    exact = make(MPI.COMM_SELF, points, given, 2, 1.0, 0.5)
    options = {"approximation": approximation, "features": 60}
    many = make(MPI.COMM_SELF, points, given, 2, 1.0, 0.5, **options)
    w, weights = exact.initial_point(0), exact.weights
    assert many.kernel.value(w, weights) == pytest.approx(exact.value(w), rel=1e-2)
    np.testing.assert_allclose(many.kernel.row_sums(w), exact.kernel.row_sums(w), rtol=1e-2)
    phi = exact.fixed_point_matrix(w)
    found = many.kernel.value_and_matrix(w, weights)[1]
    np.testing.assert_allclose(found, phi, atol=0.02 * abs(phi).max())
    assert many.metrics(w)["approximation"]["relative_error"] < 0.01
    assert any("differs from the exact one" in note for note in many.notes)
    assert any("Fourier" in note for note in many.notes) == (approximation == "fourier")


@pytest.mark.parametrize("approximation", ["exact", "nystrom"])
def test_single_precision_agrees_with_double_up_to_its_stated_error(approximation, views, make):
    points, given, _ = views(400)
    values, phis = [], []
    for precision in ("single", "double"):
        options = {"precision": precision, "approximation": approximation}
        objective = make(MPI.COMM_SELF, points, given, 2, 0.4, 0.3, **options)
        double = make(MPI.COMM_SELF, points, given, 2, 0.4, 0.3)
        x = double.initial_point(0)
        objective.weights = double.weights
        value, phi = objective.value_and_fixed_point_matrix(x)
        values.append(value)
        phis.append(phi)
        assert (objective.value_error(value) > 1e-8 * abs(value)) == (precision == "single")
    assert abs(values[0] - values[1]) <= 1e-5 * abs(values[1])
    np.testing.assert_allclose(phis[0], phis[1], atol=1e-5 * abs(phis[1]).max())


SOLVERS = ["ism", "stiefel", "dimension-growth"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_solver_solves_every_kernel_and_task(kernel, views, make):
    points, given, _ = views(30)
    for task, solver in itertools.product(TASKS, SOLVERS):
        known = np.where(np.arange(30) % 3 == 0, given, -1) if task == "semi-supervised" else given
        objective = make(MPI.COMM_SELF, points, known, 2, 1.0, 0.4, task=task, kernel=kernel)
        x = objective.initial_point(0)
        blocks = objective.initial_blocks(x)
        objective.use_blocks(blocks)
        start = objective.value(x)
        # The W-step alone: what a round may not raise.
        objective.updated_blocks = lambda _x, held: (held, 0.0)
        objective.initial_blocks = lambda _x, held=blocks: held
        objective.outcome = lambda _x: {"measures": {}, "labels": np.zeros(30, int)}
        limit = 1000 if solver == "dimension-growth" else 150  # it has all columns at its end alone
        w = thalweg.minimize(objective, x0=x, solver=solver, iterations=limit).x
        np.testing.assert_allclose(w.T @ w, np.eye(2), atol=1e-9)
        value, gradient = objective.value_and_gradient(w)
        assert value <= start + 1e-12 * abs(start), (task, solver)
        rest = gradient - w @ (w.T @ gradient)
        scale = np.linalg.norm(objective.value_and_fixed_point_matrix(w)[1])
        assert np.linalg.norm(rest) <= 0.1 * scale, (task, solver)


@pytest.mark.parametrize(("far", "single"), [(0.0, True), (1e6, False)])
def test_rows_far_apart_in_widths_are_summed_in_double_precision(comm, far, single):
    rows = np.random.default_rng(0).normal(size=(80, 4))
    rows[:, 1] += far * (np.arange(80) % 2)
    dataset = Dataset.from_array(rows, comm=comm)
    options = {"labelings": [np.arange(80) % 2], "components": 2}
    values = [
        build_kdac(dataset, comm, sigma=1.5, precision=precision, **options).value(np.eye(4)[:, :2])
        for precision in ("auto", "single", "double")
    ]
    assert values[0] == values[1 if single else 2]


def test_an_outlier_that_leaves_no_digits_is_refused_and_weights_without_effect_are_noted(comm):
    rows = np.random.default_rng(0).normal(size=(80, 4))
    labels, options = np.arange(80) % 2, {"components": 2, "clusters": 2}
    data = Dataset.from_array(rows, comm=comm)
    for task, name in (("alternative", "label_weight"), ("unsupervised", "lambda_")):
        known = {**options, "labelings": [labels], "task": task}
        assert build_kdac(data, comm, **known).notes == ()
        (note,) = build_kdac(data, comm, **known, **{name: 0.5}).notes
        assert note == f"{name.rstrip('_')} has no effect in a task that is {task}"
    for rows[7, 2], words in ((1e8, "4e.* median distances from"), (1e20, "a row lies so far off")):
        with pytest.raises(InputError, match=words):
            build_kdac(Dataset.from_array(rows, comm=comm), comm, labelings=[labels], **options)
