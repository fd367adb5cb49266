"""Networks and test functions: exact derivatives, rank counts, stationary points, refusals."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.testing import check_gradient, check_hessian_product, check_ranks
from thalweg.testing.derivative_checks import check_gauss_newton_product
from thalweg_saddlefree.capabilities import draw_curvature_rows
from thalweg_saddlefree.networks import network
from thalweg_saddlefree.networks.build import build_autoencoder, build_deep_linear, build_mlp
from thalweg_saddlefree.networks.network import multiply
from thalweg_saddlefree.rosenbrock import build_rosenbrock


def digits(comm, rows=37):
    images = load_digits()
    return Dataset.from_array(images.data[:rows, 20:36] / 16.0, images.target[:rows] % 3, comm)


KINDS = {
    "tanh": lambda c: build_autoencoder(digits(c), c, layers=[16, 7, 3], l2=0.01),
    "sigmoid": lambda c: build_autoencoder(
        digits(c), c, layers=[16, 7, 3], activation="sigmoid", loss="cross-entropy", l2=0.01
    ),
    "curved output": lambda c: build_autoencoder(
        digits(c), c, layers=[16, 7, 3], activation="sigmoid", code="tanh", output="sigmoid"
    ),
    "classifier": lambda c: build_mlp(digits(c), c, layers=[16, 6, 5, 3], l2=0.01),
    "least squares": lambda c: build_mlp(
        digits(c), c, layers=[16, 6, 3], activation="relu", loss="squared", output="tanh"
    ),
    "deep linear": lambda c: build_deep_linear(None, c, size=4, depth=4, start=0.5),
    "fewer rows than ranks": lambda c: build_autoencoder(digits(c, rows=2), c, layers=[16, 3]),
}


@pytest.mark.parametrize(
    ("layers", "sizes"),
    [
        ([16, 3], [16, 3, 16]),
        ([16, 20, 7, 3], [16, 20, 7, 3, 7, 20, 16]),
        ([16, 20], [16, 20, 16]),
        ([16, 7, 7], [16, 7, 7, 7, 16]),
        (np.array([16, 7, 3, 5, 16]), [16, 7, 3, 5, 16]),
    ],
)
def test_an_encoder_is_mirrored_and_a_whole_network_is_not(layers, sizes):
    objective = build_autoencoder(digits(MPI.COMM_SELF), MPI.COMM_SELF, layers=layers)
    assert list(objective.network.sizes) == sizes


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_agree_with_differences(kind):
    objective = KINDS[kind](MPI.COMM_SELF)
    x = objective.initial_point(1)
    check_gradient(objective, x)
    check_hessian_product(objective, x)
    check_gauss_newton_product(objective, x)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_values_gradients_and_products_do_not_depend_on_the_ranks(comm, kind):
    check_ranks(KINDS[kind], comm, tolerance=1e-12)
    shared, alone = KINDS[kind](comm), KINDS[kind](MPI.COMM_SELF)
    for objective in (shared, alone):
        draw_curvature_rows(objective, 3, 1, max(1, objective.rows.rows // 2))
    x, along = shared.initial_point(0), shared.layout.random_normal(5)
    for name in ("hessian_product", "gauss_newton_product"):
        one, many = getattr(alone, name)(x, along), getattr(shared, name)(x, along)
        np.testing.assert_allclose(many, one, rtol=1e-10, atol=1e-13)


def test_products_follow_a_point_that_is_changed_in_place():
    objective, other = (KINDS["least squares"](MPI.COMM_SELF) for _ in range(2))
    x, along = objective.initial_point(0), objective.layout.random_normal(5)
    objective.hessian_product(x, along)
    x += 0.5
    found = objective.hessian_product(x, along)
    np.testing.assert_array_equal(found, other.hessian_product(x, along))


def test_the_gauss_newton_matrix_is_the_hessian_where_the_fit_is_perfect():
    objective = build_autoencoder(digits(MPI.COMM_SELF), MPI.COMM_SELF, layers=[16, 5])
    x = objective.initial_point(0)
    objective.targets = np.array(objective.network.answer(x[:, 0], objective.inputs))
    draw_curvature_rows(objective, 0, 0, None)
    along = objective.layout.random_normal(5)
    one, other = objective.hessian_product(x, along), objective.gauss_newton_product(x, along)
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_sample_of_rows_is_set_by_seed_and_counter_and_averages_to_the_whole():
    objective = KINDS["tanh"](MPI.COMM_SELF)
    x = objective.initial_point(0)
    along = objective.layout.random_normal(5)

    def product(counter, rows):
        draw_curvature_rows(objective, 0, counter, rows)
        return objective.hessian_product(x, along)

    whole = product(0, None)
    first = product(1, 10)
    assert not np.allclose(first, product(2, 10))
    np.testing.assert_array_equal(first, product(1, 10))
    mean = np.mean([product(counter, 10) for counter in range(400)], axis=0)
    assert np.linalg.norm(mean - whole) < 0.1 * np.linalg.norm(whole)


def test_operations_are_those_of_the_products_of_matrices(monkeypatch):
    counted = []

    def counting(a, b, out, add=False):
        counted.append(2 * a.shape[0] * a.shape[1] * b.shape[1])
        return multiply(a, b, out, add)

    monkeypatch.setattr(network, "multiply", counting)
    objective = KINDS["classifier"](MPI.COMM_SELF)
    x, along = objective.initial_point(0), objective.initial_point(1)
    for call in (
        lambda: objective.value(x),
        lambda: objective.value_and_gradient(x),
        lambda: objective.hessian_product(x, along),
        lambda: objective.gauss_newton_product(x, along),
        lambda: objective.curvature_forms(x, [along], hessian=True),
        lambda: objective.curvature_forms(x, [along], hessian=False),
    ):
        before = objective.operations
        counted.clear()
        call()
        assert objective.operations - before == sum(counted) > 0


@pytest.mark.ranks(1, 2)
def test_layers_and_values_that_do_not_fit_are_refused_in_one_sentence(comm):
    data = digits(comm)
    widening = r"widen again after 3 .* end them with 16"
    for sizes, words in (
        *((each, widening) for each in ([16, 7, 3, 7, 15], [16, 3, 7], [16, 3, 7, 20, 7, 3, 4])),
        (["a", "b"], "at least two integers"),
        ([10, 3], r"16 columns; write layers = \[16"),
        ([16, 0, 3], "integers"),
    ):
        with pytest.raises(InputError, match=words):
            build_autoencoder(data, comm, layers=sizes)
    with pytest.raises(InputError, match="3 labels"):
        build_mlp(data, comm, layers=[16, 5, 10])
    for labels, words in ((None, "needs labels"), (["a", "", "b"], "some rows have no label")):
        with pytest.raises(InputError, match=words):
            build_mlp(Dataset.from_array(np.ones((3, 2)), labels, comm=comm), comm)
    big = data.with_values(data.values * 16)
    with pytest.raises(InputError, match="between 0 and 1"):
        build_autoencoder(big, comm, layers=[16, 3], loss="cross-entropy")
    spoiled = np.array(data.values)
    if comm.rank == comm.size - 1:
        spoiled[-1, 0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        build_autoencoder(data.with_values(spoiled), comm, layers=[16, 3])
    if comm.size > 1:  # every rank's copy of the rows would count
        with pytest.raises(InputError, match="the rows lie on 1 of the 2 ranks"):
            build_autoencoder(digits(MPI.COMM_SELF), comm, layers=[16, 3])


@pytest.mark.ranks(1, 2)
def test_data_of_a_size_that_ends_runs_early_are_noted(comm):
    data = digits(comm)
    for factor in (1e-8, 1.0, 1e8):
        scaled = data.with_values(factor * data.values)
        notes = build_autoencoder(scaled, comm, layers=[16, 3]).notes
        assert [note for note in notes if "scale the data" in note] == list(notes)
        assert len(notes) == (factor != 1.0)


@pytest.mark.parametrize("size", [2, 7])
def test_derivatives_of_rosenbrocks_function_agree_with_differences(size):
    objective = build_rosenbrock(None, MPI.COMM_SELF, size=size)
    x = objective.initial_point(2) + objective.layout.random_normal(2, 0.4)
    check_gradient(objective, x)
    check_hessian_product(objective, x)
    check_gauss_newton_product(objective, x)

    def residuals(t):
        return np.append(10.0 * (t[1:] - t[:-1] ** 2), 1.0 - t[:-1])

    jacobian = np.transpose([residuals(x[:, 0] + e) - residuals(x[:, 0] - e) for e in np.eye(size)])
    product = 0.5 * jacobian.T @ jacobian @ x  # of central differences, exact, over steps of two
    np.testing.assert_allclose(objective.gauss_newton_product(x, x), product)
    value, gradient = objective.value_and_gradient(np.ones((size, 1)))
    assert value == 0
    assert not gradient.any()
