"""A preconditioner that is asked for is used, or refused."""

from __future__ import annotations

import pytest

import thalweg
from thalweg.errors import InputError
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
