"""The step that joins a direction with a line search.

Each solver of this family names its direction; the line search is chosen by
option, and stopping is the driver's.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import TRANSIENT, Objective, Preconditioner, Solver, SolverState
from thalweg.parallel import Vector, agreed, max_over_ranks
from thalweg.plugins import Help, check_declared
from thalweg.result import Status
from thalweg_descent.backtracking import Backtracking
from thalweg_descent.direction import Direction, Memory, Metric, Move
from thalweg_descent.identity import Identity
from thalweg_descent.line_function import LineFunction, Point, Trial
from thalweg_descent.line_search import LineSearch
from thalweg_descent.strong_wolfe import StrongWolfe

#: Steps in a row without a lower value, after which the run ends.
MAX_FLAT_STEPS = 5


@dataclass
class Workspace:
    """Vectors whose content matters only within a step."""

    direction: Vector
    trial: Point
    kept: Point

    @classmethod
    def like(cls, x: Vector) -> Workspace:
        """Vectors of the layout of ``x``.  Collective."""
        points = [Point(x.duplicate(), x.duplicate()) for _ in range(2)]
        return cls(x.duplicate(), *points)


@dataclass(kw_only=True)
class DescentState(SolverState):
    """State of gradient descent, nonlinear CG and L-BFGS.

    Attributes
    ----------
    memory
        Memory of the direction.
    lowest
        Lowest value so far.
    flat_steps
        Steps in a row that brought no lower value.
    work
        Space, not saved.
    """

    memory: Memory
    lowest: float
    flat_steps: int = 0
    work: Workspace = field(metadata=TRANSIENT)


@dataclass(frozen=True, kw_only=True)
class Descent(Solver[DescentState]):
    """A direction and a line search.

    No accepted step raises the objective by more than the error of its values.

    Parameters
    ----------
    preconditioner
        B of ``B p = -g``; None is the identity.
    line_search, armijo, curvature, shrink, trials
        The line search and its parameters (see
        :class:`~thalweg_descent.line_search.LineSearch` and those derived from it).
    step_cap, step_cap_unit
        Most that a row of the variable may move in one step.  There is no cap in extents
        (``Objective.length_scale``) where the objective has none.
    """

    preconditioned: ClassVar[bool] = True

    preconditioner: Preconditioner | None = None
    line_search: Annotated[
        str,
        Help("how the step along a direction is chosen", choices=("backtracking", "strong-wolfe")),
    ] = "backtracking"
    armijo: Annotated[
        float, Help("constant c1 of the sufficient decrease (Armijo) condition", above=0, below=0.5)
    ] = 1e-4
    curvature: Annotated[
        float, Help("constant c2 of the curvature condition (strong-wolfe)", above=0, below=1)
    ] = 0.9
    shrink: Annotated[
        float,
        Help(
            "largest factor by which a rejected step is shortened (backtracking)",
            minimum=0.1,
            below=1,
        ),
    ] = 0.8
    trials: Annotated[int, Help("maximum number of evaluations of a line search", minimum=1)] = 40
    step_cap: Annotated[
        float | None,
        Help("largest distance that a row may move in one step; by default none", above=0),
    ] = None
    step_cap_unit: Annotated[
        Literal["length-scale", "absolute"],
        Help("unit of the step cap: the length scale of the iterate, or the variable's own"),
    ] = "length-scale"

    def __post_init__(self) -> None:
        check_declared(self)
        if not self.armijo < self.curvature:
            raise InputError(
                f"option 'armijo' must be less than option 'curvature', not {self.armijo} "
                f"and {self.curvature}"
            )

    @abstractmethod
    def direction(self) -> Direction:
        """The rule that chooses where to go."""

    def searcher(self) -> LineSearch:
        """The line search that :attr:`line_search` names."""
        if self.line_search == "backtracking":
            return Backtracking(self.armijo, self.trials, self.shrink)
        return StrongWolfe(self.armijo, self.trials, self.curvature)

    def metric(self) -> Metric:
        """B as the directions see it."""
        plain = self.preconditioner is None or isinstance(self.preconditioner, Identity)
        if plain:
            return Metric(lambda residual, out: residual.copy(out), True)
        assert self.preconditioner is not None
        return Metric(self.preconditioner.apply, False, self.preconditioner.constant)

    def init(self, objective: Objective, x: Vector) -> DescentState:
        """One evaluation at ``x``, and space for the steps."""
        gradient = x.duplicate()
        value = objective.value_and_gradient(x, gradient)
        state = DescentState(
            objective=objective,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=gradient.norm(),
            evaluations=1,
            lowest=value,
            memory=self.direction().start(x),
            work=Workspace.like(x),
        )
        state.outcome = _outcome_at(state)
        return state

    def step(self, state: DescentState) -> DescentState:
        """Go down along one direction."""
        if not state.outcome.running:
            return state
        assert state.gradient is not None
        direction, metric = self.direction(), self.metric()
        if self.preconditioner is not None:
            self.preconditioner.update(state.x)
        line, trial, first = self._search(state, direction, metric)
        if trial is None or line is None:
            # An objective that is not finite, however short the step, is no minimum.
            failed = line is not None and line.evaluations > 0 and not line.finite
            state.outcome = Status.DIVERGED if failed else Status.PRECISION_LIMIT
            return state
        work = state.work
        # The search may have swapped its points; the accepted one becomes the iterate, and
        # the old iterate's vectors become space.
        work.trial, work.kept = line.trial, line.kept
        old = Point(state.x, state.gradient)
        state.x, state.gradient = work.kept.x, work.kept.gradient
        work.kept = old
        move = Move(
            step=trial.step,
            slope=line.start.slope,
            new_slope=trial.slope,
            first_try=trial.step >= first,
            x=state.x,
            gradient=state.gradient,
            old_x=old.x,
            old_gradient=old.gradient,
            comm=state.objective.comm,
        )
        direction.update(state.memory, metric, move)
        lower = trial.value < state.lowest
        state.flat_steps = 0 if lower else state.flat_steps + 1
        state.lowest = min(state.lowest, trial.value)
        state.value = trial.value
        state.gradient_norm = state.gradient.norm()
        state.step_length = trial.step
        state.outcome = _outcome_at(state)
        return state

    def _search(
        self, state: DescentState, direction: Direction, metric: Metric
    ) -> tuple[LineFunction | None, Trial | None, float]:
        """Search along the direction; if that fails, along ``-B^-1 g`` without memory."""
        assert state.gradient is not None
        searcher, work = self.searcher(), state.work
        p = work.direction
        while True:
            fresh = direction.is_reset(state.memory)
            direction.compute(state.memory, metric, state.gradient, p)
            comm = state.objective.comm
            slope = agreed(comm, p.dot(state.gradient))
            if not (slope < 0 and math.isfinite(slope)):
                if not fresh:
                    direction.reset(state.memory)
                    continue
                # B is not positive definite here, or its solve failed.
                state.gradient.copy(p)
                p.scale(-1.0)
                slope = -(agreed(comm, state.gradient_norm) ** 2)
            reach = self._largest_row(state, p)
            longest = self._longest(state, reach)
            first = direction.first_step(state.memory, metric, slope)
            if first is None:
                first = self._unscaled_first(state, reach)
            first, longest = agreed(comm, (min(first, longest), longest))
            line = LineFunction(
                state.objective, state.x, state.value, p, slope, longest, work.trial, work.kept
            )
            trial = searcher.search(line, first) if first > 0 and reach > 0 else None
            work.trial, work.kept = line.trial, line.kept
            state.evaluations += line.evaluations
            if trial is not None or fresh:
                return line, trial, first
            direction.reset(state.memory)

    def _longest(self, state: DescentState, reach: float) -> float:
        if self.step_cap is None or reach == 0:
            return 1e20
        if self.step_cap_unit == "absolute":
            return self.step_cap / reach
        scale = state.objective.length_scale(state.x)
        return self.step_cap * scale / reach if scale is not None and scale > 0 else 1e20

    @staticmethod
    def _unscaled_first(state: DescentState, reach: float) -> float:
        """First step along an unscaled direction: a row moves by a tenth of the length scale.

        Without one, by a tenth of 1, and not farther than the gradient's length.
        """
        if reach == 0:
            return 0.0
        scale = state.objective.length_scale(state.x)
        if scale is not None and scale > 0:
            return 0.1 * scale / reach
        return min(1.0, 0.1 / reach)

    @staticmethod
    def _largest_row(state: DescentState, vec: Vector) -> float:
        layout = state.objective.layout
        rows = layout.reading(vec)
        largest = float(np.einsum("ij,ij->i", rows, rows).max()) if rows.size else 0.0
        return math.sqrt(max_over_ranks(layout.comm, largest))

    def reset(self, state: DescentState) -> DescentState:
        """Evaluate again and forget the curvature; a step length stays a good guess."""
        assert state.gradient is not None
        self.direction().reset(state.memory)
        state.value = state.objective.value_and_gradient(state.x, state.gradient)
        state.gradient_norm = state.gradient.norm()
        state.evaluations += 1
        state.lowest, state.flat_steps = state.value, 0
        state.outcome = _outcome_at(state)
        return state


def _outcome_at(state: DescentState) -> Status:
    if not math.isfinite(state.value) or not math.isfinite(state.gradient_norm):
        return Status.DIVERGED
    if state.gradient_norm == 0.0:
        return Status.SMALL_GRADIENT
    return Status.PRECISION_LIMIT if state.flat_steps >= MAX_FLAT_STEPS else Status.RUNNING
