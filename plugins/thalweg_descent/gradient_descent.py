"""Gradient descent in the metric of a preconditioner."""

from dataclasses import dataclass
from typing import Annotated

from thalweg.parallel import Array
from thalweg.plugins import Help
from thalweg_descent.descent import Descent, Direction, Metric, Move

#: Share of the first slope whose opposite at the end says that a step went too far; by hand.
TOO_FAR = 0.5


@dataclass(frozen=True)
class Steepest(Direction[float | None]):
    """Steepest descent in the metric of B; the memory is the first trial of the next step.

    The first trial of a step is the last accepted one.  It is longer by the
    factor ``growth`` when that one was accepted at once and the objective still
    fell at its end, since a longer step would then have served better.

    A step that ended on a rise half as steep as the descent that it began with went
    too far, though it may have lowered the objective: the next one goes to the secant's
    root.  Otherwise a step of twice the right length, which mirrors the iterate at the
    minimum, would be taken again and again.

    With ``growth = 1`` steps only ever become shorter, as in Vladymyrov and
    Carreira-Perpinan's own code; like there, each stage of a homotopy then
    begins afresh, since its first steps may be longer again.
    """

    growth: float = 2.0
    first: float | None = None

    def start(self) -> None:
        """Nothing known of the scale."""

    def is_reset(self, memory: float | None) -> bool:
        """Only a step length is remembered, which does not change the direction."""
        return True

    def reset(self, memory: float | None) -> float | None:
        """The objective is another one now; a step that cannot grow is no guess for it."""
        return None if self.growth == 1.0 else memory

    def compute(
        self, memory: float | None, metric: Metric, gradient: Array
    ) -> tuple[Array, float | None]:
        """``p = -B^-1 g``."""
        return -metric.apply(gradient), memory

    def first_step(self, memory: float | None, metric: Metric, slope: float) -> float | None:
        """The last accepted step, perhaps grown; at first ``first``, or 1 if B knows the scale."""
        step = self.first if memory is None else memory
        return step if step is not None or metric.is_identity else 1.0

    def update(self, memory: float | None, metric: Metric, move: Move) -> float:
        """Keep or grow the step."""
        step, slope, new_slope = move.end.step, move.start.slope, move.end.slope
        if move.first_try and new_slope < 0:
            step *= self.growth
        elif new_slope > -TOO_FAR * slope:
            step *= slope / (slope - new_slope)
        return step


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Descent):
    """``p = -B^-1 g``: gradient descent, fixed-point iteration or the spectral direction.

    Vladymyrov and Carreira-Perpinan (2012) name it after its B: the identity
    gives GD, ``4 D+`` FP, ``4 L+`` SD, and so on.

    Parameters
    ----------
    first_step
        A multiple of ``p``.  None: 1, and without a preconditioner what moves some row by a
        tenth of the length scale of the iterate.
    """

    growth: Annotated[
        float, Help("factor by which a step that was too short grows for the next one", minimum=1)
    ] = 2.0
    first_step: Annotated[
        float | None, Help("first trial step; by default from the scale of the problem", above=0)
    ] = None

    def direction(self) -> Steepest:
        """Steepest descent."""
        return Steepest(self.growth, self.first_step)
