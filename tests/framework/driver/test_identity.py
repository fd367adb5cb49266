"""A run goes on from its own checkpoint and from no other."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg
from thalweg.driver import Checkpoints, HomotopySchedule, drive
from thalweg.errors import CheckpointError, InputError

START = np.arange(46.0).reshape(23, 2)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": "gradient-descent"}, "solver was 'LBFGS' and is now 'GradientDescent'"),
        ({"memory": 4}, r"solver\.memory was 10 and is now 4"),
        ({"seed": 1}, "seed was 0 and is now 1"),
        ({"x0": START}, "seed was 0 and is now None"),
        ({"homotopy": HomotopySchedule((2.0, 1.0))}, "homotopy was None"),
    ],
)
def test_another_method_or_start_is_refused(comm, bowl, folder, change, message):
    rules = {"solver": "lbfgs", "checkpoint": folder}
    objective = bowl(comm)
    if "x0" in change:
        change = {"x0": objective.layout.local(change["x0"])}
    thalweg.minimize(objective, iterations=3, **rules)
    with pytest.raises(CheckpointError, match=message) as caught:
        thalweg.minimize(objective, **{**rules, **change}, resume=True)
    assert isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)


@pytest.mark.ranks(1, 2)
def test_another_problem_is_refused(comm, bowl, folder):
    class Other(bowl):
        pass

    thalweg.minimize(bowl(comm), iterations=3, checkpoint=folder)
    with pytest.raises(CheckpointError, match="objective was"):
        thalweg.minimize(Other(comm), checkpoint=folder, resume=True)


@pytest.mark.ranks(1, 2)
def test_a_given_start_is_told_from_another(comm, bowl, folder):
    objective = bowl(comm)
    rows = objective.layout.local(START)
    thalweg.minimize(objective, rows, iterations=3, checkpoint=folder)
    longer = thalweg.minimize(objective, rows, iterations=5, checkpoint=folder, resume=True)
    assert longer.trace["iteration"].tolist() == list(range(len(longer.trace)))
    with pytest.raises(CheckpointError, match="x0 was"):
        thalweg.minimize(objective, rows + 1.0, checkpoint=folder, resume=True)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("second", ["gradient-descent", "nonlinear-cg"])
def test_a_state_of_another_solver_is_refused_without_an_identity_too(comm, bowl, folder, second):
    from thalweg_descent.gradient_descent import GradientDescent
    from thalweg_descent.lbfgs import LBFGS
    from thalweg_descent.nonlinear_cg import NonlinearCG

    kinds = {"gradient-descent": GradientDescent, "nonlinear-cg": NonlinearCG}
    objective, checkpoints = bowl(comm), Checkpoints(folder)
    drive(objective, LBFGS(), objective.initial_point(0), checkpoints=checkpoints)
    with pytest.raises(CheckpointError, match="its solver was LBFGS"):
        drive(
            objective,
            kinds[second](),
            objective.initial_point(0),
            checkpoints=checkpoints,
            resume=True,
        )
