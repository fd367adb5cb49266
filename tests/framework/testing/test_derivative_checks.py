"""The checks of derivatives and manifolds pass what is right and say how wrong the rest is."""

import re
from contextlib import nullcontext

import numpy as np
import pytest

from thalweg.errors import NumericalError
from thalweg.interfaces import Homotopy, Objective
from thalweg.parallel import MPI, Layout, sum_over_ranks
from thalweg.testing import (
    SpringProblem,
    check_attractive_weights,
    check_capabilities,
    check_gradient,
    check_hessian_diagonal,
    check_hessian_product,
    check_homotopy,
    check_manifold,
    check_ranks,
)
from thalweg_clustering.stiefel import Stiefel, StiefelVariable


def altered(method, change):
    """The spring problem, one method of which returns what ``change`` makes of it."""

    def changed(self, *arguments):
        return change(self, getattr(SpringProblem, method)(self, *arguments), *arguments)

    return type("Altered", (SpringProblem,), {method: changed})


@pytest.mark.ranks(1, 2, 3)
def test_right_derivatives_pass(comm):
    for rows in (24, 3):
        objective = SpringProblem(comm, rows)
        x = objective.initial_point(0)
        check_gradient(objective, x)
        assert set(check_capabilities(objective, x)) == {
            "Hessian product",
            "Gauss-Newton product",
            "Hessian diagonal",
            "attractive Laplacian",
        }


@pytest.mark.parametrize("effect", [1.0, 0.0])
def test_a_parameter_without_effect_is_found(effect):
    class Scaled(SpringProblem, Homotopy):
        homotopy_parameter = 1.0

        def default_homotopy(self):
            return (0.5, 1.0)

        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            factor = 1.0 + effect * self.homotopy_parameter
            return factor * value, factor * gradient

    objective = Scaled(MPI.COMM_SELF, 24)
    with nullcontext() if effect else pytest.raises(AssertionError, match="the value is"):
        check_homotopy(objective, objective.initial_point(0))


def test_values_large_and_small_do_not_disturb(comm):
    for shift, factor in ((1e8, 1.0), (0.0, 1e-12), (0.0, 1e12)):
        objective = altered(
            "value_and_gradient",
            lambda _, found, x, a=shift, b=factor: (b * found[0] + a, b * found[1]),
        )(comm)
        for size in (1e-4, 1.0, 1e4):
            check_gradient(objective, size * objective.initial_point(0))


def one_entry(self, found, x):
    if self.layout.start == 0:
        found[1][1, 1] += 1e-3
    return found


def skewed_weights(self, weights, x):
    weights = weights.toarray()
    if self.layout.start == 0:
        weights[0, 5] = 1
    return weights


def with_loops(self, weights, x):
    weights = weights.toarray()
    weights[:, self.layout.start : self.layout.stop] += np.eye(len(weights))
    return weights


EVALUATION, PRODUCT, WEIGHTS = "value_and_gradient", "hessian_product", "attractive_weights"

#: What is wrong, the check that finds it, and what it says.
WRONG = [
    (altered(EVALUATION, lambda _, f, x: (f[0], 1.0001 * f[1])), check_gradient,
     r"1\.0e-04 relative, more than 1e-06"),
    (type("Approximate", (altered(EVALUATION, lambda _, f, x: (f[0], 1.001 * f[1])),),
          {"value_error": lambda _, value: 1e-7 * abs(value)}), check_gradient, "more than 1e-06"),
    (altered(EVALUATION, one_entry), check_gradient, "central differences"),
    (altered("value", lambda _, value, x: value + 1), check_gradient, "value_and_gradient gives"),
    (altered(EVALUATION, lambda _, f, x: (f[0] * np.inf, f[1])), check_gradient,
     "the value at the point checked is inf"),
    (altered(PRODUCT, lambda _, p, x, u: 1.001 * p), check_hessian_product, r"1\.0e-03 relative"),
    (altered(PRODUCT, lambda _, p, x, u: p + [0.1, 0.0] * u[:, ::-1]), check_hessian_product,
     "not symmetric"),
    (altered(PRODUCT, lambda self, p, x, u: p * (1 + 0.1 * self.layout.norm(u))),
     check_hessian_product, "not (linear|symmetric)"),
    (altered("hessian_diagonal", lambda _, d, x: 1.01 * d), check_hessian_diagonal,
     "of the Hessian diagonal is"),
    (altered(WEIGHTS, lambda _, w, x: -w), check_attractive_weights, "negative"),
    (altered(WEIGHTS, skewed_weights), check_attractive_weights, "not symmetric"),
    (altered(WEIGHTS, with_loops), check_attractive_weights, "diagonal"),
]  # fmt: skip


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(("kind", "check", "said"), WRONG)
def test_what_is_wrong_is_found_and_said_on_every_rank(comm, kind, check, said):
    objective = kind(comm)
    with pytest.raises(AssertionError) as caught:
        check(objective, objective.initial_point(3))
    text = str(caught.value)
    assert re.search(said, text)
    assert "\n" not in text.split("\nassert")[0]


def test_an_objective_that_would_write_into_x_at_another_point_is_found(comm):
    objective = altered(EVALUATION, lambda _, f, x: (np.clip(x, -9.0, 9.0, out=x), f)[1])(comm)
    with pytest.raises(ValueError, match="read-only"):
        check_gradient(objective, objective.initial_point(3))


@pytest.mark.ranks(1, 2, 3)
def test_the_same_problem_at_any_number_of_ranks_passes(comm):
    check_ranks(SpringProblem, comm)


@pytest.mark.ranks(2, 3)
def test_a_problem_that_depends_on_the_ranks_is_found(comm):
    local = altered(EVALUATION, lambda _, found, x: (float(np.vdot(x, x)), found[1]))(comm)
    with pytest.raises(NumericalError, match="differs between ranks"):
        check_gradient(local, local.initial_point(3))
    counted = altered(EVALUATION, lambda self, f, x: (f[0] + sum_over_ranks(self.comm, 1.0), f[1]))
    with pytest.raises(AssertionError, match=f"the value is .* on {comm.size} ranks"):
        check_ranks(counted, comm)
    starts = altered(
        "initial_point", lambda _, x, seed: np.random.default_rng(seed).standard_normal(x.shape)
    )
    with pytest.raises(AssertionError, match=r"Layout\.random_normal"):
        check_ranks(starts, comm)


class Rayleigh(Objective, StiefelVariable):
    """Half the trace of X'AX, A diagonal, the rows distributed or replicated."""

    def __init__(self, comm, replicated=False):
        super().__init__(comm, Layout(MPI.COMM_SELF if replicated else comm, 17, 3))

    def initial_point(self, seed):
        x = super().initial_point(seed)
        return self.manifold.retract(x, np.zeros_like(x), 0.0)

    def value_and_gradient(self, x):
        gradient = np.arange(self.layout.start, self.layout.stop)[:, None] * x
        return 0.5 * self.layout.dot(gradient, x), gradient


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("replicated", [False, True])
def test_the_stiefel_manifold_passes(comm, replicated):
    objective = Rayleigh(comm, replicated)
    x = objective.initial_point(0)
    check_manifold(objective, x)
    whole = objective.layout.gather_rows(x)
    np.testing.assert_allclose(whole.T @ whole, np.eye(3), atol=1e-14)


#: Methods of a manifold that break a law, and what is said of them.
BROKEN = [
    ("project", lambda self, x, u: 0.9 * Stiefel.project(self, x, u), "projecting twice differs"),
    ("retract", lambda self, x, u, step: Stiefel.retract(self, x, u, 2.0 * step),
     "does not set out along the tangent"),
    ("retract", lambda self, x, u, step: x + step * u, "away from the manifold"),
]  # fmt: skip


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(("method", "wrong", "message"), BROKEN)
def test_a_law_that_is_broken_is_named(comm, method, wrong, message):
    class Wrong(Rayleigh):
        manifold = property(lambda self: type("Broken", (Stiefel,), {method: wrong})(self.layout))

    objective = Wrong(comm)
    x = Rayleigh(comm).initial_point(0)
    with pytest.raises(AssertionError, match=message):
        check_manifold(objective, x)
