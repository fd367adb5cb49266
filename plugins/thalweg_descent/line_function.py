"""The objective along one direction, as the line searches see it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thalweg.interfaces import Objective
from thalweg.parallel import Vector, agreed

#: Changes below this share of the objective are lost in rounding.
ROUNDING = 1e-11


@dataclass(frozen=True)
class Trial:
    """Value and slope at one point of the line.

    Attributes
    ----------
    step
        Multiple of the direction, positive.
    value
        Objective there; infinite where it is not a finite number.
    slope
        Derivative along the line; NaN if it was not computed or is not finite.
    """

    step: float
    value: float
    slope: float = math.nan


class Point:
    """A variable and the gradient there."""

    def __init__(self, x: Vector, gradient: Vector) -> None:
        self.x, self.gradient = x, gradient


class LineFunction:
    """``phi(step) = E(x + step p)``; counts evaluations and keeps the best trial's vectors.

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
    trial, kept
        Space for the point tried last and for the one kept.

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
        x: Vector,
        value: float,
        direction: Vector,
        slope: float,
        longest: float,
        trial: Point,
        kept: Point,
    ) -> None:
        self.objective = objective
        self.x = x
        self.direction = direction
        self.start = Trial(0.0, value, slope)
        self.longest = longest
        self.trial, self.kept = trial, kept
        self.evaluations = 0
        self.rounding = ROUNDING * abs(value)
        self.noise = max(0.0, objective.value_error(value) - self.rounding)
        self.finite = True

    def evaluate(self, step: float, gradient: bool = True) -> Trial:
        """Try a step.  Collective.

        With the gradient it costs one evaluation; a trial without one costs
        another when it is kept.
        """
        self.trial.x.waxpy(step, self.direction, self.x)
        self.evaluations += 1
        if not gradient:
            value = self.objective.value(self.trial.x)
            self.finite = math.isfinite(value)
            return Trial(step, value if self.finite else math.inf)
        value, slope = self._value_and_slope()
        return Trial(step, value, slope) if self.finite else Trial(step, math.inf)

    def keep(self, trial: Trial) -> Trial:
        """Keep the vectors of the trial evaluated last, with its gradient.  Collective."""
        if math.isnan(trial.slope):
            self.evaluations += 1
            trial = Trial(trial.step, *self._value_and_slope())
        self.trial, self.kept = self.kept, self.trial
        return trial

    def _value_and_slope(self) -> tuple[float, float]:
        value = self.objective.value_and_gradient(self.trial.x, self.trial.gradient)
        slope = math.nan
        if math.isfinite(value):
            slope = agreed(self.objective.comm, self.trial.gradient.dot(self.direction))
        self.finite = math.isfinite(slope)
        return value, slope
