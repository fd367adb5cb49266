"""The checks of preconditioners and solvers pass what is right and name what is not."""

import re
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from thalweg.interfaces import Preconditioner, Rows, Solver, SolverState
from thalweg.testing import SpringProblem, check_preconditioner, check_solver


class Diagonal(Preconditioner):
    """The Hessian diagonal of the spring problem."""

    def setup(self, objective, x):
        self.layout = objective.layout
        self.diagonal = objective.hessian_diagonal(x)

    def apply(self, residual):
        return residual / self.diagonal


@dataclass(frozen=True, kw_only=True)
class DescentState(SolverState):
    momentum: Rows
    counts: list = field(default_factory=list)


@dataclass(frozen=True)
class Descent(Solver):
    """Heavy ball with a fixed step: its memory must be in the state."""

    step_size: float = 0.05
    preconditioner: Preconditioner | None = None
    preconditioned: ClassVar[bool] = True
    trace_columns: ClassVar[tuple[str, ...]] = ("speed",)

    def init(self, objective, x):
        return DescentState.evaluated(objective, x, momentum=np.zeros_like(x))

    def step(self, state):
        direction = self.preconditioner.apply(state.gradient)
        momentum = 0.5 * state.momentum - 5 * self.step_size * direction
        x = state.x + momentum
        value, gradient = state.objective.value_and_gradient(x)
        return state.at(
            x,
            value,
            gradient,
            evaluations=state.evaluations + 1,
            momentum=momentum,
            counts=[*state.counts, state.evaluations + 1],
        )

    def trace_row(self, state):
        return {"speed": state.objective.layout.norm(state.momentum)}


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
        def apply(self, residual):
            return -residual

    assert re.search(r"not positive definite: .* -1\.0e\+00 relative", preconditioner_refusal(
        comm, Indefinite
    ))  # fmt: skip


@pytest.mark.ranks(1, 2)
def test_a_preconditioner_that_is_skewed_bent_or_moody_is_found(comm):
    class Skewed(Diagonal):
        def apply(self, residual):
            return residual + [0.5, 0.0] * residual[:, ::-1]

    class Bent(Diagonal):
        def apply(self, residual):
            return residual * (1 + self.layout.norm(residual) / 100)

    class Moody(Diagonal):
        def apply(self, residual):
            self.calls = getattr(self, "calls", 0) + 1
            return residual * (1 + 1e-12 * self.calls)

    class Reusing(Diagonal):
        def apply(self, residual):
            self.buffer = getattr(self, "buffer", np.empty_like(residual))
            return np.divide(residual, self.diagonal, out=self.buffer)

    class Careless(Diagonal):
        def apply(self, residual):
            residual *= 2.0
            return 0.5 * residual

    assert "not symmetric" in preconditioner_refusal(comm, Skewed)
    assert re.search("not (linear|symmetric)", preconditioner_refusal(comm, Bent))
    assert "another direction for the same residual" in preconditioner_refusal(comm, Moody)
    assert "the array of the call before" in preconditioner_refusal(comm, Reusing)
    assert "changes what it is applied to" in preconditioner_refusal(comm, Careless)


@pytest.mark.ranks(1, 2)
def test_a_preconditioner_that_forgets_is_found(comm):
    class Learning(Diagonal):
        def setup(self, objective, x):
            super().setup(objective, x)
            self.scale = 1.0

        def update(self, x):
            self.scale *= 1.5

        def apply(self, residual):
            return self.scale * super().apply(residual)

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
            momentum = (1 + 0.01 * len(memory)) * state.momentum
            return super().step(replace(state, momentum=momentum))

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
            return replace(super().step(state), counts=[{"seen": {1, 2}}])

    text = solver_refusal(comm, built(Strange))
    assert "after step 1 state field 'counts.0.seen' is a set" in text


@pytest.mark.ranks(1, 2)
def test_a_stale_value_or_gradient_is_found(comm):
    @dataclass(frozen=True)
    class Stale(Descent):
        def step(self, state):
            return replace(super().step(state), value=state.value)

    @dataclass(frozen=True)
    class StaleGradient(Descent):
        def step(self, state):
            after = super().step(state)
            return replace(after, gradient=1.01 * after.gradient)

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
    before = x.copy()
    check_solver(built(), objective, x)
    assert np.array_equal(before, x)


def test_a_step_that_changes_the_state_given_is_found(comm):
    @dataclass(frozen=True)
    class Overwriting(Descent):
        def step(self, state):
            after = super().step(state)
            state.x.flags.writeable = True
            state.x[...] = after.x
            return after

    assert "a step returns a new state" in solver_refusal(comm, built(Overwriting))
