"""Evaluation of the starting point and of trial points, for both solvers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import Objective, SolverState
from thalweg.parallel import Array
from thalweg_saddlefree.capabilities import draw_curvature_rows
from thalweg_saddlefree.curvature import Slices

S = TypeVar("S", bound=SolverState)


def evaluated_start(
    objective: Objective, x: Array, curvature_rows: int | None
) -> tuple[float, Array, float]:
    """Value, gradient and its norm at the starting point, refused if not finite.  Collective."""
    draw_curvature_rows(objective, 0, 0, curvature_rows)
    value, gradient = objective.value_and_gradient(x)
    slices = Slices.of(objective)
    norm = slices.norm(slices.take(gradient))
    if not np.isfinite(value) or not np.isfinite(norm):
        raise InputError(
            f"the objective or its gradient is not finite at the starting point ({value}); "
            "start from another point or scale the data"
        )
    return value, gradient, norm


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
        return self.slices.norm(self.slices.take(gradient))

    def accepted(self, state: S, step: np.ndarray, **changes: Any) -> S:
        """The state at ``x + step``, evaluated, with further changes of the one given."""
        x = self.point(step)
        value, gradient = self.objective.value_and_gradient(x)
        return replace(
            state,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=self.slices.norm(self.slices.take(gradient)),
            evaluations=state.evaluations + self.evaluations + 1,
            **changes,
        )
