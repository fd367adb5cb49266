"""Base of the solvers on the Stiefel manifold: inner steps, and the rounds of an alternation.

A round improves W for fixed blocks (KDAC: U and D) until the inner test is met;
then the blocks are renewed, and the outer test compares W and the blocks with
those of the round before.  An objective without blocks ends after one round.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeVar, cast

import numpy as np

from thalweg.interfaces import Capability, Objective, Solver, SolverState
from thalweg.parallel import Vector, agreed
from thalweg.plugins import Help, declared_options
from thalweg.result import Status
from thalweg_clustering.alternation import Alternation
from thalweg_clustering.stiefel import StiefelVariable


@dataclass(kw_only=True)
class RoundState(SolverState):
    """State of a solver that goes by rounds.

    Attributes
    ----------
    blocks
        What the objective holds fixed, this rank's rows as vectors.
    anchor
        W at the start of the round, shape ``(d, q)``.
    round, inner
        Rounds completed, and steps of the present one.
    round_value
        Objective at the start of the round.
    change
        Change of W and the blocks in the last round.
    inner_done
        Whether the inner test is met.
    """

    anchor: np.ndarray
    blocks: dict[str, Any] = field(default_factory=dict)
    round: int = 0
    inner: int = 0
    change: float = math.nan
    round_value: float = math.nan
    inner_done: bool = False


S = TypeVar("S", bound=RoundState)


def no_array() -> np.ndarray:
    """Placeholder of an array in a state before ``begin`` has made it."""
    return np.empty(0)


Armijo = Annotated[
    float, Help("constant c1 of the sufficient decrease (Armijo) condition", above=0, below=0.5)
]
Shrink = Annotated[float, Help("factor by which a rejected step is shortened", above=0, below=1)]
GradientTolerance = Annotated[
    float,
    Help(
        "norm of the Riemannian gradient, relative to the gradient's, at which a round ends",
        minimum=0,
    ),
]


@dataclass(frozen=True)
class RoundSolver(Solver[S]):
    """Base of the solvers: a subclass defines :meth:`begin` and :meth:`improve`.

    A round ends when a step lowers the objective by less than ``inner_tolerance`` times
    its value, and the run when W and the blocks change by less than ``outer_tolerance``
    from round to round (distance of subspaces, from 0 to 1), or the objective by less than
    ``outer_decrease`` times its value.
    """

    inner_tolerance: Annotated[
        float, Help("relative decrease of a step below which a round ends", minimum=0)
    ] = 1e-6
    inner_iterations: Annotated[int, Help("maximum number of steps of a round", minimum=1)] = 100
    outer_tolerance: Annotated[
        float,
        Help(
            "change of W and U from round to round (0 to 1) at which the run ends",
            minimum=0,
            maximum=1,
        ),
    ] = 1e-3
    outer_decrease: Annotated[
        float,
        Help(
            "relative change of the objective from round to round at which the run ends", minimum=0
        ),
    ] = 1e-5
    rounds: Annotated[int, Help("maximum number of rounds of the alternation", minimum=1)] = 50

    requires: ClassVar[tuple[type[Capability], ...]] = (StiefelVariable,)
    trace_columns: ClassVar[tuple[str, ...]] = ("residual", "round", "change")

    #: Type of the state, whose own fields :meth:`begin` fills.
    state_type: ClassVar[type[RoundState]]

    # A small step ends a round, after which the blocks are renewed; it does not end the run.
    decreases: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for option in declared_options(type(self)):
            if option.choices is not None:
                option.check(getattr(self, option.keyword), type(self).__name__)

    @abstractmethod
    def begin(self, state: S) -> None:
        """Evaluate at the state's W, whose objective has just changed."""

    @abstractmethod
    def improve(self, state: S) -> None:
        """One step on W; sets ``state.inner_done`` when no more is to be had."""

    def init(self, objective: Objective, x: Vector) -> S:
        """State at ``x``, with the objective's first blocks."""
        w = np.array(objective.layout.reading(x))
        state = cast(S, self.state_type(objective=objective, x=x, value=math.nan, anchor=w))
        if isinstance(objective, Alternation):
            state.blocks = objective.initial_blocks(x)
            objective.use_blocks(state.blocks)
        self.begin(state)
        state.round_value = state.value
        return state

    def step(self, state: S) -> S:
        """One inner step; at the end of a round also the renewal of the blocks."""
        objective = state.objective
        if isinstance(objective, Alternation):
            objective.use_blocks(state.blocks)
        before = state.value
        self.improve(state)
        state.inner += 1
        if state.inner_done or self.is_small(state, before) or state.inner >= self.inner_iterations:
            self._end_round(state)
        return state

    def is_small(self, state: S, before: float) -> bool:
        """Whether the last step, from the value ``before``, ends the round."""
        scale = max(abs(before), abs(state.value))
        return before - state.value <= self.inner_tolerance * scale

    def inner_floor(self, state: S) -> bool:
        """Whether the round may end; dimension growth must first have all its columns."""
        return True

    def _end_round(self, state: S) -> None:
        if not self.inner_floor(state):
            return
        objective = state.objective
        if not isinstance(objective, Alternation):
            state.outcome = Status.CONVERGED
            return
        w = matrix_of(state)
        blocks, changed = objective.updated_blocks(state.x, state.blocks)
        state.change = agreed(objective.comm, max(changed, subspace_distance(w, state.anchor)))
        state.round += 1
        state.blocks, state.anchor = blocks, w
        state.inner, state.inner_done = 0, False
        objective.use_blocks(blocks)
        before = state.round_value
        self.begin(state)
        state.round_value = state.value
        decrease = abs(before - state.value) / max(abs(state.value), 1e-300)
        settled = changed == 0.0 and state.round > 1  # only W is left, and it met the inner test
        if settled or state.change <= self.outer_tolerance or decrease <= self.outer_decrease:
            state.outcome = Status.CONVERGED
        elif state.round >= self.rounds:
            state.outcome = Status.ITERATION_LIMIT

    def trace_row(self, state: S) -> Mapping[str, float]:
        """Residual |Phi W - W Lambda|, round and change."""
        return {"residual": state.gradient_norm, "round": state.round, "change": state.change}


def matrix_of(state: SolverState) -> np.ndarray:
    """A copy of the state's W, shape ``(d, q)``."""
    return np.array(state.objective.layout.reading(state.x))


def put_matrix(state: SolverState, w: np.ndarray) -> None:
    """Overwrite the state's W with that of rank 0.  Collective."""
    with state.objective.layout.writing(state.x) as rows:
        rows[...] = agreed(state.objective.comm, w)


def evaluated(objective: Objective, w: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and gradient at W of shape ``(d, q)``."""
    x, gradient = objective.layout.vec_from(w), objective.layout.create_vec()
    value = objective.value_and_gradient(x, gradient)
    return value, np.array(objective.layout.reading(gradient))


def residual_norm(w: np.ndarray, gradient: np.ndarray) -> float:
    """``|Phi W - W Lambda|`` with Lambda = W' Phi W."""
    return float(np.linalg.norm(gradient - w @ (w.T @ gradient)))


def subspace_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Distance between the spans of two orthonormal bases, from 0 to 1."""
    return float(np.linalg.norm(a - b @ (b.T @ a))) / np.sqrt(max(1, a.shape[1]))
