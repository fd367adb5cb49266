"""The checks of preconditioners and solvers pass what is right and name what is not."""

import re
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from thalweg.interfaces import Preconditioner, Rows, Solver, SolverState
from thalweg.result import Status
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
        number = state.evaluations + 1
        more = {"momentum": momentum, "counts": [*state.counts, number]}
        return state.at(x, value, gradient, evaluations=number, **more)

    def trace_row(self, state):
        return {"speed": state.objective.layout.norm(state.momentum)}


def built(kind=Descent, **options):
    return lambda: kind(preconditioner=Diagonal(), **options)


def refusal(comm, check, part):
    """What a check says against a preconditioner, or what builds a solver."""
    objective = SpringProblem(comm)
    with pytest.raises(AssertionError) as caught:
        check(part, objective, objective.initial_point(0))
    return str(caught.value)


@pytest.mark.ranks(1, 2, 3)
def test_right_parts_pass(comm):
    for rows in (24, 2):
        objective = SpringProblem(comm, rows)
        x = objective.initial_point(0)
        check_preconditioner(Diagonal(), objective, x)
        check_solver(built(), objective, x, decreasing=rows == 24)


def moody(self, residual):
    self.calls = getattr(self, "calls", 0) + 1
    return residual * (1 + 1e-12 * self.calls)


def reusing(self, residual):
    self.buffer = getattr(self, "buffer", np.empty_like(residual))
    return np.divide(residual, self.diagonal, out=self.buffer)


def careless(self, residual):
    residual *= 2.0
    return 0.5 * residual


def turned(self, residual):
    signs = np.ones(residual.shape)
    signs[1:2, 1] = -1.0 if self.layout.start == 0 else 1.0
    return signs * residual


#: Wrong ways to apply a preconditioner, and what is said of them.
APPLIED = {
    r"not positive definite: .* -1\.0e\+00 relative": lambda _, residual: -residual,
    r"not positive definite: .* is -1\.000e\+00 for some r": turned,
    r"is -5\.000e-01 for some unit r": lambda self, r: r - self.layout.dot(0 * r + 1, r) / 32,
    "not symmetric": lambda _, residual: residual + [0.5, 0.0] * residual[:, ::-1],
    "not (linear|symmetric)": lambda self, r: r * (1 + self.layout.norm(r) / 100),
    "another direction for the same residual": moody,
    "the array of the call before": reusing,
    "changes what it is applied to": careless,
}


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("said", APPLIED)
def test_a_preconditioner_that_is_wrong_is_found(comm, said):
    kind = type("Wrong", (Diagonal,), {"apply": APPLIED[said]})
    assert re.search(said, refusal(comm, check_preconditioner, kind()))
    writing = type("Writing", (Diagonal,), {"update": lambda _, x: x.fill(0.0)})()
    with pytest.raises(ValueError, match="read-only"):
        refusal(comm, check_preconditioner, writing)


@pytest.mark.ranks(1, 2)
def test_a_preconditioner_that_forgets_is_found(comm):
    class Remembering(Diagonal):
        def setup(self, objective, x):
            super().setup(objective, x)
            self.scale = 1.0

        def update(self, x):
            self.scale *= 1.5

        def apply(self, residual):
            return self.scale * super().apply(residual)

        def state(self):
            return {"scale": self.scale}

        def restore(self, state):
            self.scale = state["scale"]

    class Forgetting(Remembering):
        def restore(self, state):
            self.scale = 7.0

    objective = SpringProblem(comm)
    check_preconditioner(Remembering(), objective, objective.initial_point(0))
    assert "restored from its state" in refusal(comm, check_preconditioner, Forgetting())


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(("period", "by_init"), [(100, True), (3, True), (100, False)])
def test_memory_outside_the_state_is_found(comm, period, by_init):
    memory = []

    @dataclass(frozen=True)
    class Hiding(Descent):
        def init(self, objective, x):
            del memory[: 100 * by_init]
            return super().init(objective, x)

        def step(self, state):
            del memory[: 100 * (state.evaluations == 1)]
            memory.append(1)
            momentum = (1 + 0.01 * (len(memory) % period)) * state.momentum
            return super().step(replace(state, momentum=momentum))

    text = refusal(comm, check_solver, built(Hiding))
    assert re.search(r"ends \d\.\de[-+]\d\d away.*missing from the state", text)


def test_a_solver_that_is_not_frozen_is_found(comm):
    class Loose(Solver):
        def init(self, objective, x):
            raise NotImplementedError

        step = init

    assert "frozen=True" in refusal(comm, check_solver, Loose)


def overwritten(state, after):
    state.x.flags.writeable = True
    state.x[...] = after.x
    return after


def forgotten(state, after):
    state.momentum[...] = 7.0
    return after


#: Wrong states after a step, and what is said of them.
STEPPED = {
    r"after step 1 state field 'counts\.0\.seen' is a set": lambda _, after: replace(
        after, counts=[{"seen": {1, 2}}]
    ),
    "the objective at its x is": lambda state, after: replace(after, value=state.value),
    "away from the gradient at its x": lambda _, new: replace(new, gradient=1.01 * new.gradient),
    "a step returns a new state": overwritten,
    "the state before it is another": forgotten,
    "no limit on it would end a run": lambda state, after: replace(after, evaluations=1),
    "it ends where it began": lambda state, after: replace(
        state, evaluations=after.evaluations, outcome=Status.PRECISION_LIMIT
    ),
    "gradient_norm is": lambda _, after: replace(after, gradient_norm=2.0 * after.gradient_norm),
}


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("said", STEPPED)
def test_a_step_that_is_wrong_is_found(comm, said):
    @dataclass(frozen=True)
    class Wrong(Descent):
        def step(self, state):
            return STEPPED[said](state, super().step(state))

    assert re.search(said, refusal(comm, check_solver, built(Wrong)))


def test_a_solver_that_climbs_is_found(comm):
    assert "up to" in refusal(comm, check_solver, built(step_size=-0.01))


def test_columns_that_are_not_declared_are_found(comm):
    @dataclass(frozen=True)
    class Chatty(Descent):
        def trace_row(self, state):
            return {"speed": 1.0, "mood": 2.0}

    said = "['mood'], which trace_columns does not declare"
    assert said in refusal(comm, check_solver, built(Chatty))


def test_rising_is_found_only_where_it_was_ruled_out(comm):
    objective = SpringProblem(comm)
    x = objective.initial_point(0)
    before, build = x.copy(), built(step_size=0.3)
    with pytest.raises(AssertionError, match="the objective rose from"):
        check_solver(build, objective, x, decreasing=True)
    check_solver(build, objective, x)
    assert np.array_equal(before, x)
