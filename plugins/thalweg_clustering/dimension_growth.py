"""Dimension growth: the columns of W one after the other, each by gradient descent.

Niu, Dy and Jordan (2014), the way that KDAC was first solved: with the columns
found so far held fixed, the next one descends on the sphere orthogonal to them.
Columns to come are zero, which the objective takes as absent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from thalweg.numerics import backtrack
from thalweg.parallel import Array, agreed
from thalweg.result import Status
from thalweg_clustering import alternation

#: Share of the gradient along the manifold from which on a note says so; chosen by hand.
AT_REST = 0.1

#: Factor by which a refused step is shortened, and most steps on one column.
SHRINK, COLUMN_STEPS = 0.5, 200


@dataclass(frozen=True, kw_only=True)
class GrowthState(alternation.RoundState):
    """State of :class:`DimensionGrowth`."""

    #: W that the columns start from, shape ``(d, q)``.
    guess: Array = field(default_factory=lambda: np.empty(0))
    column: int = 0  # the column that is being found
    length: float = 0.0  # first length to try in the next step
    #: Objective of ``guess`` with all its columns, which a round must not exceed.
    whole_value: float = float("nan")
    steps: int = 0  # steps on the present column


@dataclass(frozen=True)
class DimensionGrowth(alternation.RoundSolver[GrowthState]):
    """Dimension growth (the paper's DG).

    Notes
    -----
    The objective in the trace is that of the columns so far; it may jump when a
    column is added.  A round that ends above where it began is taken back.
    """

    inner_iterations: int = 1_000_000

    trace_columns: ClassVar[tuple[str, ...]] = (*alternation.RoundSolver.trace_columns, "column")

    state_type: ClassVar[type[alternation.RoundState]] = GrowthState

    def begin(self, state: GrowthState) -> GrowthState:
        """Start again with the first column of the present W."""
        state = super().begin(state)
        return replace(state, guess=state.x, column=-1, whole_value=state.value)

    def inner_floor(self, state: GrowthState) -> bool:
        """Whether all columns have been found; if not, the next one is begun."""
        return state.column + 1 >= state.guess.shape[1] and state.inner_done

    def improve(self, state: GrowthState) -> GrowthState:
        if state.column < 0:
            return self._with_column(state)
        moved = self._descended(state)
        small = state.value - moved.value <= self.inner_tolerance * abs(state.value)
        if moved.x is not state.x and not small and moved.steps < COLUMN_STEPS:
            return moved
        if state.column + 1 < state.guess.shape[1]:
            return self._with_column(moved)
        if moved.value > state.whole_value:
            moved = replace(moved, x=state.guess, value=state.whole_value)
        return replace(moved, inner_done=True)

    def notes(self, state: GrowthState) -> Sequence[str]:
        if state.outcome is not Status.CONVERGED:
            return super().notes(state)
        slope = state.objective.value_and_gradient(state.x)[1]
        size = max(float(np.linalg.norm(slope)), 1e-300)
        share = alternation.residual_norm(state.x, slope) / size
        return (
            f"dimension growth met its own criterion, but {share:.0%} of the gradient is along the "
            "manifold: columns found one by one are not stationary together, as those of ism are",
        ) * (share >= AT_REST)

    def _with_column(self, state: GrowthState) -> GrowthState:
        """The state with one more column to find."""
        c = state.column + 1
        w = state.x.copy() if c > 0 else np.zeros_like(state.guess)
        w[:, c:] = 0.0
        known = w[:, :c]
        column = state.guess[:, c] - known @ (known.T @ state.guess[:, c])
        if np.linalg.norm(column) < 1e-6:  # the guess lies in the span of those found
            rest = np.eye(len(w)) - known @ known.T
            column = rest[:, int(np.linalg.norm(rest, axis=0).argmax())]
        w[:, c] = column / np.linalg.norm(column)
        value, slope = state.objective.value_and_gradient(w)
        evaluations = state.evaluations + 1
        state = alternation.moved_to(
            state, w, column=c, steps=0, value=value, slope=slope, evaluations=evaluations
        )
        return replace(state, length=0.1 / max(self._tangent(state)[1], 1e-300))

    def _tangent(self, state: GrowthState) -> tuple[Array, float]:
        """The column's gradient along the sphere, and its norm."""
        columns = state.x[:, : state.column + 1]
        slope = state.slope[:, state.column]
        tangent = slope - columns @ (columns.T @ slope)
        return agreed(state.objective.comm, (tangent, float(np.linalg.norm(tangent))))

    def _descended(self, state: GrowthState) -> GrowthState:
        """The state after a step, at the same W where none lowers the objective."""
        tangent, norm = self._tangent(state)
        state = replace(state, gradient_norm=norm, steps=state.steps + 1)
        if norm == 0.0:
            return state
        w = state.x
        known = w[:, : state.column]

        def along(length: float) -> Array:
            column = w[:, state.column] - length * tangent
            column = column - known @ (known.T @ column)
            candidate = w.copy()
            candidate[:, state.column] = column / np.linalg.norm(column)
            return candidate

        search = backtrack(
            along, state.objective.value_and_gradient, state.value, -(norm**2), state.length,
            alternation.MAX_TRIALS, ratios=(SHRINK, SHRINK),
        )  # fmt: skip
        evaluations = state.evaluations + search.trials
        if not search.accepted:
            return replace(state, evaluations=evaluations)
        value, slope = search.outcome
        return alternation.moved_to(
            state, search.x, value=value, slope=slope, evaluations=evaluations,
            step_length=search.step, length=2.0 * search.step,
        )  # fmt: skip
