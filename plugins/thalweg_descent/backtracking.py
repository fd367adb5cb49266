"""Armijo backtracking."""

import math
from dataclasses import dataclass

from thalweg.numerics import parabola_ratio
from thalweg_descent.line_search import LineFunction, LineSearch, Trial

#: Trials evaluated with their gradient at once.  The first two are the likeliest to be
#: accepted, and then the gradient is needed; later ones are evaluated by value alone.
WITH_GRADIENT = 2


@dataclass(frozen=True)
class Backtracking(LineSearch):
    """Shorten the step until the objective falls enough.

    Each shorter step is the minimizer of the parabola through what is known,
    between a tenth of the rejected step and ``shrink`` times it.  Where the
    objective is not finite, a tenth is taken.
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
