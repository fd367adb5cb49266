"""The Kronecker metric: its factors are those of the Fisher matrix, on any number of ranks."""

import itertools

import numpy as np
import pytest

import thalweg
from thalweg.parallel import MPI, Layout
from thalweg.testing import check_preconditioner
from thalweg_saddlefree.capabilities import LayerBlock, LayerSample
from thalweg_saddlefree.kronecker import KroneckerPreconditioner, LayerFactors, Moments, owners
from thalweg_saddlefree.minibatches import RowSet
from thalweg_saddlefree.networks.functions import (
    ACTIVATIONS,
    LogisticCrossEntropy,
    SoftmaxCrossEntropy,
    SquaredError,
)
from thalweg_saddlefree.networks.network import Network
from thalweg_saddlefree.networks.objective import NetworkObjective

LOSSES = {
    "squared": SquaredError(ACTIVATIONS["sigmoid"]),
    "logistic": LogisticCrossEntropy(),
    "softmax": SoftmaxCrossEntropy(),
}


def objective(comm, sizes=(4, 3, 2), loss="squared", rows=9, kind=NetworkObjective, **options):
    layout = Layout(comm, rows)
    stream = np.random.default_rng(8)
    inputs = stream.standard_normal((rows, sizes[0]))
    targets = np.eye(sizes[-1])[stream.integers(sizes[-1], size=rows)]
    network = Network(list(sizes), [ACTIVATIONS["tanh"]] * (len(sizes) - 2), LOSSES[loss])
    return kind(comm, layout, network, layout.local(inputs), layout.local(targets), **options)


@pytest.mark.parametrize("loss", LOSSES)
def test_sampled_gradients_have_the_gauss_newton_matrix_as_covariance(loss):
    """Over every choice of the signs, exactly: the Fisher matrix of these losses."""
    problem = objective(MPI.COMM_SELF, loss=loss)
    x = problem.initial_point(2)
    flat = x[:, 0]
    network = problem.network
    _, point = network.linearize(flat, problem.inputs, problem.targets)
    fisher = np.zeros((len(flat), len(flat)))
    choices = list(itertools.product((-1.0, 1.0), repeat=network.sizes[-1]))
    for choice in choices:
        signs = np.tile(choice, (len(problem.inputs), 1))
        gradients = np.zeros((len(signs), len(flat)))
        for layer, delta in network.fisher_deltas(flat, point, signs):
            block = problem.layers[layer]
            inputs = np.column_stack([point.activations[layer], np.ones(len(signs))])
            outer = np.einsum("ni,no->nio", inputs, delta)
            gradients[:, block.start : block.stop] = outer.reshape(len(signs), -1)
        fisher += gradients.T @ gradients / len(signs) / len(choices)
    products = [problem.gauss_newton_product(x, unit[:, None]) for unit in np.eye(len(flat))]
    np.testing.assert_allclose(np.hstack(products), fisher, atol=1e-12)


def test_one_layer_with_one_output_is_inverted_exactly():
    """There A x G is the Gauss-Newton matrix, whatever the signs."""
    problem = objective(MPI.COMM_SELF, sizes=(5, 1), rows=40)
    problem.network.loss = SquaredError(ACTIVATIONS["linear"])
    x = problem.initial_point(0)
    metric = KroneckerPreconditioner(damping=1e-12)
    metric.setup(problem, x)
    metric.update(x)
    wanted = problem.layout.random_normal(3)
    found = metric.apply(problem.gauss_newton_product(x, wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def dense(layer, damping):
    """The damped Kronecker product that ``LayerFactors`` inverts, as a matrix."""
    a, g = (np.triu(f) + np.triu(f, 1).T for f in (layer.inputs, layer.derivatives))
    pi = np.sqrt(np.trace(a) / len(a) / (np.trace(g) / len(g)))
    a = a + pi * np.sqrt(damping) * np.eye(len(a))
    return np.kron(a, g + np.sqrt(damping) / pi * np.eye(len(g)))


def test_the_damping_is_factored_and_averages_move():
    stream = np.random.default_rng(0)
    block = LayerBlock(0, 3, 2, bias=True)
    layer = LayerFactors.zero(block, np.dtype(float))
    a_mean, g_mean = np.zeros((3, 3)), np.zeros((2, 2))
    for keep in (0.0, 0.5, 0.6):
        a, g = stream.standard_normal((6, 2)), stream.standard_normal((6, 2))
        moments = Moments.zero(block, np.dtype(float))
        moments.add(LayerSample(0, a[:, None], g[:, None]), block)
        for array in (moments.inputs, moments.derivatives):
            array /= 6
        layer = layer.averaged(moments, keep)
        a1 = np.column_stack([a, np.ones(6)])
        a_mean = keep * a_mean + (1 - keep) * a1.T @ a1 / 6
        g_mean = keep * g_mean + (1 - keep) * g.T @ g / 6
    np.testing.assert_allclose(np.triu(layer.inputs), np.triu(a_mean))
    np.testing.assert_allclose(np.triu(layer.derivatives), np.triu(g_mean))
    layer = layer.inverted(0.3)
    gradient = stream.standard_normal((3, 2))
    solved = np.linalg.solve(dense(layer, 0.3), gradient.ravel())
    np.testing.assert_allclose(layer.solve(gradient).ravel(), solved)


def test_derivatives_of_weights_at_several_places_are_averaged_over_them():
    stream = np.random.default_rng(1)
    block = LayerBlock(0, 3, 2, bias=False)
    a, g = stream.standard_normal((7, 4, 3)), stream.standard_normal((7, 4, 2))
    moments = Moments.zero(block, np.dtype(float))
    moments.add(LayerSample(0, a, g), block)
    for found, rows, share in ((moments.inputs, a, 1.0), (moments.derivatives, g, 0.25)):
        squares = np.einsum("npi,npj->ij", rows, rows)
        np.testing.assert_allclose(np.triu(found), np.triu(share * squares))


@pytest.mark.ranks(1, 2, 3)
def test_directions_do_not_depend_on_the_ranks(comm):
    found = []
    for ranks in (comm, MPI.COMM_SELF):
        problem = objective(ranks, sizes=(4, 6, 5, 3), rows=23)
        first = problem.rows.start
        for number in range(4):
            rows = np.arange(number, 23, 2)
            local = rows[(rows >= first) & (rows < problem.rows.stop)] - first
            problem.use_rows(RowSet(local, len(rows)))
            x = problem.initial_point(number)
            if number == 0:
                metric = KroneckerPreconditioner(damping=0.1)
                metric.setup(problem, x)
            metric.update(x)
        found.append(metric.apply(problem.layout.random_normal(7)))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-7, atol=1e-10)
    everywhere = comm.allgather(found[0])
    assert all(np.array_equal(everywhere[0], other) for other in everywhere)


@pytest.mark.ranks(1, 2)
def test_it_is_a_preconditioner_with_a_memory(comm):
    problem = objective(comm, rows=12)
    metric = KroneckerPreconditioner(inverse_every=3)
    check_preconditioner(metric, problem, problem.initial_point(0))


def test_layers_are_shared_out_by_their_cost():
    blocks = tuple(LayerBlock(0, n, n, bias=False) for n in (100, 50, 70, 60, 1))
    assert (owners(blocks, 1), owners(blocks, 2)) == ([0] * 5, [0, 1, 1, 1, 1])
    assert sorted(set(owners(blocks, 3))) == [0, 1, 2]


@pytest.mark.parametrize("solver", ["lbfgs", "nonlinear-cg", "hessian-free", "gradient-descent"])
def test_solvers_that_take_preconditioners_take_it(solver):
    """It brings each of them further in as many iterations."""

    ends = []
    for preconditioner in ("identity", "kronecker"):
        problem = objective(MPI.COMM_SELF, sizes=(4, 8, 6, 3), loss="softmax", rows=30)
        options = {"steps": 4} if solver == "hessian-free" else {}
        result = thalweg.minimize(problem, None, solver, preconditioner, iterations=15, **options)
        ends.append(result.objective)
    assert ends[1] < ends[0]
