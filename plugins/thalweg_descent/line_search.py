"""Searches along one direction: backtracking, and the strong Wolfe conditions."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from thalweg.interfaces import Objective
from thalweg.numerics import parabola_ratio
from thalweg.parallel import Array, agreed

#: Changes below this share of the objective are lost in rounding.
ROUNDING = 1e-11

#: Most of the slope that a step may leave where values differ by less than their error; by hand.
FLATTER = 0.9


@dataclass(frozen=True)
class Trial:
    """One point of the line."""

    step: float  # multiple of the direction, positive but at the start
    value: float  # objective there; infinite where it is not a finite number
    x: Array  # the point
    slope: float = math.nan  # derivative along the line; NaN if not computed or not finite
    gradient: Any = None  # there, where the slope is known


class LineFunction:
    """``phi(step) = E(x + step p)``; counts evaluations.

    E is the objective, p the direction, ``start`` the trial of step 0 at x, of slope
    ``phi'(0) < 0``, and ``longest`` the largest step allowed.
    """

    def __init__(
        self, objective: Objective, direction: Array, start: Trial, longest: float
    ) -> None:
        self.objective, self.direction, self.start = objective, direction, start
        self.longest = longest
        self.evaluations = 0
        self.finite = True  # whether the objective was so at the point evaluated last
        #: Absolute error of a value by rounding, and what its own error is beyond that.
        self.rounding = ROUNDING * abs(start.value)
        self.noise = max(0.0, objective.value_error(start.value) - self.rounding)

    def evaluate(self, step: float, gradient: bool = True) -> Trial:
        """Try a step.  Collective.

        With the gradient it costs one evaluation; a trial without one costs another when it
        is to have one.
        """
        trial = Trial(step, math.inf, self.start.x + step * self.direction)
        if gradient:
            return self.with_gradient(trial)
        self.evaluations += 1
        value = self.objective.value(trial.x)
        self.finite = math.isfinite(value)
        return replace(trial, value=value) if self.finite else trial

    def with_gradient(self, trial: Trial) -> Trial:
        """The trial with its gradient, evaluated unless it has one.  Collective."""
        if trial.gradient is not None:
            return trial
        self.evaluations += 1
        value, gradient = self.objective.value_and_gradient(trial.x)
        slope = math.nan
        if math.isfinite(value):
            slope = agreed(self.objective.comm, self.objective.layout.dot(gradient, self.direction))
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


#: Trials evaluated with their gradient at once.  The first two are the likeliest to be
#: accepted, and then the gradient is needed; later ones are evaluated by value alone.
WITH_GRADIENT = 2


@dataclass(frozen=True)
class Backtracking(LineSearch):
    """Shorten the step until the objective falls enough.

    Each shorter step is the minimizer of the parabola through what is known, between a tenth of the
    rejected step and ``shrink`` times it.  Where the objective is not finite, a tenth is taken.
    """

    shrink: float = 0.8  # largest ratio of a step to the rejected one before it

    def search(self, line: LineFunction, first: float) -> Trial | None:
        """First trial that meets Armijo's condition (Nocedal and Wright, algorithm 3.1)."""
        step = min(first, line.longest)
        for number in range(self.trials):
            trial = line.evaluate(step, gradient=number < WITH_GRADIENT)
            if self.lowers(line, trial):
                accepted = line.with_gradient(trial)
                if math.isfinite(accepted.slope):
                    return accepted
            if self.negligible(line, step):
                return None
            rise, predicted = trial.value - line.start.value, step * line.start.slope
            step *= parabola_ratio(rise, predicted, 0.1, self.shrink)
        return None


@dataclass(frozen=True)
class StrongWolfe(LineSearch):
    """Find a step with ``phi`` low enough and ``|phi'(a)| <= curvature |phi'(0)|``."""

    #: c2, between ``armijo`` and 1: 0.9 for quasi-Newton directions, 0.1 to 0.4 for conjugate ones.
    curvature: float = 0.9

    def search(self, line: LineFunction, first: float) -> Trial | None:
        """Bracket, then zoom (Nocedal and Wright, algorithms 3.5 and 3.6).

        A step at ``line.longest`` that still falls is accepted, and so is the
        lowest point found when the trials are used up.
        """
        left = line.start
        step = min(first, line.longest)
        for _ in range(self.trials):
            trial = line.evaluate(step)
            if not self.lowers(line, trial) or (left.step > 0 and trial.value > left.value):
                return self._zoom(line, left, trial)
            if self._is_flat(line, trial) or (trial.slope < 0 and step >= line.longest):
                return trial
            if trial.slope >= 0:
                return self._zoom(line, trial, left)
            farther = _cubic_minimizer(left, trial)
            if not farther > 2 * step:
                farther = 2 * step
            left, step = trial, min(farther, 10 * step, line.longest)
        return left if left.step > 0 else None

    def _is_flat(self, line: LineFunction, trial: Trial) -> bool:
        return abs(trial.slope) <= self.curvature * abs(line.start.slope)

    def _zoom(self, line: LineFunction, low: Trial, high: Trial) -> Trial | None:
        # Invariant: low is the start or an accepted trial, and the lowest so far; the
        # interval between low and high holds a point that meets the conditions.
        width = abs(high.step - low.step)
        while line.evaluations < self.trials:
            span = high.step - low.step
            if self.negligible(line, abs(span)) or low.step + 0.5 * span in (low.step, high.step):
                break
            step = self._inside(line, low, high)
            if abs(span) > 0.66 * width and line.evaluations > 2 and math.isfinite(high.value):
                step = low.step + 0.5 * span
            width = abs(span)
            trial = line.evaluate(step)
            if not self.lowers(line, trial) or (low.step > 0 and trial.value > low.value):
                high = trial
                continue
            if self._is_flat(line, trial):
                return trial
            if trial.slope * span >= 0:
                high = low
            low = trial
        return low if low.step > 0 else None

    def _inside(self, line: LineFunction, low: Trial, high: Trial) -> float:
        span = high.step - low.step
        if not math.isfinite(high.value):
            return low.step + 0.1 * span
        share = (_cubic_minimizer(low, high) - low.step) / span
        if high.step > 0 and self.rounds(line, high) and high.slope != low.slope:
            share = low.slope / (low.slope - high.slope)  # values say nothing here
        if not math.isfinite(share):
            share = 0.5
        return low.step + min(0.9, max(0.1, share)) * span


def _cubic_minimizer(a: Trial, b: Trial) -> float:
    """Minimizer of the cubic through two values and slopes; NaN if it has none.

    Nocedal and Wright, eq. (3.59), divided through by the step between them, so
    that nothing overflows.
    """
    width = b.step - a.step
    if width == 0 or not math.isfinite(b.slope):
        return math.nan
    d1 = a.slope + b.slope - 3 * (b.value - a.value) / width
    scale = max(abs(d1), abs(a.slope), abs(b.slope))
    if not math.isfinite(scale) or scale == 0:
        return math.nan
    square = (d1 / scale) ** 2 - (a.slope / scale) * (b.slope / scale)
    if square < 0:
        return math.nan
    d2 = math.copysign(scale * math.sqrt(square), width)
    denominator = b.slope - a.slope + 2 * d2
    return math.nan if denominator == 0 else b.step - width * (b.slope + d2 - d1) / denominator
