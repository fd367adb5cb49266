"""Evaluation of the starting point and of trial points, for both solvers."""

from __future__ import annotations

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import Objective, SolverState
from thalweg.parallel import Vector
from thalweg_saddlefree.capabilities import draw_curvature_rows
from thalweg_saddlefree.curvature import Slices


def evaluated_start(
    objective: Objective, x: Vector, curvature_rows: int | None
) -> tuple[float, Vector, float]:
    """Value, gradient and its norm at the starting point.  Collective.

    Raises
    ------
    InputError
        One of them is not finite, or rows are to be sampled where there are none.
    """
    draw_curvature_rows(objective, 0, 0, curvature_rows)
    gradient = objective.layout.create_vec()
    value = objective.value_and_gradient(x, gradient)
    slices = Slices.of(objective)
    norm = slices.norm(slices.take(gradient))
    if not np.isfinite(value) or not np.isfinite(norm):
        raise InputError(
            f"the objective or its gradient is not finite at the starting point ({value}); "
            "start from another point or scale the data"
        )
    return value, gradient, norm


def go_to_trial(state: SolverState, slices: Slices, step: np.ndarray, trial: Vector) -> None:
    """Overwrite ``trial`` with ``x + step``."""
    slices.put(step, trial)
    trial.axpy(1.0, state.x)


def trial_value(state: SolverState, slices: Slices, step: np.ndarray, trial: Vector) -> float:
    """Objective at ``x + step``, which ``trial`` then holds; infinite if it is not finite."""
    go_to_trial(state, slices, step, trial)
    state.evaluations += 1
    with np.errstate(over="ignore", invalid="ignore"):
        value = state.objective.value(trial)
    return value if np.isfinite(value) else float("inf")


def accept_trial(state: SolverState, slices: Slices, trial: Vector) -> Vector:
    """Make ``trial`` the iterate, with value and gradient; gives back the old one to free."""
    assert state.gradient is not None
    state.x, trial = trial, state.x
    state.value = state.objective.value_and_gradient(state.x, state.gradient)
    state.gradient_norm = slices.norm(slices.take(state.gradient))
    state.evaluations += 1
    return trial
