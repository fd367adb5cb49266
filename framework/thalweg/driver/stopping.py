"""Stopping rules: tolerances and budgets, whichever comes first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thalweg.plugins import Option
from thalweg.result import Status

#: The rules as options of a configuration's ``[stop]`` and of :func:`thalweg.minimize`.
#: In a file the word ``"none"`` switches off a rule that holds by default.
STOP_OPTIONS = (
    Option("iterations", int, 1000, "budget of iterations, or none", minimum=0, optional=True),
    Option("evaluations", int, None, "budget of objective evaluations", minimum=1),
    Option("seconds", float, None, "budget of wall time", unit="s", minimum=0, finite=False),
    Option("gradient", float, None, "Euclidean norm of the gradient to reach", minimum=0),
    Option(
        "decrease",
        float,
        1e-9,
        "relative decrease of one iteration to fall below, or none",
        minimum=0,
        optional=True,
    ),
)


@dataclass(frozen=True)
class Stop:
    """Stopping rules; None switches one off.

    Attributes
    ----------
    iterations, evaluations
        Budgets.  An iteration is never cut short, so a line search may overrun.
    seconds
        Budget of wall time, from the start of the run.
    gradient
        Stop when the Euclidean norm of the gradient is at most this.
    decrease
        Stop when an iteration lowers the objective by at most this share of its
        absolute value.  0 stops only when it is not lowered at all.
    """

    iterations: int | None = 1000
    evaluations: int | None = None
    seconds: float | None = None
    gradient: float | None = None
    decrease: float | None = 1e-9

    def convergence(
        self, value: float, previous: float | None, gradient_norm: float, iterations: int
    ) -> Status:
        """Status by the rules on tolerances."""
        if not math.isfinite(value):
            return Status.DIVERGED
        if self.gradient is not None and gradient_norm <= self.gradient:
            return Status.SMALL_GRADIENT
        if self.decrease is not None and previous is not None and iterations > 0:
            scale = max(abs(previous), abs(value))
            if 0 <= previous - value <= self.decrease * scale:
                return Status.SMALL_DECREASE
        return Status.RUNNING

    def budget(self, iterations: int, evaluations: int, seconds: float) -> Status:
        """Status by the budgets."""
        if self.iterations is not None and iterations >= self.iterations:
            return Status.ITERATION_LIMIT
        if self.evaluations is not None and evaluations >= self.evaluations:
            return Status.EVALUATION_LIMIT
        if self.seconds is not None and seconds >= self.seconds:
            return Status.TIME_LIMIT
        return Status.RUNNING
