"""The same answer on one rank and on several."""

from collections.abc import Callable

import numpy as np

from thalweg.interfaces import Objective
from thalweg.parallel import MPI


def check_ranks(
    build: Callable[[MPI.Comm], Objective], comm: MPI.Comm, *, tolerance: float = 1e-9
) -> None:
    """Check that an objective does not depend on the number of ranks.  Collective.

    Parameters
    ----------
    build
        Called with a communicator, it returns the objective on those ranks.  It
        is called with ``comm``, and by each rank with ``MPI.COMM_SELF``.
    tolerance
        Largest relative difference of values and gradients.

    Raises
    ------
    AssertionError
        Starting point, value or gradient differ between one rank and ``comm``.
    """
    shared, alone = build(comm), build(MPI.COMM_SELF)
    x, y = shared.initial_point(0), alone.initial_point(0)
    here, whole = shared.layout.gather_rows(x), alone.layout.gather_rows(y)
    ranks = f"{comm.size} ranks"
    assert here.shape == whole.shape, (
        f"the variable has shape {here.shape} on {ranks} and {whole.shape} on one"
    )
    gap = _relative(here, whole)
    assert gap <= 1e-12, (
        f"the starting point on {ranks} differs from that on one by {gap:.1e} relative: draw it "
        f"with Layout.random_normal"
    )
    value, gradient = shared.value_and_gradient(x)
    reference, slopes = alone.value_and_gradient(y)
    gap = abs(value - reference) / max(abs(reference), 1e-300)
    assert gap <= tolerance, (
        f"the value is {value!r} on {ranks} and {reference!r} on one: {gap:.1e} relative"
    )
    gap = _relative(shared.layout.gather_rows(gradient), slopes)
    assert gap <= tolerance, (
        f"the gradient on {ranks} differs from that on one by {gap:.1e} relative"
    )


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(b)), 1e-300)
