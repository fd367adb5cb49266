"""What a solver inherits."""

from dataclasses import dataclass, replace

import numpy as np

from thalweg.interfaces import Objective, Solver, SolverState
from thalweg.parallel import MPI, Layout


class Bowl(Objective):
    """Half the squared distance from a target."""

    def __init__(self):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 3, 2))
        self.target = 1.0

    def value_and_gradient(self, x):
        gradient = x - self.target
        return 0.5 * float(np.sum(gradient**2)), gradient


@dataclass(frozen=True)
class Waiting(Solver):
    """Evaluates and stays."""

    def init(self, objective, x):
        value, gradient = objective.value_and_gradient(x)
        return SolverState(objective=objective, x=x, value=value, gradient=gradient, evaluations=1)

    def step(self, state):
        return replace(state, evaluations=state.evaluations + 4)


def test_a_reset_evaluates_anew_and_goes_on_counting():
    objective, solver = Bowl(), Waiting()
    state = solver.step(solver.init(objective, np.zeros(objective.layout.shape)))
    objective.target = 2.0
    state = solver.reset(state)
    assert state.value == 12.0
    assert state.evaluations == 1 + 4 + 1
