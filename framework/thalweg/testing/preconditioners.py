"""Checks of preconditioners: symmetric, positive definite, linear, the same every time."""

import copy

import numpy as np

from thalweg.interfaces import Objective, Preconditioner, missing_capabilities
from thalweg.parallel import Array
from thalweg.testing.probes import applied, check_symmetric, random_direction, same_bits


def check_preconditioner(
    preconditioner: Preconditioner,
    objective: Objective,
    x: Array,
    *,
    tolerance: float = 1e-6,
) -> None:
    """Set a preconditioner up at ``x`` and probe it with random vectors.  Collective.

    One with a memory, whose ``state`` is not empty, may give another direction
    each time, as an inner iteration that starts from the last one does: it must
    be a descent direction and be restored exactly, and is not probed for the rest.

    Parameters
    ----------
    tolerance
        Largest relative error of symmetry and linearity; an inner iteration
        leaves some.

    Raises
    ------
    AssertionError
        One sentence that says what is wrong and by how much.
    """
    missing = missing_capabilities(objective, preconditioner.requires)
    assert not missing, f"it needs {missing[0].described()}, which the objective does not offer"
    preconditioner.setup(objective, x)
    preconditioner.update(x)
    residuals = [random_direction(objective, seed) for seed in range(4)]
    layout, apply = objective.layout, preconditioner.apply
    directions = [applied(apply, layout, residual, "apply") for residual in residuals]
    reused = np.may_share_memory(directions[0], directions[-1])
    assert not reused, "apply returns the array of the call before: return a new one"
    for residual, direction in zip(residuals, directions, strict=True):
        size = layout.norm(residual) * layout.norm(direction)
        product = layout.dot(residual, direction)
        assert product > 0, (
            f"it is not positive definite: r'B⁻¹r is {product:.3e} for a random r, "
            f"{product / max(size, 1e-300):.1e} relative"
        )
    if preconditioner.state():
        _check_memory(preconditioner, objective, x, residuals[0])
    else:
        for residual, direction in zip(residuals, directions, strict=True):
            again = applied(apply, layout, residual, "apply")
            same = same_bits(layout.comm, again, direction)
            assert same, "it gives another direction for the same residual"
        check_symmetric(apply, layout, residuals[0], residuals[1], "apply", tolerance)


def _check_memory(
    preconditioner: Preconditioner, objective: Objective, x: Array, residual: Array
) -> None:
    """A preconditioner that is set up anew and takes back its state acts as before."""
    state = copy.deepcopy(preconditioner.state())
    layout, apply = objective.layout, preconditioner.apply
    # As the driver does it: a step updates first, whether the run was resumed or not.
    preconditioner.update(x)
    direction = applied(apply, layout, residual, "apply")
    preconditioner.setup(objective, x)
    preconditioner.restore(state)
    preconditioner.update(x)
    again = applied(apply, layout, residual, "apply")
    assert same_bits(layout.comm, again, direction), (
        "set up anew and restored from its state, it gives another direction: a resumed run would "
        "not go on to the same bits"
    )
