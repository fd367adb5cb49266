"""Barzilai-Borwein steps (1988) with the line search of Grippo, Lampariello and Lucidi (1986)."""

from dataclasses import dataclass, replace
from typing import ClassVar

from thalweg.interfaces import Preconditioner, Solver, SolverState
from thalweg.result import Status


@dataclass(frozen=True, kw_only=True)
class BarzilaiBorweinState(SolverState):
    """Memory of the two-point step: the length to try, and the latest values."""

    trial: float
    recent: list
    stuck: bool = False


@dataclass(frozen=True)
class BarzilaiBorwein(Solver):
    """Steps whose length comes from the last two gradients; the objective may rise now and then.

    Parameters
    ----------
    memory
        A step may not exceed the largest of so many latest values.
    first_step
        Length factor of the first step.
    preconditioner
        Metric in which the gradient is steepest.
    """

    memory: int = 8
    first_step: float = 0.3
    preconditioner: Preconditioner | None = None

    preconditioned: ClassVar[bool] = True
    trace_columns: ClassVar[tuple[str, ...]] = ("trial",)

    def init(self, objective, x):
        """State at the starting point."""
        state = BarzilaiBorweinState.evaluated(objective, x, trial=self.first_step, recent=[])
        return replace(state, recent=[state.value])

    def step(self, state):
        """Go down along the preconditioned gradient, at most so far as the latest values allow."""
        objective, layout, direction = state.objective, state.objective.layout, state.gradient
        if self.preconditioner is not None:
            self.preconditioner.update(state.x)
            direction = self.preconditioner.apply(state.gradient)
        slope = -layout.dot(state.gradient, direction)
        length, bound, evaluations = state.trial, max(state.recent), state.evaluations
        for _ in range(40):
            x = state.x - length * direction
            value, gradient = objective.value_and_gradient(x)
            evaluations += 1
            if value <= bound + 1e-4 * length * slope:
                break
            length *= 0.5
        else:
            return replace(state, evaluations=evaluations, stuck=True)
        # s'y with s = -length * direction, and s'Bs = -length² * slope.
        curvature = -length * (layout.dot(gradient, direction) + slope)
        return state.at(
            x,
            value,
            gradient,
            evaluations=evaluations,
            step_length=length,
            trial=min(-(length**2) * slope / curvature, 1e3) if curvature > 0 else 2 * length,
            recent=[*state.recent, value][-self.memory :],
        )

    def status(self, state):
        """Stalled if no length satisfied the line search."""
        return Status.PRECISION_LIMIT if state.stuck else Status.RUNNING

    def trace_row(self, state):
        """Length that the next step will try."""
        return {"trial": state.trial}
