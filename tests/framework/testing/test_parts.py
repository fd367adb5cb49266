"""The checks of preconditioners and solvers pass what is right and name what is not."""

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from thalweg.interfaces import Preconditioner, Solver, SolverState
from thalweg.testing import SpringProblem, check_preconditioner, check_solver


class Diagonal(Preconditioner):
    """The Hessian diagonal of the spring problem."""

    def setup(self, objective, x):
        self.objective = objective
        self.diagonal = x.duplicate()
        objective.hessian_diagonal(x, self.diagonal)

    def apply(self, residual, direction):
        np.divide(residual.rows, self.diagonal.rows, out=direction.rows)


@dataclass(kw_only=True)
class DescentState(SolverState):
    momentum: Any = None
    counts: list = field(default_factory=list)


@dataclass(frozen=True)
class Descent(Solver):
    """Heavy ball with a fixed step: its memory must be in the state."""

    step_size: float = 0.05
    preconditioner: Preconditioner | None = None
    preconditioned: ClassVar[bool] = True
    trace_columns: ClassVar[tuple[str, ...]] = ("speed",)

    def init(self, objective, x):
        gradient = x.duplicate()
        value = objective.value_and_gradient(x, gradient)
        return DescentState(
            objective=objective,
            x=x,
            value=value,
            gradient=gradient,
            gradient_norm=gradient.norm(),
            evaluations=1,
            momentum=x.duplicate(),
        )

    def step(self, state):
        direction = state.x.duplicate()
        self.preconditioner.apply(state.gradient, direction)
        state.momentum.scale(0.5)
        state.momentum.axpy(-self.step_size * 5, direction)
        state.x.axpy(1.0, state.momentum)
        state.value = state.objective.value_and_gradient(state.x, state.gradient)
        state.gradient_norm = state.gradient.norm()
        state.evaluations += 1
        state.counts = [*state.counts, state.evaluations]
        return state

    def trace_row(self, state):
        return {"speed": state.momentum.norm()}


def built(kind=Descent, **options):
    return lambda: kind(preconditioner=Diagonal(), **options)


def preconditioner_refusal(comm, kind):
    objective = SpringProblem(comm)
    with pytest.raises(AssertionError) as caught:
        check_preconditioner(kind(), objective, objective.initial_point(0))
    return str(caught.value)


def solver_refusal(comm, build):
    objective = SpringProblem(comm)
    with pytest.raises(AssertionError) as caught:
        check_solver(build, objective, objective.initial_point(0))
    return str(caught.value)


@pytest.mark.ranks(1, 2, 3)
def test_right_parts_pass(comm):
    for rows in (24, 2):
        objective = SpringProblem(comm, rows)
        x = objective.initial_point(0)
        check_preconditioner(Diagonal(), objective, x)
        check_solver(built(), objective, x, decreasing=rows == 24)


@pytest.mark.ranks(1, 2)
def test_an_indefinite_preconditioner_is_found(comm):
    class Indefinite(Diagonal):
        def apply(self, residual, direction):
            residual.copy(direction)
            direction.scale(-1.0)

    assert re.search(r"not positive definite: .* -1\.0e\+00 relative", preconditioner_refusal(
        comm, Indefinite
    ))  # fmt: skip


@pytest.mark.ranks(1, 2)
def test_a_preconditioner_that_is_skewed_bent_or_moody_is_found(comm):
    class Skewed(Diagonal):
        def apply(self, residual, direction):
            layout = self.objective.layout
            rows = layout.reading(residual)
            with layout.writing(direction) as block:
                block[...] = rows
                block[:, 0] += 0.5 * rows[:, 1]

    class Bent(Diagonal):
        def apply(self, residual, direction):
            residual.copy(direction)
            direction.scale(1 + residual.norm() / 100)

    class Moody(Diagonal):
        def apply(self, residual, direction):
            self.calls = getattr(self, "calls", 0) + 1
            residual.copy(direction)
            direction.scale(1 + 1e-12 * self.calls)

    class Adding(Diagonal):
        def apply(self, residual, direction):
            direction.axpy(1.0, residual)

    class Careless(Diagonal):
        def apply(self, residual, direction):
            residual.copy(direction)
            residual.scale(2.0)

    assert "not symmetric" in preconditioner_refusal(comm, Skewed)
    assert re.search("not (linear|symmetric)", preconditioner_refusal(comm, Bent))
    assert "another direction for the same residual" in preconditioner_refusal(comm, Moody)
    assert "adds to the vector" in preconditioner_refusal(comm, Adding)
    assert "changes the vector that it is applied to" in preconditioner_refusal(comm, Careless)


@pytest.mark.ranks(1, 2)
def test_a_preconditioner_that_forgets_is_found(comm):
    class Learning(Diagonal):
        def setup(self, objective, x):
            super().setup(objective, x)
            self.scale = 1.0

        def update(self, x):
            self.scale *= 1.5

        def apply(self, residual, direction):
            super().apply(residual, direction)
            direction.scale(self.scale)

    class Remembering(Learning):
        def state(self):
            return {"scale": self.scale}

        def restore(self, state):
            self.scale = state["scale"]

    check_preconditioner(
        Remembering(), objective := SpringProblem(comm), objective.initial_point(0)
    )

    class Forgetting(Learning):
        def state(self):
            return {"scale": 1.0}

        def restore(self, state):
            self.scale = 7.0

    assert "restored from its state" in preconditioner_refusal(comm, Forgetting)


@pytest.mark.ranks(1, 2)
def test_memory_outside_the_state_is_found(comm):
    memory = []

    @dataclass(frozen=True)
    class Hiding(Descent):
        def init(self, objective, x):
            memory.clear()
            return super().init(objective, x)

        def step(self, state):
            memory.append(1)
            state.momentum.scale(1 + 0.01 * len(memory))
            return super().step(state)

    text = solver_refusal(comm, built(Hiding))
    assert "missing from the state" in text
    assert re.search(r"ends \d\.\de[-+]\d\d away", text)


def test_a_solver_that_is_not_frozen_is_found(comm):
    class Loose(Descent.__mro__[1]):
        def init(self, objective, x):
            raise NotImplementedError

        def step(self, state):
            raise NotImplementedError

    assert "frozen=True" in solver_refusal(comm, Loose)


def test_a_state_of_strange_things_is_found(comm):
    @dataclass(frozen=True)
    class Strange(Descent):
        def step(self, state):
            state = super().step(state)
            state.counts = [{"seen": {1, 2}}]
            return state

    text = solver_refusal(comm, built(Strange))
    assert "after step 1 state field 'counts.0.seen' is a set" in text


@pytest.mark.ranks(1, 2)
def test_a_stale_value_or_gradient_is_found(comm):
    @dataclass(frozen=True)
    class Stale(Descent):
        def step(self, state):
            value = state.value
            state = super().step(state)
            state.value = value
            return state

    @dataclass(frozen=True)
    class StaleGradient(Descent):
        def step(self, state):
            state = super().step(state)
            state.gradient.scale(1.01)
            return state

    assert "the objective at its x is" in solver_refusal(comm, built(Stale))
    assert "away from the gradient at its x" in solver_refusal(comm, built(StaleGradient))


def test_columns_that_are_not_declared_are_found(comm):
    @dataclass(frozen=True)
    class Chatty(Descent):
        def trace_row(self, state):
            return {"speed": 1.0, "mood": 2.0}

    assert "['mood'], which trace_columns does not declare" in solver_refusal(comm, built(Chatty))


def test_rising_is_found_only_where_it_was_ruled_out(comm):
    objective = SpringProblem(comm)
    x = objective.initial_point(0)
    build = built(step_size=0.5)
    with pytest.raises(AssertionError, match="the objective rose from"):
        check_solver(build, objective, x, decreasing=True)
    check_solver(build, objective, x, steps=3)


def test_the_starting_point_of_the_check_stays_as_it_is(comm):
    objective = SpringProblem(comm)
    x = objective.initial_point(0)
    before = np.array(x.getArray())
    check_solver(built(), objective, x)
    assert np.array_equal(before, x.getArray())
