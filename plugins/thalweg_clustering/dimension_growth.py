"""Dimension growth: the columns of W one after the other, each by gradient descent.

Niu, Dy and Jordan (2014), the way that KDAC was first solved: with the columns
found so far held fixed, the next one descends on the sphere orthogonal to them.
Columns to come are zero, which the objective takes as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from thalweg.parallel import agreed
from thalweg.plugins import Help
from thalweg_clustering.alternating import (
    Armijo,
    RoundSolver,
    RoundState,
    Shrink,
    evaluated,
    matrix_of,
    no_array,
    put_matrix,
    residual_norm,
)


@dataclass(kw_only=True)
class GrowthState(RoundState):
    """State of :class:`DimensionGrowth`.

    Attributes
    ----------
    column
        The column that is being found.
    guess
        W that the columns start from, shape ``(d, q)``.
    slope
        Gradient with respect to W at the columns so far, shape ``(d, q)``.
    length
        First length to try in the next step.
    whole_value
        Objective of ``guess`` with all its columns, which a round must not exceed.
    steps
        Steps on the present column.
    """

    guess: np.ndarray = field(default_factory=no_array)
    slope: np.ndarray = field(default_factory=no_array)
    column: int = 0
    length: float = 0.0
    whole_value: float = float("nan")
    steps: int = 0


@dataclass(frozen=True)
class DimensionGrowth(RoundSolver[GrowthState]):
    """Dimension growth (the paper's DG).

    Notes
    -----
    The objective in the trace is that of the columns so far; it may jump when a
    column is added.  A round that ends above where it began is taken back.
    """

    inner_iterations: int = 1_000_000
    column_iterations: Annotated[int, Help("maximum number of steps on one column", minimum=1)] = (
        200
    )
    armijo: Armijo = 1e-4
    shrink: Shrink = 0.5

    trace_columns: ClassVar[tuple[str, ...]] = (*RoundSolver.trace_columns, "column")

    state_type: ClassVar[type[RoundState]] = GrowthState

    def begin(self, state: GrowthState) -> None:
        """Start again with the first column of the present W."""
        state.guess = matrix_of(state)
        state.whole_value, slope = evaluated(state.objective, state.guess)
        state.evaluations += 1
        state.value = state.whole_value
        state.gradient_norm = residual_norm(state.guess, slope)
        state.column = -1

    def inner_floor(self, state: GrowthState) -> bool:
        """Whether all columns have been found; if not, the next one is begun."""
        return state.column + 1 >= state.guess.shape[1] and state.inner_done

    def improve(self, state: GrowthState) -> None:
        """One step on the present column."""
        if state.column < 0:
            self._add_column(state)
            return
        before = state.value
        moved = self._descend(state)
        state.steps += 1
        small = before - state.value <= self.inner_tolerance * abs(before)
        if not moved or small or state.steps >= self.column_iterations:
            if state.column + 1 < state.guess.shape[1]:
                self._add_column(state)
            else:
                self._finish(state)

    def _add_column(self, state: GrowthState) -> None:
        state.column += 1
        state.steps = 0
        c = state.column
        w = matrix_of(state) if c > 0 else np.zeros_like(state.guess)
        w[:, c:] = 0.0
        known = w[:, :c]
        column = state.guess[:, c] - known @ (known.T @ state.guess[:, c])
        if np.linalg.norm(column) < 1e-6:  # the guess lies in the span of those found
            rest = np.eye(len(w)) - known @ known.T
            column = rest[:, int(np.linalg.norm(rest, axis=0).argmax())]
        w[:, c] = column / np.linalg.norm(column)
        put_matrix(state, w)
        state.value, state.slope = evaluated(state.objective, w)
        state.evaluations += 1
        state.length = 0.1 / max(self._tangent(state, matrix_of(state))[1], 1e-300)

    def _tangent(self, state: GrowthState, w: np.ndarray) -> tuple[np.ndarray, float]:
        """The column's gradient along the sphere, and its norm."""
        found = w[:, : state.column + 1]
        slope = state.slope[:, state.column]
        tangent = slope - found @ (found.T @ slope)
        return agreed(state.objective.comm, (tangent, float(np.linalg.norm(tangent))))

    def _descend(self, state: GrowthState) -> bool:
        w = matrix_of(state)
        tangent, norm = self._tangent(state, w)
        state.gradient_norm = norm
        if norm == 0.0:
            return False
        known = w[:, : state.column]
        length = state.length
        for _ in range(40):
            column = w[:, state.column] - length * tangent
            column = column - known @ (known.T @ column)
            candidate = w.copy()
            candidate[:, state.column] = column / np.linalg.norm(column)
            value, slope = evaluated(state.objective, candidate)
            state.evaluations += 1
            if value <= state.value - self.armijo * length * norm**2:
                put_matrix(state, candidate)
                state.value, state.slope = value, slope
                state.step_length, state.length = length, 2.0 * length
                return True
            length *= self.shrink
        return False

    def _finish(self, state: GrowthState) -> None:
        state.inner_done = True
        if state.value > state.whole_value:
            put_matrix(state, state.guess)
            state.value = state.whole_value

    def trace_row(self, state: GrowthState) -> Mapping[str, float]:
        """Beside the common columns, the column that is being found."""
        return {**super().trace_row(state), "column": state.column}
