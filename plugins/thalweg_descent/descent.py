"""Search directions, and the step that joins one with a line search.

Each solver of this family names its direction, an immutable rule; what it remembers of earlier
steps is a value that lies in the solver's state, so that it is checkpointed with it.  The line
search is chosen by option, and stopping is the driver's.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import Objective, Preconditioner, Solver, SolverState
from thalweg.parallel import MPI, Array, Layout, agreed, max_over_ranks
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_descent.line_search import Backtracking, LineFunction, LineSearch, StrongWolfe, Trial

#: Memory of a direction between steps, as a state may hold it.
M = TypeVar("M")


@dataclass(frozen=True)
class Metric:
    """B of ``B p = -g``."""

    layout: Layout  # of the variable
    apply: Callable[[Array], Array]  # the inverse of B times an array
    is_identity: bool  # which knows nothing of the problem's scale
    #: Whether B is the same at all iterates (``Preconditioner.constant``), so that its
    #: inverse times a difference of gradients is a difference of what is known.
    constant: bool = False


@dataclass(frozen=True)
class Move:
    """An accepted step, with the trials at both of its ends, which have gradients."""

    start: Trial
    end: Trial
    first_try: bool
    comm: MPI.Comm  # the ranks that decide alike


class Direction(ABC, Generic[M]):
    """Chooses where to go from the gradient and from what it remembers."""

    @abstractmethod
    def start(self) -> M:
        """Memory before the first step."""

    @abstractmethod
    def is_reset(self, memory: M) -> bool:
        """Whether nothing is remembered that turns the direction away from ``-B^-1 g``."""

    @abstractmethod
    def reset(self, memory: M) -> M:
        """Memory that returns to ``-B^-1 g``."""

    @abstractmethod
    def compute(self, memory: M, metric: Metric, gradient: Array) -> tuple[Array, M]:
        """The direction, and the memory with what it cost to find.  Collective."""

    @abstractmethod
    def first_step(self, memory: M, metric: Metric, slope: float) -> float | None:
        """Step to try first, or None where nothing tells the scale.

        ``slope`` is the derivative along the direction.
        """

    @abstractmethod
    def update(self, memory: M, metric: Metric, move: Move) -> M:
        """The memory after an accepted step.  Collective."""


class Identity(Preconditioner):
    """B = I: gradient descent is then plain, and L-BFGS scales its own H0."""

    is_identity = True

    def setup(self, objective: Objective, x: Array) -> None:
        """Nothing to prepare."""

    def apply(self, residual: Array) -> Array:
        """``residual`` itself."""
        return residual


#: Steps in a row without a lower value, after which the run ends; chosen by hand.
MAX_FLAT_STEPS = 5


@dataclass(frozen=True, kw_only=True)
class DescentState(SolverState):
    """State of gradient descent, nonlinear CG and L-BFGS."""

    memory: Any  # of the direction
    lowest: float  # lowest value so far
    flat_steps: int = 0  # steps in a row that brought no lower value


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
    step_cap
        Most that a row of the variable may move in one step, relative to the extent of the
        iterate (``Objective.length_scale``); no cap where the objective has none.
    """

    preconditioned: ClassVar[bool] = True

    preconditioner: Preconditioner | None = None
    line_search: Annotated[
        str, Help("how the step is chosen", choices=("backtracking", "strong-wolfe"))
    ] = "backtracking"
    armijo: Annotated[
        float, Help("constant c1 of the sufficient decrease (Armijo) condition", above=0, below=0.5)
    ] = 1e-4
    curvature: Annotated[
        float, Help("constant c2 of the curvature condition (strong-wolfe)", above=0, below=1)
    ] = 0.9
    shrink: Annotated[
        float, Help("backtracking: largest ratio of a step to the last", minimum=0.1, below=1)
    ] = 0.8
    trials: Annotated[int, Help("maximum number of evaluations of a line search", minimum=1)] = 40
    step_cap: Annotated[
        float | None, Help("largest move of a row in one step, in length scales", above=0)
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.armijo < self.curvature:
            both = f"{self.armijo} and {self.curvature}"
            raise InputError(f"option 'armijo' must be less than option 'curvature', not {both}")

    @abstractmethod
    def direction(self) -> Direction[Any]:
        """The rule that chooses where to go."""

    def searcher(self) -> LineSearch:
        """The line search that :attr:`line_search` names."""
        if self.line_search == "backtracking":
            return Backtracking(self.armijo, self.trials, self.shrink)
        return StrongWolfe(self.armijo, self.trials, self.curvature)

    def metric(self, layout: Layout) -> Metric:
        """B as the directions see it."""
        if self.preconditioner is None or self.preconditioner.is_identity:
            return Metric(layout, lambda residual: residual, True)
        return Metric(layout, self.preconditioner.apply, False, self.preconditioner.constant)

    def init(self, objective: Objective, x: Array) -> DescentState:
        """One evaluation at ``x``."""
        memory = self.direction().start()
        state = DescentState.evaluated(objective, x, memory=memory, lowest=math.inf)
        return replace(state, lowest=state.value, outcome=_outcome(state))

    def step(self, state: DescentState) -> DescentState:
        """Go down along one direction."""
        if not state.outcome.running:
            return state
        direction, metric = self.direction(), self.metric(state.objective.layout)
        if self.preconditioner is not None:
            self.preconditioner.update(state.x)
        memory, line, move, evaluations = self._search(state, direction, metric)
        evaluations += state.evaluations
        if move is None:
            # What is not finite, however short the step, is no minimum, nor where squares overflow.
            failed = (line.evaluations > 0 and not line.finite) or math.isinf(line.start.slope)
            outcome = Status.DIVERGED if failed else Status.PRECISION_LIMIT
            if type(self).trials > self.trials <= line.evaluations:  # the default tries enough
                state.objective.note(f"the last line search used all of its trials: {self.trials}")
            return replace(state, memory=memory, evaluations=evaluations, outcome=outcome)
        memory, trial = direction.update(memory, metric, move), move.end
        flat_steps = 0 if trial.value < state.lowest else state.flat_steps + 1
        moved = state.at(
            trial.x, trial.value, trial.gradient, evaluations=evaluations, memory=memory,
            step_length=trial.step, lowest=min(state.lowest, trial.value), flat_steps=flat_steps,
        )  # fmt: skip
        return replace(moved, outcome=_outcome(moved))

    def _search(
        self, state: DescentState, direction: Direction[Any], metric: Metric
    ) -> tuple[Any, LineFunction, Move | None, int]:
        """Search along the direction; if that fails, along ``-B^-1 g`` without memory.

        The memory, the line, the move, if any, and the number of evaluations.
        """
        assert state.gradient is not None
        searcher, memory, evaluations = self.searcher(), state.memory, 0
        comm, dot = state.objective.comm, metric.layout.dot
        while True:
            fresh = direction.is_reset(memory)
            p, memory = direction.compute(memory, metric, state.gradient)
            slope = agreed(comm, dot(p, state.gradient))
            if not (slope < 0 and math.isfinite(slope)):
                if not fresh:
                    memory = direction.reset(memory)
                    continue
                # B is not positive definite here, or its solve failed.
                if not metric.is_identity:
                    state.objective.note("where B^-1 g does not descend, the gradient is followed")
                p, slope = -state.gradient, -agreed(comm, state.gradient_norm * state.gradient_norm)
            largest = float(np.einsum("ij,ij->i", p, p).max()) if p.size else 0.0
            reach = math.sqrt(max_over_ranks(comm, largest))
            first = direction.first_step(memory, metric, slope)
            first, longest = agreed(comm, self._first_and_longest(state, reach, first))
            start = Trial(0.0, state.value, state.x, slope, state.gradient)
            line = LineFunction(state.objective, p, start, longest)
            trial = searcher.search(line, first) if first > 0 and reach > 0 else None
            evaluations += line.evaluations
            if trial is not None or fresh:
                move = None if trial is None else Move(start, trial, trial.step >= first, comm)
                return memory, line, move, evaluations
            memory = direction.reset(memory)

    def _first_and_longest(
        self, state: DescentState, reach: float, first: float | None
    ) -> tuple[float, float]:
        """Step to try first, and the largest allowed.

        Along an unscaled direction, without a first step, a row moves by a tenth of the length
        scale; without one, by a tenth of 1, and not farther than the gradient's length.
        """
        if reach == 0 or (first is not None and self.step_cap is None):
            return first or 0.0, 1e20
        scale = state.objective.length_scale(state.x) or 0.0
        longest = self.step_cap * scale / reach if self.step_cap and scale > 0 else 1e20
        if first is None:
            first = 0.1 * scale / reach if scale > 0 else min(1.0, 0.1 / reach)
        return min(first, longest), longest

    def reset(self, state: DescentState) -> DescentState:
        """Evaluate again and forget the curvature; a step length stays a good guess."""
        memory = self.direction().reset(state.memory)
        return replace(super().reset(state), memory=memory, step_length=state.step_length)


def _outcome(state: DescentState) -> Status:
    if not state.is_finite:
        return Status.DIVERGED
    if state.gradient_norm == 0.0:
        return Status.SMALL_GRADIENT
    return Status.PRECISION_LIMIT if state.flat_steps >= MAX_FLAT_STEPS else Status.RUNNING
