"""Stopping rules: tolerances and budgets, whichever comes first."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

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
