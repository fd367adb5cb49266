"""JAX functions as objectives."""

import jax
import numpy as np
import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg.testing import check_gradient, check_hessian_product
from thalweg_saddlefree.jax_objective import JaxObjective, build_jax


def perceptron(parameters, rows):
    hidden = jax.numpy.tanh(rows @ parameters["weights"] + parameters["bias"])
    return jax.numpy.mean((hidden.sum(axis=1) - rows[:, 0]) ** 2)


def made(comm, rows=5):
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((rows, 3))
    tree = {"weights": rng.standard_normal((3, 2)), "bias": np.zeros(2)}
    return JaxObjective(comm, perceptron, tree, Layout(comm, rows).local(whole))


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


def test_a_named_function_is_minimized():
    objective = build_jax(None, MPI.COMM_SELF, function=f"{__name__}:example")
    result = thalweg.minimize(objective, solver="saddle-free", iterations=60, gradient=1e-9)
    assert result.objective < 1e-9
    tree = objective.parameters(result.x)
    assert float(tree["a"]) == pytest.approx(3.0)


def test_what_is_no_scalar_function_is_refused():
    with pytest.raises(InputError, match="scalar"):
        JaxObjective(MPI.COMM_SELF, lambda p: p * 2, np.ones(3))
    with pytest.raises(InputError, match=r"arrays differ: \[3, 4\]"):
        JaxObjective(MPI.COMM_SELF, lambda p, rows: p.sum(), np.ones(3), (np.ones(3), np.ones(4)))
    with pytest.raises(InputError, match="module:name"):
        build_jax(None, MPI.COMM_SELF, function="nothing")
