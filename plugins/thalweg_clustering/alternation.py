"""Alternation of W with blocks of unknowns, and the base of the solvers, which go by its rounds.

A round improves W for fixed blocks (KDAC: U and D) until the inner test is met;
then the blocks are renewed, and the outer test compares W and the blocks with
those of the round before.  An objective without blocks ends after one round.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, TypeVar, cast

import numpy as np

from thalweg.interfaces import Capability, Objective, OwnRows, Solver, SolverState
from thalweg.parallel import Array, agreed, one_blas_thread
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_clustering.stiefel import StiefelVariable

#: Changes from round to round at which a run ends: of W and the blocks, as a distance of subspaces
#: from 0 to 1, and of the objective, relative to it.
OUTER_TOLERANCE, OUTER_DECREASE = 1e-3, 1e-5


class Alternation(Capability):
    """Other unknowns, held fixed while x is improved, then updated in closed form.

    KDAC: the embedding U and the degrees D.  A solver keeps them in its state, so that a
    checkpoint holds them: of each this rank's rows, shared out evenly in a run that is resumed
    on another number of ranks.
    """

    phrase = "block of unknowns with a closed form"

    @abstractmethod
    def initial_blocks(self, x: Array) -> dict[str, Array]:
        """The other unknowns to start from.  Collective."""

    @abstractmethod
    def updated_blocks(
        self, x: Array, blocks: Mapping[str, Array]
    ) -> tuple[dict[str, Array], float]:
        """Their optimum at ``x``, and how much they changed: 0 not at all, 1 altogether."""

    @abstractmethod
    def use_blocks(self, blocks: Mapping[str, Array]) -> None:
        """Hold these fixed: values and derivatives are for them from now on."""


@dataclass(frozen=True, kw_only=True)
class RoundState(SolverState):
    """State of a solver that goes by rounds."""

    anchor: np.ndarray  # W at the start of the round, shape ``(d, q)``
    blocks: dict[str, OwnRows] = field(default_factory=dict)  # what the objective holds fixed
    #: Rounds completed, and steps of the present one.
    round: int = 0
    inner: int = 0
    change: float = math.nan  # change of W and the blocks in the last round
    round_value: float = math.nan  # objective at the start of the round
    inner_done: bool = False  # whether the inner test is met
    slope: Any = None  # gradient at W, shape ``(d, q)``, if it is known

    @property
    def residual(self) -> float:
        """``|Phi W - W Lambda|``."""
        return self.gradient_norm


S = TypeVar("S", bound=RoundState)

#: Steps of a search along a curve after which none is taken to lower the objective; chosen by hand.
MAX_TRIALS = 40


@dataclass(frozen=True)
class RoundSolver(Solver[S]):
    """Base of the solvers: a subclass defines :meth:`begin` and :meth:`improve`.

    A round ends when a step lowers the objective by less than ``inner_tolerance`` times
    its value, and the run when W and the blocks change by less than :data:`OUTER_TOLERANCE`
    from round to round, or the objective by less than :data:`OUTER_DECREASE` times its value.
    """

    inner_tolerance: Annotated[
        float, Help("relative decrease of a step below which a round ends", minimum=0)
    ] = 1e-6
    inner_iterations: Annotated[int, Help("maximum number of steps of a round", minimum=1)] = 100
    rounds: Annotated[int, Help("maximum number of rounds of the alternation", minimum=1)] = 50

    requires: ClassVar[tuple[type[Capability], ...]] = (StiefelVariable,)
    trace_columns: ClassVar[tuple[str, ...]] = ("residual", "round", "change")

    #: Type of the state, whose own fields :meth:`begin` fills.
    state_type: ClassVar[type[RoundState]]

    # A small step ends a round, after which the blocks are renewed; it does not end the run.
    decreases: ClassVar[bool] = False

    def begin(self, state: S) -> S:
        """The state evaluated at its W, whose objective has just changed."""
        value, slope = state.objective.value_and_gradient(state.x)
        known: Any = {"slope": slope, "gradient_norm": residual_norm(state.x, slope)}
        return replace(state, value=value, evaluations=state.evaluations + 1, **known)

    @abstractmethod
    def improve(self, state: S) -> S:
        """The state after a step on W, ``inner_done`` when no more is to be had."""

    def init(self, objective: Objective, x: Array) -> S:
        blocks: dict[str, Array] = {}
        if isinstance(objective, Alternation):
            blocks = objective.initial_blocks(x)
            objective.use_blocks(blocks)
        start = self.state_type(objective=objective, x=x, value=math.nan, anchor=x, blocks=blocks)
        state = self.begin(cast(S, start))
        return replace(state, round_value=state.value)

    def step(self, state: S) -> S:
        """One inner step; at the end of a round also the renewal of the blocks."""
        with one_blas_thread():  # others would keep their cores busy while threads sum kernels
            if isinstance(state.objective, Alternation):
                state.objective.use_blocks(state.blocks)
            improved = self.improve(state)
            improved = replace(improved, inner=improved.inner + 1)
            small = improved.inner_done or self.is_small(improved, state.value)
            if small or improved.inner >= self.inner_iterations:
                return self._after_round(improved, small)
            return improved

    def is_small(self, state: S, before: float) -> bool:
        """Whether the last step, from the value ``before``, ends the round."""
        return before - state.value <= self.inner_tolerance * max(abs(before), abs(state.value))

    def inner_floor(self, state: S) -> bool:
        """Whether the round may end; dimension growth must first have all its columns."""
        return True

    def notes(self, state: S) -> Sequence[str]:
        limit = "rounds" if isinstance(state.objective, Alternation) else "inner_iterations"
        ended = state.outcome is Status.ITERATION_LIMIT
        return (f"the solver's limit of {limit} ended the run: raise that option",) * ended

    def _after_round(self, state: S, met: bool) -> S:
        if not self.inner_floor(state):
            return state
        objective = state.objective
        if not isinstance(objective, Alternation):
            return replace(state, outcome=Status.CONVERGED if met else Status.ITERATION_LIMIT)
        blocks, changed = objective.updated_blocks(state.x, state.blocks)
        objective.use_blocks(blocks)
        change = agreed(objective.comm, max(changed, subspace_distance(state.x, state.anchor)))
        before = state.round_value
        state = replace(state, blocks=blocks, anchor=state.x, change=change, round=state.round + 1)
        state = self.begin(replace(state, inner=0, inner_done=False))
        state = replace(state, round_value=state.value)
        decrease = abs(before - state.value) / max(abs(state.value), 1e-300)
        settled = met and changed == 0.0 and state.round > 1  # only W is left
        if settled or state.change <= OUTER_TOLERANCE or decrease <= OUTER_DECREASE:
            return replace(state, outcome=Status.CONVERGED)
        if state.round >= self.rounds:
            return replace(state, outcome=Status.ITERATION_LIMIT)
        return state


def moved_to(state: S, w: Array, **changes: Any) -> S:
    """The state at rank 0's W, with further changes.  Collective."""
    return replace(state, x=np.ascontiguousarray(agreed(state.objective.comm, w)), **changes)


def residual_norm(w: np.ndarray, gradient: np.ndarray) -> float:
    """``|Phi W - W Lambda|`` with Lambda = W' Phi W."""
    return float(np.linalg.norm(gradient - w @ (w.T @ gradient)))


def subspace_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Distance between the spans of two orthonormal bases, from 0 to 1."""
    return float(np.linalg.norm(a - b @ (b.T @ a))) / np.sqrt(max(1, a.shape[1]))
