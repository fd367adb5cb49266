"""The objective along one direction, as the line searches see it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from thalweg.interfaces import Objective
from thalweg.parallel import Array, agreed

#: Changes below this share of the objective are lost in rounding.
ROUNDING = 1e-11


@dataclass(frozen=True)
class Trial:
    """One point of the line.

    Attributes
    ----------
    step
        Multiple of the direction, positive.
    value
        Objective there; infinite where it is not a finite number.
    slope
        Derivative along the line; NaN if it was not computed or is not finite.
    x, gradient
        The point, and the gradient there where the slope is known.
    """

    step: float
    value: float
    slope: float = math.nan
    x: Array | None = None
    gradient: Array | None = None


class LineFunction:
    """``phi(step) = E(x + step p)``; counts evaluations.

    Parameters
    ----------
    objective
        The function E.
    x, value
        Start of the line, and E there.
    direction, slope
        p, and the derivative ``phi'(0) < 0``.
    longest
        Largest step allowed.

    Attributes
    ----------
    rounding, noise
        Absolute error of a value by rounding, and what the objective's own error is
        beyond that.
    finite
        Whether the objective was finite at the point evaluated last.
    """

    def __init__(
        self,
        objective: Objective,
        x: Array,
        value: float,
        direction: Array,
        slope: float,
        longest: float,
    ) -> None:
        self.objective = objective
        self.x = x
        self.direction = direction
        self.start = Trial(0.0, value, slope)
        self.longest = longest
        self.evaluations = 0
        self.rounding = ROUNDING * abs(value)
        self.noise = max(0.0, objective.value_error(value) - self.rounding)
        self.finite = True

    def evaluate(self, step: float, gradient: bool = True) -> Trial:
        """Try a step.  Collective.

        With the gradient it costs one evaluation; a trial without one costs another when it
        is to have one.
        """
        x = self.x + step * self.direction
        trial = Trial(step, math.inf, x=x)
        if gradient:
            return self.with_gradient(trial)
        self.evaluations += 1
        value = self.objective.value(x)
        self.finite = math.isfinite(value)
        return replace(trial, value=value) if self.finite else trial

    def with_gradient(self, trial: Trial) -> Trial:
        """The trial with its gradient, evaluated unless it has one.  Collective."""
        if trial.gradient is not None:
            return trial
        assert trial.x is not None
        self.evaluations += 1
        value, gradient = self.objective.value_and_gradient(trial.x)
        slope = math.nan
        if math.isfinite(value):
            dot = self.objective.layout.dot
            slope = agreed(self.objective.comm, dot(gradient, self.direction))
        self.finite = math.isfinite(slope)
        if not self.finite:
            return replace(trial, value=math.inf)
        return replace(trial, value=value, slope=slope, gradient=gradient)
