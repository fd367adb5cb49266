"""Objectives and preconditioners that the tests of this folder share."""

import numpy as np
import pytest

from thalweg.engines.hessian import HessianProduct
from thalweg.interfaces import Preconditioner, RowObjective
from thalweg.parallel import MPI, Layout, sum_over_ranks


class Quadratic(RowObjective, HessianProduct):
    """``sum w x^2 / 2``, eigenvalues spread evenly in the logarithm from 1 to ``condition``."""

    def __init__(self, comm, rows=20, columns=2, condition=1e3, power=1.0):
        super().__init__(comm, Layout(comm, rows, columns))
        spread = np.logspace(0, np.log10(condition), rows * columns).reshape(rows, columns)
        self.weights = self.layout.local(spread) ** power

    def rows_value_and_gradient(self, rows, gradient):
        gradient[...] = self.weights * rows
        return 0.5 * sum_over_ranks(self.comm, float(np.sum(gradient * rows)))

    def hessian_product(self, x, direction, product):
        with self.layout.writing(product) as rows:
            rows[...] = self.weights * self.layout.reading(direction)


class Rosenbrock(RowObjective, HessianProduct):
    """A sum of two-dimensional Rosenbrock functions, one per row."""

    def __init__(self, comm, rows=7):
        super().__init__(comm, Layout(comm, rows, 2))

    def initial_point(self, seed):
        start = np.tile([-1.2, 1.0], (self.layout.local_rows, 1))
        return self.layout.vec_from(start + self.layout.random_normal(seed, 0.1))

    def rows_value_and_gradient(self, rows, gradient):
        a, b = rows[:, 0], rows[:, 1]
        t = b - a * a
        gradient[:, 0] = -400 * a * t - 2 * (1 - a)
        gradient[:, 1] = 200 * t
        return sum_over_ranks(self.comm, float(np.sum(100 * t * t + (1 - a) ** 2)))

    def hessian_product(self, x, direction, product):
        rows, v = self.layout.reading(x), self.layout.reading(direction)
        a, b = rows[:, 0], rows[:, 1]
        with self.layout.writing(product) as out:
            out[:, 0] = (1200 * a * a - 400 * b + 2) * v[:, 0] - 400 * a * v[:, 1]
            out[:, 1] = -400 * a * v[:, 0] + 200 * v[:, 1]


class Chain(RowObjective, HessianProduct):
    """A chain of particles in a double well: nonconvex, rows coupled over the ranks."""

    def __init__(self, comm, rows=11, columns=2, coupling=5.0):
        super().__init__(comm, Layout(comm, rows, columns))
        self.coupling = coupling

    def length_scale(self, x):
        return float(np.abs(self.layout.gather(x)).max())

    def _bent(self, rows):
        whole = self.layout.gather_rows(rows)
        padded = np.vstack([whole[:1], whole, whole[-1:]])
        bent = 2 * whole - padded[:-2] - padded[2:]
        return self.coupling * self.layout.local(bent)

    def rows_value_and_gradient(self, rows, gradient):
        bent = self._bent(rows)
        gradient[...] = rows**3 - rows + bent
        energy = 0.25 * rows**4 - 0.5 * rows**2 + 0.5 * rows * bent
        return sum_over_ranks(self.comm, float(np.sum(energy)))

    def hessian_product(self, x, direction, product):
        rows, v = self.layout.reading(x), self.layout.reading(direction)
        curved = (3 * rows**2 - 1) * v + self._bent(np.array(v))
        with self.layout.writing(product) as out:
            out[...] = curved


class Fit(RowObjective):
    """A nonlinear fit: the variable replicated, the samples shared out over the ranks."""

    def __init__(self, comm, samples=30, unknowns=6):
        super().__init__(comm, Layout(MPI.COMM_SELF, unknowns, 1))
        own = Layout(comm, samples, unknowns)
        self.inputs = own.random_normal(3)
        self.targets = np.tanh(self.inputs.sum(axis=1))

    def rows_value_and_gradient(self, rows, gradient):
        output = np.tanh(self.inputs @ rows[:, 0])
        misfit = output - self.targets
        gradient[:, 0] = sum_over_ranks(self.comm, self.inputs.T @ (misfit * (1 - output**2)))
        return 0.5 * sum_over_ranks(self.comm, float(misfit @ misfit))


class Weights(Preconditioner):
    """The exact inverse Hessian of a quadratic."""

    def setup(self, objective, x):
        self.layout, self.weights = objective.layout, objective.weights

    def apply(self, residual, direction):
        with self.layout.writing(direction) as rows:
            rows[...] = self.layout.reading(residual) / self.weights


class Remembering(Preconditioner):
    """Depends on how often it was applied, as an inner solver with a warm start does."""

    def setup(self, objective, x):
        self.count = 0

    def apply(self, residual, direction):
        self.count += 1
        residual.copy(direction)
        direction.scale(1.0 + 0.5 / self.count)

    def state(self):
        return {"count": self.count}

    def restore(self, state):
        self.count = int(state["count"])


@pytest.fixture
def quadratic():
    """Class of an ill-conditioned quadratic."""
    return Quadratic


@pytest.fixture
def rosenbrock():
    """Class of a curved valley."""
    return Rosenbrock


@pytest.fixture
def chain():
    """Class of a nonconvex objective whose rows are coupled."""
    return Chain


@pytest.fixture
def fit():
    """Class of an objective with a replicated variable."""
    return Fit


@pytest.fixture
def exact_inverse():
    """Class of a preconditioner that is a quadratic's Hessian."""
    return Weights


@pytest.fixture
def remembering():
    """Class of a preconditioner with memory."""
    return Remembering


@pytest.fixture
def counted():
    """Make an objective note its evaluations in the list that this returns."""

    def count(objective):
        calls, inner = [], objective.rows_value_and_gradient

        def evaluate(rows, gradient):
            calls.append(1)
            return inner(rows, gradient)

        objective.rows_value_and_gradient = evaluate
        return calls

    return count
