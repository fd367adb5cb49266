"""What a preconditioner must be: symmetric, positive definite, linear, the same every time."""

from __future__ import annotations

import copy

import numpy as np

from thalweg.interfaces import Objective, Preconditioner, missing_capabilities
from thalweg.parallel import PETSc
from thalweg.testing.probes import copied, poisoned, random_direction, same_bits


def check_preconditioner(
    preconditioner: Preconditioner,
    objective: Objective,
    x: PETSc.Vec,
    *,
    tolerance: float = 1e-6,
    probes: int = 4,
    seed: int = 0,
) -> None:
    """Set a preconditioner up at ``x`` and probe it with random vectors.  Collective.

    One with a memory, whose ``state`` is not empty, may give another direction
    each time, as an inner iteration that starts from the last one does: it must
    go downhill and be restored exactly, and is not probed for the rest.

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
    assert not missing, f"it needs a {missing[0].phrase}, which the objective does not offer"
    preconditioner.setup(objective, x)
    preconditioner.update(x)
    residuals = [random_direction(objective, seed + number) for number in range(probes)]
    directions = [_apply(preconditioner, residual) for residual in residuals]
    for residual, direction in zip(residuals, directions, strict=True):
        size = residual.norm() * direction.norm()
        product = residual.dot(direction)
        assert product > 0, (
            f"it is not positive definite: r'B⁻¹r is {product:.3e} for a random r, "
            f"{product / max(size, 1e-300):.1e} relative"
        )
    if preconditioner.state():
        _check_memory(preconditioner, objective, x, residuals[0])
    else:
        _check_linear(preconditioner, residuals, directions, tolerance)
    for vec in (*residuals, *directions):
        vec.destroy()


def _check_linear(
    preconditioner: Preconditioner,
    residuals: list[PETSc.Vec],
    directions: list[PETSc.Vec],
    tolerance: float,
) -> None:
    """The same every time, symmetric, linear."""
    for residual, direction in zip(residuals, directions, strict=True):
        again = _apply(preconditioner, residual)
        assert same_bits(again, direction), "it gives another direction for the same residual"
        again.destroy()
    u, v = residuals[:2]
    bu, bv = directions[:2]
    gap = abs(u.dot(bv) - v.dot(bu)) / max(u.norm() * bv.norm(), v.norm() * bu.norm())
    assert gap <= tolerance, (
        f"it is not symmetric: u'B⁻¹v and v'B⁻¹u differ by {gap:.1e} relative, more than "
        f"{tolerance:.0e}"
    )
    both = copied(u)
    both.axpy(-3.0, v)
    joined = _apply(preconditioner, both)
    separate = copied(bu)
    separate.axpy(-3.0, bv)
    joined.axpy(-1.0, separate)
    gap = joined.norm() / separate.norm()
    assert gap <= tolerance, (
        f"it is not linear: B⁻¹(u - 3v) differs from B⁻¹u - 3B⁻¹v by {gap:.1e} relative, more "
        f"than {tolerance:.0e}"
    )
    for vec in (both, joined, separate):
        vec.destroy()


def _apply(preconditioner: Preconditioner, residual: PETSc.Vec) -> PETSc.Vec:
    before = copied(residual)
    direction = poisoned(residual)
    preconditioner.apply(residual, direction)
    assert same_bits(residual, before), "apply changes the residual"
    size = direction.norm()
    assert np.isfinite(size), "apply gives entries that are not finite"
    assert size < 1e70, "apply adds to the direction it is given, or leaves it as it is"
    before.destroy()
    return direction


def _check_memory(
    preconditioner: Preconditioner, objective: Objective, x: PETSc.Vec, residual: PETSc.Vec
) -> None:
    """A preconditioner that is set up anew and takes back its state acts as before."""
    state = {
        name: copied(value) if isinstance(value, PETSc.Vec) else copy.deepcopy(value)
        for name, value in preconditioner.state().items()
    }
    # As the driver does it: a step updates first, whether the run was resumed or not.
    preconditioner.update(x)
    direction = _apply(preconditioner, residual)
    preconditioner.setup(objective, x)
    preconditioner.restore(state)
    preconditioner.update(x)
    again = _apply(preconditioner, residual)
    assert same_bits(again, direction), (
        "set up anew and restored from its state, it gives another direction: a resumed run would "
        "not go on to the same bits"
    )
    for vec in (again, direction):
        vec.destroy()
