"""Whether value and gradient belong together, where a solver found no step that descends."""

from __future__ import annotations

import math
from collections.abc import Callable

from thalweg.result import Status

#: Predicted change, in errors of the value, from which on it must show.
FAR = 1e4

#: Share of the predicted change that a value must show on one of the two sides.
SHARE = 0.25

#: Decades of steps over which a slope must contradict the gradient.
DECADES = 3

#: Relative decrease that no solver may leave behind; at these multiples of the step that promises
#: it, which noise does not pass alike, a tenth of what is promised must show.
LEFT, MULTIPLES = 1e-6, (1.0, 3.0, 10.0)


def status_along_gradient(
    change: Callable[[float], float], value: float, error: float, norm: float, size: float
) -> Status:
    """What values along the gradient say of a solver that found no lower one.

    At small steps a value rises along the gradient as that predicts, and a convex one by more at
    any.  Where over some decades of steps it has the same slope on both sides, negative or a small
    part of the predicted one, or no step at all changes it, the status is ``INCONSISTENT``; noise
    that the objective does not state and single precision look like neither.  It is ``FAILED``
    where steps against the gradient lower the value by far, else ``PRECISION_LIMIT``.

    Parameters
    ----------
    change
        Change of the value by a multiple of the gradient.
    norm, size
        Norm of the gradient, and of the variable.
    """
    if not 0.0 < norm**2 < math.inf:
        return Status.PRECISION_LIMIT
    error = max(error, 2.0**-52 * norm * size)  # by rounding of the variable
    step, steps, opposed, flat = FAR * error / norm**2, 0, 0, 0
    while step * norm <= 0.1 * size:
        steps += 1
        ahead = change(step) / (step * norm**2)
        back = ahead if ahead >= SHARE else -change(-step) / (step * norm**2)
        if not max(ahead, back) < SHARE:
            break
        mean = 0.5 * (ahead + back)
        opposed = opposed + 1 if abs(ahead - back) < max(-mean, 0.5 * mean) else 0
        flat += max(abs(ahead), abs(back)) < 1e-3
        if opposed == DECADES:
            return Status.INCONSISTENT
        step *= 10.0
    if flat == steps >= DECADES:
        return Status.INCONSISTENT
    wanted = LEFT * abs(value)
    if wanted <= FAR * error:  # its terms may cancel: take what the whole variable promises
        wanted = LEFT * norm * size
    steps_left = [multiple * wanted for multiple in MULTIPLES]
    if FAR * error < wanted < math.inf and all(
        change(-predicted / norm**2) < -0.1 * predicted for predicted in steps_left
    ):
        return Status.FAILED
    return Status.PRECISION_LIMIT
