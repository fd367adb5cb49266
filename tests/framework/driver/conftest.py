"""A problem and a solver small enough to know everything about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from thalweg.interfaces import Homotopy, RowObjective, Solver, SolverState
from thalweg.parallel import MPI, Layout, Vector, sum_over_ranks


class Bowl(RowObjective, Homotopy):
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

    def rows_value_and_gradient(self, rows: np.ndarray, gradient: np.ndarray) -> float:
        weight = 1.0 + np.arange(self.layout.start, self.layout.stop)[:, None]
        away = rows - self._target
        gradient[...] = weight * away
        return sum_over_ranks(self.comm, 0.5 * float((weight * away**2).sum()))


@dataclass(kw_only=True)
class HeavyBallState(SolverState):
    velocity: Vector
    past: list[Any]
    note: str = "rolling"


@dataclass(frozen=True)
class HeavyBall(Solver[HeavyBallState]):
    """Gradient descent with momentum: its memory makes exact resumption a real test."""

    rate: float = 0.01
    trace_columns = ("speed",)

    def init(self, objective: RowObjective, x: Vector) -> HeavyBallState:
        gradient = objective.layout.create_vec()
        value = objective.value_and_gradient(x, gradient)
        return HeavyBallState(
            objective=objective,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=gradient.norm(),
            evaluations=1,
            velocity=objective.layout.create_vec(),
            past=[],
        )

    def step(self, state: HeavyBallState) -> HeavyBallState:
        state.velocity.scale(0.7)
        state.velocity.axpy(-self.rate, state.gradient)
        state.x.axpy(1.0, state.velocity)
        state.value = state.objective.value_and_gradient(state.x, state.gradient)
        state.gradient_norm = state.gradient.norm()
        state.evaluations += 1
        state.past = [*state.past[-2:], np.array([state.value])]
        return state

    def trace_row(self, state: HeavyBallState) -> Mapping[str, float]:
        return {"speed": state.velocity.norm()}


@pytest.fixture
def bowl() -> Callable[..., Bowl]:
    return Bowl


@pytest.fixture
def heavy_ball() -> type[HeavyBall]:
    return HeavyBall


@pytest.fixture
def folder(comm, tmp_path_factory):
    """A folder that all ranks know."""
    path = comm.bcast(tmp_path_factory.mktemp("checkpoint") if comm.rank == 0 else None)
    yield path
    comm.Barrier()
