"""An adaptive homotopy follows the minima by tangents, and its steps follow their error."""

import numpy as np
import pytest

import thalweg
from thalweg.driver import HomotopySchedule, Stop
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import Preconditioner

LOGARITHMIC = HomotopySchedule.logarithmic(1.0, 27.0, 9).values


class Diagonal(Preconditioner):
    """The Hessian of a bowl."""

    def setup(self, objective, x):
        self.weights = 1.0 + np.arange(objective.layout.start, objective.layout.stop)[:, None]

    def apply(self, residual):
        return residual / self.weights


@pytest.fixture
def counted(bowl):
    """A bowl that counts what it is asked, without Hessian products and with them."""

    class Counted(bowl):
        evaluations = products = 0

        def value_and_gradient(self, x):
            self.evaluations += 1
            return super().value_and_gradient(x)

    class WithProducts(Counted, HessianProduct):
        def hessian_product(self, x, direction):
            self.products += 1
            return (1.0 + np.arange(self.layout.start, self.layout.stop)[:, None]) * direction

    return Counted, WithProducts


def followed(objective, values, **given):
    rules = {"solver": "gradient-descent", "preconditioner": Diagonal(), "decrease": 1e-12, **given}
    schedule = HomotopySchedule(values, Stop(decrease=1e-6, window=1), 0.1)
    return thalweg.minimize(objective, np.zeros(objective.layout.shape), homotopy=schedule, **rules)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("products", "values"), [(True, (1.0, 1.7, 27.0)), (True, LOGARITHMIC), (False, LOGARITHMIC)]
)  # fmt: skip
def test_steps_follow_the_error_of_what_is_predicted(comm, counted, products, values):
    objective = counted[products](comm)
    result = followed(objective, values)
    np.testing.assert_allclose(result.x, 27.0, rtol=1e-6)
    minima = np.unique(result.trace["lambda"])
    assert (minima[0], minima[-1]) == (1.0, 27.0)
    ratio = minima[1:] / minima[:-1]
    # The tangent is one in the logarithm of the parameter.
    errors = ratio - 1.0 - products * np.log(ratio)
    assert errors.max() <= 0.2
    assert errors[1:-1].min() > 0.02
    tried = set(objective.visited) - set(minima)
    assert len(tried) == (values != LOGARITHMIC or not products)  # a step that was too long
    assert result.evaluations == objective.evaluations
    assert result.trace["tangent_products"][-1] == objective.products
    assert (objective.products > 0) == products


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("stopped_at", [3, 6])
def test_an_adaptive_homotopy_resumes_to_the_bit(comm, counted, folder, stopped_at):
    options = {"solver": "lbfgs", "iterations": 30}
    whole = followed(counted[True](comm), LOGARITHMIC, **options)
    options["checkpoint"] = folder
    stop = {"callback": lambda at: at.iteration == stopped_at}
    followed(counted[True](comm), LOGARITHMIC, **options, **stop)
    resumed = followed(counted[True](comm), LOGARITHMIC, **options, resume=True)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert len(np.unique(whole.trace["stage"] % 1.0)) > 2
    for column in ("evaluations", "objective", "stage", "lambda", "tangent_products"):
        np.testing.assert_array_equal(resumed.trace[column], whole.trace[column])


def test_an_adaptive_homotopy_needs_two_values_and_a_metric(comm, counted):
    with pytest.raises(
        InputError, match=r"two values or more, and an error .* not \[1.0\] and 0.1"
    ):
        followed(counted[True](comm), (1.0,))
    for given in ({"preconditioner": "identity"}, {"solver": "scipy:CG", "preconditioner": None}):
        with pytest.raises(InputError, match="in the metric of a preconditioner: choose"):
            followed(counted[True](comm), (1.0, 27.0), **given)
