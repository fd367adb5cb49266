"""The objective along one direction, and the interface of searches on it."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from thalweg.interfaces import Objective
from thalweg.parallel import Array, agreed

#: Changes below this share of the objective are lost in rounding.
ROUNDING = 1e-11

#: Where values differ by less than their error, a step must leave at most this share of the slope.
FLATTER = 0.9


@dataclass(frozen=True)
class Trial:
    """One point of the line."""

    step: float  # multiple of the direction, positive
    value: float  # objective there; infinite where it is not a finite number
    slope: float = math.nan  # derivative along the line; NaN if not computed or not finite
    x: Array | None = None  # the point
    gradient: Array | None = None  # there, where the slope is known


class LineFunction:
    """``phi(step) = E(x + step p)``; counts evaluations.

    E is the objective, ``value`` its value at x, p the direction, ``slope`` the derivative
    ``phi'(0) < 0``, and ``longest`` the largest step allowed.
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
        self.objective, self.x, self.direction = objective, x, direction
        self.start, self.longest = Trial(0.0, value, slope), longest
        self.evaluations = 0
        self.finite = True  # whether the objective was so at the point evaluated last
        #: Absolute error of a value by rounding, and what its own error is beyond that.
        self.rounding = ROUNDING * abs(value)
        self.noise = max(0.0, objective.value_error(value) - self.rounding)

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


@dataclass(frozen=True)
class LineSearch(ABC):
    """Chooses a step along a descent direction."""

    armijo: float = 1e-4  # c1 in ``phi(a) <= phi(0) + c1 a phi'(0)``
    trials: int = 40  # most evaluations of one search

    @abstractmethod
    def search(self, line: LineFunction, first: float) -> Trial | None:
        """An accepted trial with its gradient, or None if none was found.  Collective.

        ``first`` is the step to try first.  An accepted value is never above
        ``phi(0)`` by more than the error of the two values.
        """

    def lowers(self, line: LineFunction, trial: Trial) -> bool:
        """Whether a trial lowers the objective enough.

        Where the predicted decrease is below the error of the values, they say
        little: the slopes decide, as in the approximate Wolfe conditions of Hager and
        Zhang (2005), provided that the value did not rise by more than that error.
        """
        start = line.start
        if trial.value > start.value + 2.0 * line.noise or not math.isfinite(trial.value):
            return False
        bound = start.value + self.armijo * trial.step * start.slope
        if trial.value < start.value and trial.value <= bound:
            return True
        return self.rounds(line, trial) and abs(trial.slope) <= FLATTER * abs(start.slope)

    @staticmethod
    def rounds(line: LineFunction, trial: Trial) -> bool:
        """Whether the change that the slope predicts is within the error of the values."""
        return abs(trial.step * line.start.slope) <= line.rounding + 2.0 * line.noise

    @staticmethod
    def negligible(line: LineFunction, step: float) -> bool:
        """Whether no step up to this one can change the objective in floating point."""
        return abs(step * line.start.slope) <= 1e-18 * abs(line.start.value) or step < 1e-300
