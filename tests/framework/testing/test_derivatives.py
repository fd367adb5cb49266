"""The checks of derivatives pass what is right and say how wrong the rest is."""

import re

import numpy as np
import pytest

from thalweg.parallel import MPI, sum_over_ranks
from thalweg.testing import (
    SpringProblem,
    check_attractive_weights,
    check_capabilities,
    check_gradient,
    check_hessian_diagonal,
    check_hessian_product,
    check_ranks,
)


def refusal(check, objective):
    """What a check says against an objective; it says so on every rank."""
    x = objective.initial_point(3)
    with pytest.raises(AssertionError) as caught:
        check(objective, x)
    text = str(caught.value)
    assert "\n" not in text.split("\nassert")[0]
    return text


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


def test_a_method_of_the_objective_named_check_is_its_own():
    class Checked(SpringProblem):
        def check(self):
            raise AssertionError("called")

    objective = Checked(MPI.COMM_SELF, 5)
    assert "Hessian product" in check_capabilities(objective, objective.initial_point(0))


@pytest.mark.ranks(1, 4)
def test_ranks_without_rows_pass_too(comm):
    objective = SpringProblem(comm, 3, 1)
    x = objective.initial_point(0)
    check_gradient(objective, x)
    check_hessian_product(objective, x)
    check_hessian_diagonal(objective, x)


@pytest.mark.ranks(1, 2)
def test_a_gradient_off_by_a_ten_thousandth_is_found_and_measured(comm):
    class Off(SpringProblem):
        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            return value, 1.0001 * gradient

    text = refusal(check_gradient, Off(comm))
    assert re.search(r"1\.0e-04 relative, more than 1e-06", text)


def test_one_wrong_entry_of_the_gradient_is_found(comm):
    class Off(SpringProblem):
        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            gradient[5, 1] += 1e-3
            return value, gradient

    assert "central differences" in refusal(check_gradient, Off(comm))


def test_values_large_and_small_do_not_disturb(comm):
    class Shifted(SpringProblem):
        shift, factor = 0.0, 1.0

        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            return self.factor * value + self.shift, self.factor * gradient

    for shift, factor in ((1e8, 1.0), (0.0, 1e-12), (0.0, 1e12)):
        objective = Shifted(comm)
        objective.shift, objective.factor = shift, factor
        for size in (1e-4, 1.0, 1e4):
            check_gradient(objective, size * objective.initial_point(0))


def test_values_that_disagree_are_found(comm):
    class Off(SpringProblem):
        def value(self, x):
            return super().value(x) + 1

    assert "value_and_gradient gives" in refusal(check_gradient, Off(comm))


def test_a_gradient_that_lies_where_the_last_one_did_is_found(comm):
    class Reuses(SpringProblem):
        buffer = None

        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            self.buffer = gradient if self.buffer is None else self.buffer
            self.buffer[...] = gradient
            return value, self.buffer

    assert "return a new array" in refusal(check_gradient, Reuses(comm))


def test_a_value_that_is_not_finite_is_found(comm):
    class Infinite(SpringProblem):
        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            return value * np.inf, gradient

    assert "the value at the point checked is inf" in refusal(check_gradient, Infinite(comm))


@pytest.mark.ranks(2, 3)
def test_a_value_that_is_not_summed_over_the_ranks_is_found(comm):
    class Local(SpringProblem):
        def value_and_gradient(self, x):
            return float(np.vdot(x, x)), super().value_and_gradient(x)[1]

    assert "same number on every rank" in refusal(check_gradient, Local(comm))


@pytest.mark.ranks(1, 2)
def test_a_wrong_hessian_product_is_found(comm):
    class Off(SpringProblem):
        def hessian_product(self, x, direction):
            return 1.001 * super().hessian_product(x, direction)

    class Skewed(SpringProblem):
        def hessian_product(self, x, direction):
            return super().hessian_product(x, direction) + [0.1, 0.0] * direction[:, ::-1]

    class Bent(SpringProblem):
        def hessian_product(self, x, direction):
            return super().hessian_product(x, direction) * (1 + 0.1 * self.layout.norm(direction))

    assert re.search(r"1\.0e-03 relative", refusal(check_hessian_product, Off(comm)))
    assert "not symmetric" in refusal(check_hessian_product, Skewed(comm))
    assert re.search("not (linear|symmetric)", refusal(check_hessian_product, Bent(comm)))


@pytest.mark.ranks(1, 2)
def test_a_wrong_hessian_diagonal_is_found(comm):
    class Off(SpringProblem):
        def hessian_diagonal(self, x):
            return 1.01 * super().hessian_diagonal(x)

    assert "of the Hessian diagonal is" in refusal(check_hessian_diagonal, Off(comm))


@pytest.mark.ranks(1, 2)
def test_wrong_weights_are_found(comm):
    class Negative(SpringProblem):
        def attractive_weights(self, x):
            return -self._weights

    class Skewed(SpringProblem):
        def attractive_weights(self, x):
            weights = self._weights.toarray()
            if self.layout.start == 0:
                weights[0, 5] = 1
            return weights

    class Loops(SpringProblem):
        def attractive_weights(self, x):
            weights = self._weights.toarray()
            weights[:, self.layout.start : self.layout.stop] += np.eye(len(weights))
            return weights

    assert "negative" in refusal(check_attractive_weights, Negative(comm))
    assert "not symmetric" in refusal(check_attractive_weights, Skewed(comm))
    assert "diagonal" in refusal(check_attractive_weights, Loops(comm))


@pytest.mark.ranks(1, 2, 3)
def test_the_same_problem_at_any_number_of_ranks_passes(comm):
    check_ranks(SpringProblem, comm)


@pytest.mark.ranks(2, 3)
def test_a_problem_that_depends_on_the_ranks_is_found(comm):
    class Depends(SpringProblem):
        def value_and_gradient(self, x):
            value, gradient = super().value_and_gradient(x)
            return value + float(sum_over_ranks(self.comm, 1.0)), gradient

    class Starts(SpringProblem):
        def initial_point(self, seed):
            return np.random.default_rng(seed).standard_normal(self.layout.shape)

    with pytest.raises(AssertionError, match=f"the value is .* on {comm.size} ranks"):
        check_ranks(Depends, comm)
    with pytest.raises(AssertionError, match=r"Layout\.random_normal"):
        check_ranks(Starts, comm)
