"""Objectives and preconditioners that the tests of this folder share."""

import numpy as np
import pytest

from thalweg.engines.hessian import HessianProduct
from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import MPI, Layout, sum_over_ranks


class Quadratic(Objective, HessianProduct):
    """``sum w x^2 / 2``, eigenvalues spread evenly in the logarithm from 1 to ``condition``."""

    def __init__(self, comm, rows=20, columns=2, condition=1e3, power=1.0):
        super().__init__(comm, Layout(comm, rows, columns))
        spread = np.logspace(0, np.log10(condition), rows * columns).reshape(rows, columns)
        self.weights = self.layout.local(spread) ** power

    def value_and_gradient(self, x):
        gradient = self.weights * x
        return 0.5 * sum_over_ranks(self.comm, float(np.sum(gradient * x))), gradient

    def hessian_product(self, x, direction):
        return self.weights * direction


class Rosenbrock(Objective, HessianProduct):
    """A sum of two-dimensional Rosenbrock functions, one per row."""

    def __init__(self, comm, rows=7):
        super().__init__(comm, Layout(comm, rows, 2))

    def initial_point(self, seed):
        return np.array([-1.2, 1.0]) + self.layout.random_normal(seed, 0.1)

    def value_and_gradient(self, x):
        a, b = x.T
        t = b - a * a
        value = sum_over_ranks(self.comm, float(np.sum(100 * t * t + (1 - a) ** 2)))
        return value, np.column_stack([-400 * a * t - 2 * (1 - a), 200 * t])

    def hessian_product(self, x, direction):
        (a, b), (u, v) = x.T, direction.T
        first = (1200 * a * a - 400 * b + 2) * u - 400 * a * v
        return np.column_stack([first, -400 * a * u + 200 * v])


class Chain(Objective, HessianProduct):
    """A chain of particles in a double well: nonconvex, rows coupled over the ranks."""

    def __init__(self, comm, rows=11, columns=2, coupling=5.0):
        super().__init__(comm, Layout(comm, rows, columns))
        self.coupling = coupling

    def length_scale(self, x):
        return float(np.abs(self.layout.gather_rows(x)).max())

    def _bent(self, rows):
        whole = self.layout.gather_rows(rows)
        padded = np.vstack([whole[:1], whole, whole[-1:]])
        return self.coupling * self.layout.local(2 * whole - padded[:-2] - padded[2:])

    def value_and_gradient(self, x):
        bent = self._bent(x)
        energy = 0.25 * x**4 - 0.5 * x**2 + 0.5 * x * bent
        return sum_over_ranks(self.comm, float(np.sum(energy))), x**3 - x + bent

    def hessian_product(self, x, direction):
        return (3 * x**2 - 1) * direction + self._bent(direction)


class Fit(Objective):
    """A nonlinear fit: the variable replicated, the samples shared out over the ranks."""

    def __init__(self, comm, samples=30, unknowns=6):
        super().__init__(comm, Layout(MPI.COMM_SELF, unknowns, 1))
        self.inputs = Layout(comm, samples, unknowns).random_normal(3)
        self.targets = np.tanh(self.inputs.sum(axis=1))

    def value_and_gradient(self, x):
        output = np.tanh(self.inputs @ x[:, 0])
        misfit = output - self.targets
        gradient = sum_over_ranks(self.comm, self.inputs.T @ (misfit * (1 - output**2)))
        return 0.5 * sum_over_ranks(self.comm, float(misfit @ misfit)), gradient[:, None]


class Weights(Preconditioner):
    """The exact inverse Hessian of a quadratic."""

    def setup(self, objective, x):
        self.weights = objective.weights

    def apply(self, residual):
        return residual / self.weights


class Remembering(Preconditioner):
    """Depends on how often it was applied, as an inner solver with a warm start does."""

    def setup(self, objective, x):
        self.count = 0

    def apply(self, residual):
        self.count += 1
        return (1.0 + 0.5 / self.count) * residual

    def state(self):
        return {"count": self.count}

    def restore(self, state):
        self.count = int(state["count"])


def fixture_of(kind):
    """A fixture that is a class."""
    return pytest.fixture(lambda: kind)


quadratic, rosenbrock, chain, fit = map(fixture_of, (Quadratic, Rosenbrock, Chain, Fit))
exact_inverse, remembering = map(fixture_of, (Weights, Remembering))


@pytest.fixture
def counted():
    """Make an objective note its evaluations in the list that this returns."""

    def count(objective):
        calls, inner = [], objective.value_and_gradient

        def evaluate(x):
            calls.append(1)
            return inner(x)

        objective.value_and_gradient = evaluate
        return calls

    return count
