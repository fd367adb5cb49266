"""A preconditioner that is asked for is used, or refused."""

from __future__ import annotations

import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.interfaces import Preconditioner
from thalweg.parallel import MPI


@pytest.fixture
def problem(bowl):
    return bowl(MPI.COMM_SELF)


@pytest.mark.parametrize("name", ["identity", "spectrl"])
def test_a_solver_object_brings_its_own_preconditioner(problem, name):
    from thalweg_descent.identity import Identity
    from thalweg_descent.lbfgs import LBFGS

    for given in (name, Identity()):
        with pytest.raises(InputError, match=r"LBFGS\(preconditioner=\.\.\.\)"):
            thalweg.minimize(problem, solver=LBFGS(), preconditioner=given, iterations=1)


@pytest.mark.parametrize("name", ["identity", "spectrl"])
def test_a_solver_that_takes_none_refuses_one(problem, heavy_ball, name):
    with pytest.raises(InputError, match="HeavyBall takes no preconditioner; leave it out"):
        thalweg.minimize(problem, solver=heavy_ball(), preconditioner=name, iterations=1)
    with pytest.raises(InputError, match="solver 'scipy' takes no preconditioner; leave it out"):
        thalweg.minimize(problem, solver="scipy:CG", preconditioner=name, iterations=1)


def test_a_misspelled_name_is_refused(problem):
    with pytest.raises(InputError, match="did you mean 'spectral'"):
        thalweg.minimize(problem, preconditioner="spectrl", iterations=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preconditioner": Preconditioner}, "must be a name or a Preconditioner object, not <cl"),
        ({"preconditioner": {"name": "identity"}}, "must be a name or a Preconditioner object"),
        ({"solver": 3}, "solver must be a name or a Solver object, not 3"),
        ({"checkpoint": ""}, "checkpoint must be the name of a folder, or None, not ''"),
        ({"seed": "one"}, "option 'seed' of minimize must be an integer, not 'one'"),
        ({"seed": -1}, "option 'seed' of minimize must be at least 0, not -1"),
        ({"seed": None}, "option 'seed' of minimize must be an integer, not None"),
    ],
)
def test_what_is_neither_a_name_nor_a_part_is_refused(problem, given, message):
    with pytest.raises(InputError, match=message):
        thalweg.minimize(problem, iterations=1, **given)
