"""Barzilai-Borwein steps (1988) with the line search of Grippo, Lampariello and Lucidi (1986)."""

from dataclasses import dataclass
from typing import ClassVar

from thalweg.interfaces import Preconditioner, Solver, SolverState
from thalweg.result import Status


@dataclass(kw_only=True)
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
        gradient = x.duplicate()
        value = objective.value_and_gradient(x, gradient)
        return BarzilaiBorweinState(
            objective=objective,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=gradient.norm(),
            evaluations=1,
            trial=self.first_step,
            recent=[value],
        )

    def step(self, state):
        """Go down along the preconditioned gradient, at most so far as the latest values allow."""
        direction = state.gradient.duplicate()
        if self.preconditioner is None:
            state.gradient.copy(direction)
        else:
            self.preconditioner.update(state.x)
            self.preconditioner.apply(state.gradient, direction)
        slope = -state.gradient.dot(direction)
        point, gradient = state.x.duplicate(), state.gradient.duplicate()
        length, bound = state.trial, max(state.recent)
        state.stuck = True
        for _ in range(40):
            point.waxpy(-length, direction, state.x)
            value = state.objective.value_and_gradient(point, gradient)
            state.evaluations += 1
            if value <= bound + 1e-4 * length * slope:
                state.stuck = False
                break
            length *= 0.5
        if not state.stuck:
            # s'y with s = -length * direction, and s'Bs = -length² * slope.
            curvature = -length * (gradient.dot(direction) + slope)
            state.trial = (
                min(-(length**2) * slope / curvature, 1e3) if curvature > 0 else 2 * length
            )
            point.copy(state.x)
            gradient.copy(state.gradient)
            state.value, state.step_length = value, length
            state.gradient_norm = gradient.norm()
            state.recent = [*state.recent, value][-self.memory :]
        return state

    def status(self, state):
        """Stalled if no length satisfied the line search."""
        return Status.PRECISION_LIMIT if state.stuck else Status.RUNNING

    def trace_row(self, state):
        """Length that the next step will try."""
        return {"trial": state.trial}
