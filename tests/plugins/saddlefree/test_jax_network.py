"""JAX: functions as objectives, networks with our numbers, batches, and an optax wrapper."""

from functools import reduce

import jax
import numpy as np
import optax
import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg.testing import check_gradient, check_hessian_product
from thalweg.testing.derivative_checks import check_gauss_newton_product
from thalweg_saddlefree.jax_network import JaxNetwork, convolution, dense
from thalweg_saddlefree.jax_objective import JaxObjective, build_jax
from thalweg_saddlefree.kronecker import KroneckerPreconditioner
from thalweg_saddlefree.minibatches import RowSet
from thalweg_saddlefree.networks.functions import (
    ACTIVATIONS,
    LogisticCrossEntropy,
    SoftmaxCrossEntropy,
    SquaredError,
)
from thalweg_saddlefree.networks.network import Network
from thalweg_saddlefree.networks.objective import NetworkObjective
from thalweg_saddlefree.optax import saddle_free
from thalweg_saddlefree.subspace.solver import SubspaceSaddleFree

# Most of the time of these tests is that of compilers.
jax.config.update("jax_disable_most_optimizations", True)

OURS = {
    "squared": SquaredError(ACTIVATIONS["linear"]),
    "logistic": LogisticCrossEntropy(),
    "softmax": SoftmaxCrossEntropy(),
}


def perceptron(parameters, inputs, tap):
    return dense(tap, "b", parameters, jax.numpy.tanh(dense(tap, "a", parameters, inputs)))


def data(rows):
    stream = np.random.default_rng(5)
    return stream.standard_normal((rows, 4)), np.eye(3)[stream.integers(3, size=rows)]


def entropy(parameters, inputs, targets):
    outputs = perceptron(parameters, inputs, lambda name, a, z: z)
    return optax.softmax_cross_entropy(outputs, targets).mean()


def pair(comm, loss="softmax", rows=11, precision="double", l2=0.03):
    """One network, by JAX and by this project."""
    inputs, targets = data(rows)
    layout = Layout(comm, rows)
    network = Network([4, 5, 3], [ACTIVATIONS["tanh"]], OURS[loss])
    local = (layout.local(inputs), layout.local(targets))
    options = {"l2": l2, "precision": precision, "held_out": local}
    ours = NetworkObjective(comm, layout, network, *local, **options)
    x = ours.initial_point(3)
    tree = {
        name: {"kernel": network.weights(x[:, 0], k), "bias": network.biases(x[:, 0], k)}
        for k, name in enumerate("ab")
    }
    return ours, JaxNetwork(comm, perceptron, tree, local, loss, **options), x


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("loss", OURS)
def test_jax_and_this_project_agree_on_everything(comm, loss):
    """Value, gradient, both products, and the Kronecker metric; on batches too."""
    if comm.size > 1 and loss != "softmax":
        return
    ours, theirs, x = pair(comm, loss)
    np.testing.assert_allclose(theirs.initial_point(0), x)
    assert theirs.held_out_value(x) == pytest.approx(ours.held_out_value(x), rel=1e-12)
    decayed = pair(comm, loss, precision="single", l2=1e6)[1].held_out_value(x)
    assert decayed == pytest.approx(ours.held_out_value(x), rel=1e-5)
    along, layout = ours.layout.random_normal(1), ours.data_layout
    batch = np.array([0, 2, 3, 7, 9, 10])
    mine = batch[(batch >= layout.start) & (batch < layout.stop)] - layout.start
    for rows in (None, RowSet(mine, len(batch))):
        found = []
        for objective in (ours, theirs):
            objective.use_rows(rows)
            metric = KroneckerPreconditioner(damping=0.1)
            metric.setup(objective, x)
            metric.update(x)
            found.append([*results(objective, x, along), metric.apply(along)])
        for mine_found, jax_found in zip(*found, strict=True):
            np.testing.assert_allclose(jax_found, mine_found, rtol=1e-9, atol=1e-12)


def test_a_row_of_several_positions_is_their_mean():
    _, flat, x = pair(MPI.COMM_SELF, rows=12)
    tree = flat.parameters(x)
    rows = tuple(array.reshape(4, 3, -1) for array in data(12))
    long = JaxNetwork(MPI.COMM_SELF, perceptron, tree, rows, "softmax", l2=0.03, precision="double")
    flat.use_rows(RowSet(np.array([3, 4, 5, 9, 10, 11]), 6))
    long.use_rows(RowSet(np.array([1, 3]), 2))
    along = flat.layout.random_normal(1)
    for first, second in zip(*(results(each, x, along) for each in (flat, long)), strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-9, atol=1e-12)
    many = tuple(array.reshape(100, 3, -1) for array in data(300))
    problem = JaxNetwork(MPI.COMM_SELF, perceptron, tree, many, "softmax")
    # About a hundred predictions, and of curvature all, which are fewer than it wants.
    assert SubspaceSaddleFree().init(problem, x).batch_rows == 33
    assert problem.curvature_row_count == 33


def results(objective, x, along):
    """Value, gradient, and curvature by both matrices."""
    value, gradient = objective.value_and_gradient(x)
    assert objective.value(x) == pytest.approx(value, rel=1e-12)
    forms = objective.curvature_forms(x, [along, gradient], hessian=True)
    products = [objective.hessian_product(x, along), objective.gauss_newton_product(x, along)]
    return [value, gradient, *products, forms.gauss_newton, forms.hessian]


def images(parameters, inputs, tap):
    a = jax.nn.relu(convolution(tap, "first", parameters, inputs, strides=(2, 2)))
    return dense(tap, "last", parameters, a.reshape(len(a), -1))


def convolutional(precision):
    stream = np.random.default_rng(0)
    tree = {
        "first": {"kernel": 0.3 * stream.standard_normal((3, 3, 2, 4)), "bias": np.zeros(4)},
        "last": {"kernel": 0.3 * stream.standard_normal((36, 2))},
    }
    inputs = stream.standard_normal((40, 6, 6, 2))
    rows = inputs, np.eye(2)[(inputs[:, :3].sum(axis=(1, 2, 3)) > 0).astype(int)]
    return JaxNetwork(MPI.COMM_SELF, images, tree, rows, "softmax", precision=precision), tree


def test_a_convolution_is_jaxs_own_and_its_patches_meet_the_kernel_in_order():
    objective, tree = convolutional("double")
    x = objective.initial_point(0)
    check_gradient(objective, x)
    check_gauss_newton_product(objective, x)
    with objective.precisely():
        rows = np.random.default_rng(1).standard_normal((3, 6, 6, 2))
        kernel = tree["first"]["kernel"]
        wanted = jax.lax.conv_general_dilated(
            rows, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        seen = {}
        convolution(lambda n, a, z: seen.update({n: (a, z)}), "first", tree, rows, (2, 2))
    inputs, outputs = seen["first"]
    np.testing.assert_allclose(np.asarray(outputs), np.asarray(wanted), atol=1e-12)
    # Outside the block JAX would round to single precision.
    np.testing.assert_allclose(np.asarray(inputs) @ kernel.reshape(-1, 4), wanted, atol=1e-12)


def test_a_convolutional_network_trains_in_single_precision_without_the_global_switch():
    objective, _ = convolutional("single")
    metric = KroneckerPreconditioner()
    solver = SubspaceSaddleFree(preconditioner=metric, batch=20, damping=0.1, curvature_share=1.0)
    result = thalweg.minimize(objective, solver=solver, iterations=30, decrease=None)
    assert not jax.config.jax_enable_x64
    assert result.objective < 0.02


def test_parameters_without_a_tap_and_unknown_losses_are_refused():
    inputs, targets = data(5)
    tree = {"a": {"kernel": np.ones((4, 3))}, "b": {"kernel": np.ones((3, 3))}}
    with pytest.raises(InputError, match="loss must be one of"):
        JaxNetwork(MPI.COMM_SELF, perceptron, tree, (inputs, targets), "hinge")
    with pytest.raises(InputError, match="'l2' of JaxNetwork must"):
        JaxNetwork(MPI.COMM_SELF, perceptron, {}, data(3), "softmax", l2=float("nan"))
    for layers in "a", "abb":  # once too few, and twice, as in a recurrence

        def model(p, a, tap, layers=layers):
            return reduce(lambda z, name: dense(tap, name, p, z), layers, a)

        with pytest.raises(InputError, match=r"layer 'b' has parameters but no tap .* or several"):
            JaxNetwork(MPI.COMM_SELF, model, tree, (inputs, targets), "softmax")


def network_of(hidden, outputs, stream):
    sizes = {"a": (4, hidden), "b": (hidden, outputs)}
    return {k: {"kernel": stream.normal(size=n), "bias": np.zeros(n[1])} for k, n in sizes.items()}


def test_a_script_for_optax_changes_one_line():
    inputs, targets = rows = data(60)
    start = network_of(8, 3, np.random.default_rng(1))
    start = jax.tree_util.tree_map(lambda leaf: jax.numpy.asarray(0.5 * leaf), start)

    def trained(optimizer):
        def step(carry, _):
            params, state = carry
            grads = jax.grad(entropy)(params, inputs, targets)
            updates, state = optimizer.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        run = jax.jit(lambda tree: jax.lax.scan(step, (tree, optimizer.init(tree)), None, 25))
        return float(entropy(run(start)[0][0], inputs, targets))

    ours = saddle_free(perceptron, rows, "softmax", batch=30, damping=0.1)
    assert trained(ours) < 0.5 * trained(optax.adam(1e-2))
    with pytest.raises(InputError, match="give the parameters"):
        ours.update(start, ours.init(start))
    for other in (jax.tree_util.tree_map(np.transpose, start), jax.tree_util.tree_leaves(start)):
        with pytest.raises(InputError, match="the shapes of the parameters"):
            ours.update(other, ours.init(start), start)
    with pytest.raises(InputError, match="'l2' of saddle_free must be at least 0"):
        saddle_free(perceptron, rows, "softmax", l2=-1.0)
    with pytest.raises(InputError, match=r"'batch' of saddle_free must be an integer, not 2\.5"):
        saddle_free(perceptron, rows, "softmax", batch=2.5)


def test_updates_are_pure():
    """An old state gives the old step, whether it is kept, stored, or used inside ``jax.jit``."""
    stream, leaves = np.random.default_rng(1), jax.tree_util.tree_leaves
    optimizer = saddle_free(perceptron, data(60), "softmax", batch=30)
    params, grads = network_of(5, 3, stream), network_of(5, 3, stream)
    history = [(None, optimizer.init(params))]
    for _ in range(7):
        history.append(optimizer.update(grads, history[-1][1], params))
    forms = [[(leaf.shape, leaf.dtype) for leaf in leaves(state)] for _, state in history]
    assert all(form == forms[0] for form in forms)
    optimizer.init(network_of(2, 3, stream))  # for other parameters
    decayed = saddle_free(perceptron, data(60), "softmax", batch=30, l2=10.0)
    step, _ = decayed.update(network_of(5, 3, stream), decayed.init(params), params)
    assert all((step[name]["kernel"] * params[name]["kernel"]).sum() < 0 for name in "ab")
    # A state that was read in another process needs no ``init``.
    fresh = saddle_free(perceptron, data(60), "softmax", batch=30)
    traced = jax.jit(fresh.update)
    for before, result in enumerate(history[1:]):
        stored = jax.tree_util.tree_map(np.array, history[before][1])
        for update, rounding in ((optimizer.update, 0.0), (fresh.update, 0.0), (traced, 1e-5)):
            again = update(grads, stored, params)
            for one, other in zip(leaves(result), leaves(again), strict=True):
                np.testing.assert_allclose(other, one, rtol=rounding, atol=rounding)
    assert any(leaf.any() for leaf in leaves(history[-1][0]))


@pytest.mark.ranks(1, 2)
def test_its_steps_are_those_of_the_solver(comm):
    """In double precision, on all rows, of one output, whose factors no random sign changes."""
    options = {"lanczos": 1, "layerwise": True} if comm.size > 1 else {}
    rows = [Layout(comm, 30).local(part) for part in (data(30)[0], np.sin(data(30)[0][:, :1]))]
    with (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64(True):
        params, metric = network_of(5, 1, np.random.default_rng(2)), KroneckerPreconditioner()
        network = JaxNetwork(comm, perceptron, params, rows, "squared", precision="double")
        metric.setup(network, network.initial_point(0))
        solver = SubspaceSaddleFree(preconditioner=metric, **options)
        optimizer = saddle_free(perceptron, rows, "squared", comm=comm, **options)
        states = [solver.init(network, network.initial_point(0))]
        for _ in range(4):
            states.append(solver.step(states[-1]))

        def follow(carry, gradient):
            params, memory = carry
            step, memory = optimizer.update(network.unravel(gradient), memory, params)
            params = optax.apply_updates(params, step)
            return (params, memory), (network.ravel(params), memory.damping)

        # After a gradient that is not finite a script may leave the step out and go on.
        gradients = np.stack([state.gradient[:, 0] for state in (*states[:4], states[0])])
        gradients[4] = np.nan
        run = jax.jit(lambda *start: jax.lax.scan(follow, start, gradients))
        (_, memory), (points, dampings) = run(params, optimizer.init(params))
        for state, point, damping in zip(states[1:], points, dampings, strict=False):
            np.testing.assert_allclose(point, state.x[:, 0], rtol=1e-6)
            assert float(damping) == pytest.approx(state.damping, rel=1e-5)
        assert np.isnan(points[4]).all()
        assert (memory.steps, memory.damping) == (4, dampings[3])


def test_it_works_in_a_chain_for_several_networks_at_once():
    trees, ours = jax.tree_util, saddle_free(perceptron, data(60), "softmax", batch=30)
    half = optax.scale_by_schedule(lambda count: 0.5)
    optimizer = optax.chain(ours, optax.add_decayed_weights(-1e-3), half)

    def step(carry, batch):
        params, state = carry
        updates, state = optimizer.update(jax.grad(entropy)(params, *batch), state, params)
        return (optax.apply_updates(params, updates), state), None

    batches = [array.reshape(3, 20, -1) for array in data(60)]
    both = [network_of(5, 3, np.random.default_rng(seed)) for seed in (3, 4)]
    stacked = trees.tree_map(lambda *leaves: np.stack(leaves), *both)
    run = jax.vmap(lambda tree: jax.lax.scan(step, (tree, optimizer.init(tree)), batches))
    ends = jax.jit(run)(trees.tree_map(np.float32, stacked))[0][0]
    for number, params in enumerate(both):
        carry = (params, optimizer.init(params))
        for batch in zip(*batches, strict=True):
            carry, _ = step(carry, batch)
        for one, other in zip(*map(trees.tree_leaves, (carry[0], ends)), strict=True):
            np.testing.assert_allclose(other[number], one, rtol=1e-4, atol=1e-5)


def misfit(parameters, rows):
    hidden = jax.numpy.tanh(rows @ parameters["weights"] + parameters["bias"])
    return jax.numpy.mean((hidden.sum(axis=1) - rows[:, 0]) ** 2)


def made(comm, rows=5):
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((rows, 3))
    tree = {"weights": rng.standard_normal((3, 2)), "bias": np.zeros(2)}
    return JaxObjective(comm, misfit, tree, Layout(comm, rows).local(whole))


def example():
    """What the option 'function' names."""
    return (lambda x: (x["a"] - 3.0) ** 2 + x["b"] ** 4), {"a": 0.0, "b": 1.0}


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("rows", [5, 2])
def test_derivatives_agree_with_differences_on_any_number_of_ranks(comm, rows):
    objective = made(comm, rows)
    x = objective.initial_point(0)
    check_gradient(objective, x)
    check_hessian_product(objective, x)
    assert objective.value(x) == pytest.approx(made(MPI.COMM_SELF, rows).value(x), rel=1e-13)


@pytest.mark.ranks(1, 2)
def test_where_rows_come_in_parts_a_function_must_be_a_mean_over_them(comm):
    def weighted(p, r):
        return ((r @ p - 1.0) ** 2 * r[:, 0]).sum() / r[:, 0].sum()

    rows = Layout(comm, 6).local(np.arange(1.0, 13.0).reshape(6, 2))
    parts, stochastic = (weighted, np.zeros(2), rows), {"solver": "saddle-free-subspace"}
    with pytest.raises(InputError, match="must be a mean over rows"):
        thalweg.minimize(JaxObjective(comm, *parts), **stochastic, epochs=1)


def test_a_named_function_is_minimized():
    objective = build_jax(None, MPI.COMM_SELF, function=f"{__name__}:example")
    result = thalweg.minimize(objective, solver="saddle-free", iterations=60, gradient=1e-9)
    assert result.objective < 1e-9
    assert float(objective.parameters(result.x)["a"]) == pytest.approx(3.0)


def test_what_is_no_scalar_function_is_refused(monkeypatch):
    uneven = (lambda x, rows: x.sum()), np.ones(3), (np.ones(3), np.ones(4))
    monkeypatch.setitem(globals(), "example", lambda: uneven)
    with pytest.raises(InputError, match="scalar"):
        JaxObjective(MPI.COMM_SELF, lambda p: p * 2, np.ones(3))
    for start, rows, words in (
        (np.ones(3), (np.ones(3), np.ones(4)), r"arrays differ: \[\(3,\), \(4,\)\]"),
        (np.ones(3), (np.ones(3), 4.0), "arrays differ"),
        (np.ones(3), np.ones((0, 2)), "have no rows"),
        (np.ones(3) + 1j, np.ones(3), "must be real"),
    ):
        with pytest.raises(InputError, match=words):
            JaxObjective(MPI.COMM_SELF, lambda p, rows: p.sum(), start, rows)
    with pytest.raises(InputError, match="single precision"):
        JaxObjective(MPI.COMM_SELF, None, np.ones(3), np.array([2**31]), precision="single")
    for name, words in (("nothing", "module:name"), (f"{__name__}:example", "of one length")):
        with pytest.raises(InputError, match=words):
            build_jax(None, MPI.COMM_SELF, function=name)
