"""Which damping and which length: what one basis gives for free, judged by the objective.

A direction costs many products; a value of the objective costs a third of one
gradient.  So the damping grows until the objective falls, then shrinks as long
as the model is good and the objective gains, and the length doubles as long as
it gains where the model allows: |H| is too cautious along negative curvature.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from thalweg.interfaces import SolverState
from thalweg.parallel import Array
from thalweg.result import Status
from thalweg_saddlefree.curvature import (
    AbsoluteSolver,
    AbsoluteStep,
    LanczosAbsolute,
    Slices,
    SpectrumTooWide,
)

S = TypeVar("S", bound=SolverState)


class Trials:
    """Points tried from one iterate, and how often the objective was evaluated at them.

    Steps are given by this rank's slices.
    """

    def __init__(self, state: SolverState, slices: Slices) -> None:
        self.objective, self.x, self.slices = state.objective, state.x, slices
        self.evaluations = 0

    def point(self, step: np.ndarray) -> Array:
        """``x + step``."""
        return self.slices.join(step) + self.x

    def value(self, step: np.ndarray) -> float:
        """Objective at ``x + step``; infinite if it is not finite."""
        self.evaluations += 1
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.objective.value(self.point(step))
        return value if np.isfinite(value) else float("inf")

    def gradient_norm(self, step: np.ndarray) -> float:
        """Norm of the gradient at ``x + step``."""
        self.evaluations += 1
        _, gradient = self.objective.value_and_gradient(self.point(step))
        return self.objective.layout.norm(gradient)

    def refused(self, state: S, outcome: Status = Status.PRECISION_LIMIT, **changes: Any) -> S:
        """The state at the same point after these evaluations, with further changes."""
        spent = state.evaluations + self.evaluations
        return replace(state, evaluations=spent, outcome=outcome, **changes)

    def accepted(self, state: S, step: np.ndarray, **changes: Any) -> S:
        """The state at ``x + step``, evaluated, with further changes of the one given."""
        x = self.point(step)
        value, gradient = self.objective.value_and_gradient(x)
        evaluations = state.evaluations + self.evaluations + 1
        return state.at(x, value, gradient, evaluations=evaluations, **changes)


#: Dampings tried before the search gives up; chosen by hand.
TRIALS = 40

#: Smaller dampings tried after a very good step, and doublings of its length; chosen by hand.
SMALLER, DOUBLINGS = 4, 6

#: A predicted decrease below this part of the objective is lost in its rounding; least part of it
#: that an accepted step gains.
ROUNDING, LEAST_RATIO = 1e-13, 1e-4


@dataclass(frozen=True)
class AcceptedStep:
    """A step that lowers the objective."""

    value: float  # objective that it leads to
    direction: AbsoluteStep  # the step before its length was chosen
    ratio: float  # actual over predicted decrease at length 1
    #: As chosen.
    damping: float
    length: float = 1.0


@dataclass(frozen=True)
class StepSearch:
    """The search at one iterate.

    ``solver`` gives the direction at a damping, of at least ``floor``, in the scaled variables, and
    ``metric`` leads from these to plain ones.
    """

    state: SolverState
    trials: Trials
    solver: AbsoluteSolver
    metric: np.ndarray | float
    floor: float

    def run(self, damping: float) -> AcceptedStep | None:
        """The step, or None where no damping lowers the objective.  Collective."""
        accepted = self._first(damping)
        if accepted is None:
            return None
        if isinstance(self.solver, LanczosAbsolute):
            accepted = self._smaller_dampings(self.solver, accepted)
        return self._other_length(accepted)

    def step(self, direction: AbsoluteStep, length: float = 1.0) -> np.ndarray:
        """This rank's slice of the step in plain variables."""
        return np.asarray(length * self.metric * direction.step)

    def _try(self, direction: AbsoluteStep, length: float = 1.0) -> float:
        return self.trials.value(self.step(direction, length))

    def _first(self, damping: float) -> AcceptedStep | None:
        """The least of growing dampings whose step lowers the objective."""
        before = self.state.value
        for _ in range(TRIALS):
            try:
                direction = self.solver.direction(damping)
            except SpectrumTooWide:
                damping = max(4.0 * damping, 1e-4 * self.solver.largest())
                continue
            value = self._try(direction)
            predicted = direction.model.change
            ratio = (value - before) / predicted if predicted < 0 else float("-inf")
            if value < before and ratio > LEAST_RATIO:
                return AcceptedStep(value, direction, ratio, damping)
            if abs(predicted) <= ROUNDING * abs(before):
                # Where values only round, a smaller gradient is the test.
                flatter = value <= before and (
                    self.trials.gradient_norm(self.step(direction)) < self.state.gradient_norm
                )
                return AcceptedStep(value, direction, ratio, damping) if flatter else None
            # From a damping of zero, start at a thousandth of the spectrum's size.
            damping = 4.0 * damping if damping > 0 else 1e-3 * self.solver.largest()
        return None

    def _smaller_dampings(self, solver: LanczosAbsolute, accepted: AcceptedStep) -> AcceptedStep:
        """Smaller dampings from the same basis, as long as the model is good and they gain."""
        for _ in range(SMALLER):
            damping = accepted.damping
            if accepted.ratio < 0.75 or damping <= self.floor or damping == 0.0:
                break
            damping = max(damping / 3.0, self.floor)
            direction = solver.cheap_direction(damping)
            value = self._try(direction)
            if not value < accepted.value:
                break
            ratio = (value - self.state.value) / direction.model.change
            accepted = AcceptedStep(value, direction, ratio, damping)
        return accepted

    def _other_length(self, accepted: AcceptedStep) -> AcceptedStep:
        """Longer where the model's curvature allows it, half as long where it failed."""
        model = accepted.direction.model
        if 1.5 * model.curvature < -model.slope:  # the model falls from length 1 to 2
            for _ in range(DOUBLINGS):
                value = self._try(accepted.direction, 2.0 * accepted.length)
                if not value < accepted.value:
                    break
                accepted = replace(accepted, value=value, length=2.0 * accepted.length)
        if accepted.length == 1.0 and accepted.ratio < 0.5:
            value = self._try(accepted.direction, 0.5)
            if value < accepted.value:
                accepted = replace(accepted, value=value, length=0.5)
        return accepted
