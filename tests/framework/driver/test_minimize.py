"""A preconditioner that is asked for is used, or refused."""

import numpy as np
import pytest

import thalweg
from thalweg.driver import HomotopySchedule
from thalweg.errors import CapabilityError, InputError
from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import MPI, Layout
from thalweg_clustering import StiefelVariable
from thalweg_descent.lbfgs import LBFGS


@pytest.fixture
def problem(bowl):
    return bowl(MPI.COMM_SELF)


@pytest.mark.parametrize("name", ["identity", "spectrl"])
def test_a_solver_object_brings_its_own_preconditioner(problem, name):
    from thalweg_descent.descent import Identity

    for given in (name, Identity()):
        with pytest.raises(InputError, match=r"LBFGS\(preconditioner=\.\.\.\)"):
            thalweg.minimize(problem, solver=LBFGS(), preconditioner=given, iterations=1)


@pytest.mark.parametrize("name", ["identity", "spectrl"])
def test_a_solver_that_takes_none_refuses_one(problem, heavy_ball, name):
    with pytest.raises(InputError, match="HeavyBall takes no preconditioner; leave it out"):
        thalweg.minimize(problem, solver=heavy_ball(), preconditioner=name, iterations=1)
    with pytest.raises(InputError, match="solver 'scipy' takes no preconditioner; leave it out"):
        thalweg.minimize(problem, solver="scipy:CG", preconditioner=name, iterations=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preconditioner": Preconditioner}, "must be a name or a Preconditioner object, not <cl"),
        ({"preconditioner": {"name": "identity"}}, "must be a name or a Preconditioner object"),
        ({"solver": 3}, "solver must be a name or a Solver object, not 3"),
        ({"checkpoint": ""}, "checkpoint must be the name of a folder, or None, not ''"),
        ({"checkpoint": 3}, "checkpoint must be the name of a folder, or None, not 3"),
        ({"homotopy": 3}, "homotopy must be a HomotopySchedule, or None, not 3"),
        ({"seed": "one"}, "option 'seed' of minimize must be an integer, not 'one'"),
        ({"seed": -1}, "option 'seed' of minimize must be at least 0, not -1"),
        ({"seed": None}, "option 'seed' of minimize must be an integer, not None"),
    ],
)
def test_what_is_neither_a_name_nor_a_part_is_refused(problem, given, message):
    with pytest.raises(InputError, match=message):
        thalweg.minimize(problem, iterations=1, **given)


class SmallestSubspace(Objective, StiefelVariable):
    """Half the variance in the subspace that X spans; without a manifold, X = 0 is best."""

    def __init__(self):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 6, 2))
        self.variances = np.arange(1.0, 7.0)[:, None]

    def initial_point(self, seed):
        return np.linalg.qr(self.layout.random_normal(seed))[0]

    def value_and_gradient(self, x):
        gradient = self.variances * x
        return 0.5 * float(np.vdot(x, gradient)), gradient


@pytest.mark.parametrize("solver", ["lbfgs", "nonlinear-cg", "scipy", LBFGS()])
def test_a_solver_that_leaves_the_manifold_of_the_variable_is_refused(solver):
    with pytest.raises(CapabilityError, match="needs a variable that is on no manifold"):
        thalweg.minimize(SmallestSubspace(), solver=solver)


def test_a_start_off_the_manifold_of_the_variable_is_refused():
    result = thalweg.minimize(SmallestSubspace(), solver="stiefel", iterations=200)
    assert result.objective == pytest.approx(1.5, rel=1e-5)
    with pytest.raises(InputError, match="x0 lies off the manifold of the variable"):
        thalweg.minimize(SmallestSubspace(), np.full((6, 2), 0.1), solver="stiefel")


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    "differing",
    [
        {"iterations": (4, 5)},
        {"resume": (False, True)},
        {"checkpoint": (None, "folder")},
        {"solver": ("lbfgs", "gradient-descent")},
        {"seed": (0, 1)},
    ],
)
def test_arguments_that_differ_between_ranks_are_refused(comm, bowl, differing):
    own = {name: values[comm.rank] for name, values in differing.items()}
    with pytest.raises(InputError, match="arguments of minimize differ between rank 0 and rank 1"):
        thalweg.minimize(bowl(comm), **{"iterations": 4, **own})


def test_a_run_that_leaves_stages_out_gives_the_parameter_back(problem):
    stages = HomotopySchedule((5.0, 3.0, 1.0))

    def stop(_):
        raise RuntimeError("enough")

    result = thalweg.minimize(problem, homotopy=stages, callback=lambda at: at.iteration == 1)
    assert result.stages_left == 2
    assert problem.homotopy_parameter == 1.0
    with pytest.raises(RuntimeError, match="enough"):
        thalweg.minimize(problem, homotopy=stages, callback=stop)
    assert thalweg.minimize(problem).gather() == pytest.approx(1.0)
