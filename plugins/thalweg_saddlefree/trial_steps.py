"""Trial points, for all solvers."""

from typing import Any, TypeVar

import numpy as np

from thalweg.interfaces import SolverState
from thalweg.parallel import Array
from thalweg_saddlefree.curvature import Slices

S = TypeVar("S", bound=SolverState)


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
        return self.objective.layout.norm(gradient)

    def accepted(self, state: S, step: np.ndarray, **changes: Any) -> S:
        """The state at ``x + step``, evaluated, with further changes of the one given."""
        x = self.point(step)
        value, gradient = self.objective.value_and_gradient(x)
        evaluations = state.evaluations + self.evaluations + 1
        return state.at(x, value, gradient, evaluations=evaluations, **changes)
