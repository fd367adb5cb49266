"""The Stiefel manifold has the laws of a manifold, and the check finds those who break them."""

import numpy as np
import pytest

from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout
from thalweg.testing import check_manifold
from thalweg_clustering.stiefel import Stiefel, StiefelVariable


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


class Oblique(Stiefel):
    def project(self, x, direction):
        return 0.9 * super().project(x, direction)


class Elsewhere(Stiefel):
    def retract(self, x, direction, step):
        return super().retract(x, direction, 2.0 * step)


class Leaving(Stiefel):
    def retract(self, x, direction, step):
        return x + step * direction


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Oblique, "projecting twice differs"),
        (Elsewhere, "does not set out along the tangent"),
        (Leaving, "away from the manifold"),
    ],
)
def test_a_law_that_is_broken_is_named(comm, kind, message):
    class Wrong(Rayleigh):
        @property
        def manifold(self):
            return kind(self.layout)

    objective = Wrong(comm)
    x = Rayleigh(comm).initial_point(0)
    with pytest.raises(AssertionError, match=message):
        check_manifold(objective, x)
