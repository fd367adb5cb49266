"""How a run ends: by a tolerance or a budget; where no step descends, evaluations tell why."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from thalweg.interfaces import ManifoldVariable, Objective, SolverState
from thalweg.parallel import values_of_all_ranks
from thalweg.plugins import Help, check_declared, declared_options
from thalweg.result import Status

#: As which numbers statuses travel between ranks.
STATUSES = tuple(Status)


@dataclass(frozen=True)
class Stop:
    """Stopping rules; None switches one off.

    Attributes
    ----------
    iterations, evaluations
        Budgets.  An iteration is never cut short, so a line search may overrun.
    epochs
        Budget of epochs of a run with mini-batches; other runs have none.
    seconds
        Budget of wall time, from the start of the run; compiling kernels does not count.
    gradient
        Stop when the Euclidean norm of the gradient is at most this.
    decrease
        Stop when the last ``window`` iterations together lower the objective by at
        most this share of its absolute value.  0 stops only when it is not lowered
        at all.  With mini-batches, epochs count in place of iterations, and the mean of
        their batches' values in place of the objective.
    window
        Number of these iterations: a single small decrease is no convergence.
    """

    iterations: Annotated[int | None, Help("maximum number of iterations", minimum=0)] = 1000
    evaluations: Annotated[int | None, Help("maximum number of evaluations", minimum=1)] = None
    seconds: Annotated[
        float | None, Help("maximum wall time", unit="s", minimum=0, finite=False)
    ] = None
    gradient: Annotated[
        float | None, Help("Euclidean norm of the gradient that ends the run", minimum=0)
    ] = None
    decrease: Annotated[float | None, Help("relative decrease that ends the run", minimum=0)] = 1e-9
    window: Annotated[int, Help("number of iterations that 'decrease' compares", minimum=1)] = 5
    epochs: Annotated[int | None, Help("maximum number of passes over the data", minimum=1)] = None

    def __post_init__(self) -> None:
        check_declared(self)

    def convergence(
        self, values: Sequence[float], gradient_norm: float, error: float = 0.0
    ) -> Status:
        """Status by the rules on tolerances.

        ``values`` are the objective after at least the last ``window + 1`` iterations, the last one
        last; a decrease below their absolute ``error`` says nothing.  The norm may be NaN.
        """
        value = values[-1]
        if not math.isfinite(value):
            return Status.DIVERGED
        if self.gradient is not None and gradient_norm <= self.gradient:
            return Status.SMALL_GRADIENT
        if self.decrease is not None and len(values) > self.window:
            before = values[-1 - self.window]
            tolerance = self.decrease * max(abs(before), abs(value))
            if 0 <= before - value <= tolerance:
                return Status.NOISE_LIMIT if error > tolerance > 0 else Status.SMALL_DECREASE
        return Status.RUNNING

    def budget(
        self,
        iterations: int,
        evaluations: int,
        seconds: float,
        epochs: int = 0,
        *,
        share: float = 1.0,
    ) -> Status:
        """Status by the budgets, or by this share of each of them."""
        for limit, used, status in (
            (self.epochs, epochs, Status.EPOCH_LIMIT),
            (self.iterations, iterations, Status.ITERATION_LIMIT),
            (self.evaluations, evaluations, Status.EVALUATION_LIMIT),
        ):
            if limit is not None and used >= int(share * limit):
                return status
        if self.seconds is not None and seconds >= share * self.seconds:
            return Status.TIME_LIMIT
        return Status.RUNNING


#: The rules as options of a configuration's ``[stop]`` and of :func:`thalweg.minimize`.
#: In a file the word ``"none"`` switches off a rule that holds by default.
STOP_OPTIONS = declared_options(Stop)


# -- a run that found no step that descends: do value and gradient belong together? -------------

#: Predicted change, in errors of the value, from which on it must show; chosen by hand.
FAR = 1e4

#: Share of the predicted change that a value must show on one of the two sides; chosen by hand.
SHARE = 0.25

#: Decades of steps over which a slope must contradict the gradient (smooth noise does over three),
#: and all of them over which a value must not change.
OPPOSED, FLAT = 4, 3

#: Relative decrease that no solver may leave behind; at these multiples of the step that promises
#: it, which noise does not pass alike, a tenth of what is promised must show.
LEFT, MULTIPLES = 1e-6, (1.0, 3.0, 10.0)


def confirmed(
    objective: Objective, state: SolverState, status: Status, values: Sequence[float], lost: bool
) -> tuple[Status, int]:
    """Evaluate again where a solver found no descent, to tell faults from noise.  Collective.

    An objective that is no longer finite makes every step fail, and so does a gradient that is not
    that of the value, or a value other than the one beside the gradient.  Steps that the edge of
    its domain cuts short gain little, too: ``lost`` tells that values were not finite lately.
    Returns the status as rank 0 has it, and the number of evaluations.
    """
    flat = status is Status.SMALL_DECREASE and min(values) == max(values)
    stuck = flat or status is Status.PRECISION_LIMIT
    if not (stuck or (lost and status is Status.SMALL_DECREASE)) or state.gradient is None:
        return status, 0
    value, gradient = objective.value_and_gradient(state.x)
    evaluations, norm = 1, objective.layout.norm
    error = float(objective.value_error(state.value))

    norms = np.array([norm(gradient), max(1.0, norm(state.x))])
    slope, size = values_of_all_ranks(objective.comm, norms)[0].tolist()

    def change(distance: float) -> float:
        nonlocal evaluations
        evaluations += 1
        return objective.value(state.x + distance * (gradient / slope)) - value

    if not (math.isfinite(value) and math.isfinite(slope)):
        status = Status.DIVERGED
    elif abs(change(0.0)) > 1e3 * error + LEFT * abs(value):
        status = Status.INCONSISTENT
    elif not isinstance(objective, ManifoldVariable):  # which is not to be moved along its gradient
        if lost and falls_to_an_edge(change, error, slope, size):
            status = Status.DIVERGED
        elif stuck and (along := status_along_gradient(change, value, error, slope, size)).failed:
            status = along
        elif stuck and not flat and error > 2.0 * Objective.value_error(objective, state.value):
            status = Status.NOISE_LIMIT
    return STATUSES[values_of_all_ranks(objective.comm, STATUSES.index(status))[0]], evaluations


def falls_to_an_edge(
    change: Callable[[float], float], error: float, norm: float, size: float
) -> bool:
    """Whether the value falls, as its gradient says, up to where it is not finite.

    The arguments are those of :func:`status_along_gradient`.
    """
    step, fallen = size, change(-size) if norm > 0.0 else 0.0
    while not math.isfinite(fallen) and step > 2.0**-52 * size:
        step *= 0.1
        fallen = change(-step)
    # An edge beyond which nothing is finite may be nearer than the next number.
    return step < size and not fallen > -max(SHARE * step * norm, 2.0 * error)


def status_along_gradient(
    change: Callable[[float], float], value: float, error: float, norm: float, size: float
) -> Status:
    """What values along the gradient say of a solver that found no lower one.

    At small steps a value rises along the gradient as that predicts, and a convex one by more at
    any.  Where over some decades of steps it has the same slope on both sides, negative or a small
    part of the predicted one, or no step at all changes it, the status is ``INCONSISTENT``; noise
    that the objective does not state and single precision look like neither.  It is ``FAILED``
    where steps against the gradient lower the value by far, else ``PRECISION_LIMIT``.

    ``change`` gives the change of the value at a distance along the gradient; ``norm`` and
    ``size`` are the norms of the gradient, whose square may vanish, and of the variable.
    """
    if not norm > 0.0:
        return Status.PRECISION_LIMIT
    error = max(error, 2.0**-52 * norm * size, 2.0**-1074)  # by rounding of the variable
    step, steps, opposed, flat = FAR * error / norm, 0, 0, 0
    while step <= 0.1 * size:
        steps += 1
        ahead = change(step) / step / norm
        back = ahead if ahead >= SHARE else -change(-step) / step / norm
        if not max(ahead, back) < SHARE:
            break
        mean = 0.5 * (ahead + back)
        opposed = opposed + 1 if abs(ahead - back) < max(-mean, 0.5 * mean) else 0
        flat += max(abs(ahead), abs(back)) < 1e-3
        if opposed == OPPOSED:
            return Status.INCONSISTENT
        step *= 10.0
    if flat == steps >= FLAT:
        return Status.INCONSISTENT
    promised = LEFT * abs(value)
    if promised <= FAR * error:  # its terms may cancel: take what the whole variable promises
        promised = LEFT * norm * size
    steps_left = [multiple * promised for multiple in MULTIPLES]
    if FAR * error < promised < math.inf and all(
        change(-predicted / norm) < -0.1 * predicted for predicted in steps_left
    ):
        return Status.FAILED
    return Status.PRECISION_LIMIT
