"""Interface of line searches, and the test for sufficient decrease."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from thalweg_descent.line_function import LineFunction, Trial

#: Where values differ by less than their error, a step must leave at most this share of the slope.
FLATTER = 0.9


@dataclass(frozen=True)
class LineSearch(ABC):
    """Chooses a step along a descent direction.

    Attributes
    ----------
    armijo
        c1 in ``phi(a) <= phi(0) + c1 a phi'(0)``.
    trials
        Most evaluations of one search.
    """

    armijo: float = 1e-4
    trials: int = 40

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
        wanted = start.value + self.armijo * trial.step * start.slope
        if trial.value < start.value and trial.value <= wanted:
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
