"""A problem and a solver small enough to know everything about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from thalweg.interfaces import Homotopy, Objective, Rows, Solver, SolverState
from thalweg.parallel import MPI, Layout, sum_over_ranks


class Bowl(Objective, Homotopy):
    """Half the sum of i (x_i - lambda)^2 over rows i, columns alike."""

    def __init__(self, comm: MPI.Comm, rows: int = 23, target: float = 1.0) -> None:
        super().__init__(comm, Layout(comm, rows, 2))
        self._target = target
        self.visited: list[float] = []

    @property
    def homotopy_parameter(self) -> float:
        return self._target

    @homotopy_parameter.setter
    def homotopy_parameter(self, value: float) -> None:
        self._target = value
        self.visited.append(value)

    def value_and_gradient(self, x):
        weight = 1.0 + np.arange(self.layout.start, self.layout.stop)[:, None]
        away = x - self._target
        return sum_over_ranks(self.comm, 0.5 * float((weight * away**2).sum())), weight * away


@dataclass(frozen=True, kw_only=True)
class HeavyBallState(SolverState):
    velocity: Rows
    past: list[Any]
    note: str = "rolling"


@dataclass(frozen=True)
class HeavyBall(Solver[HeavyBallState]):
    """Gradient descent with momentum: its memory makes exact resumption a real test."""

    rate: float = 0.01
    trace_columns = ("speed",)

    def init(self, objective, x):
        return HeavyBallState.evaluated(objective, x, velocity=np.zeros_like(x), past=[])

    def step(self, state):
        velocity = 0.7 * state.velocity - self.rate * state.gradient
        x = state.x + velocity
        value, gradient = state.objective.value_and_gradient(x)
        number, past = state.evaluations + 1, [*state.past[-2:], np.array([value])]
        return state.at(x, value, gradient, evaluations=number, velocity=velocity, past=past)

    def trace_row(self, state: HeavyBallState) -> Mapping[str, float]:
        return {"speed": state.objective.layout.norm(state.velocity)}


bowl, heavy_ball = pytest.fixture(lambda: Bowl), pytest.fixture(lambda: HeavyBall)
