"""The strong Wolfe conditions by bracketing and zooming."""

import math
from dataclasses import dataclass

from thalweg_descent.line_search import LineFunction, LineSearch, Trial


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
            if self._flat(line, trial) or (trial.slope < 0 and step >= line.longest):
                return trial
            if trial.slope >= 0:
                return self._zoom(line, trial, left)
            farther = _cubic_minimizer(left, trial)
            if not farther > 2 * step:
                farther = 2 * step
            left, step = trial, min(farther, 10 * step, line.longest)
        return left if left.step > 0 else None

    def _flat(self, line: LineFunction, trial: Trial) -> bool:
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
            if self._flat(line, trial):
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
    if denominator == 0:
        return math.nan
    return b.step - width * (b.slope + d2 - d1) / denominator
