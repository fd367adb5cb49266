"""Names and options become a method, in a call as in a file and an estimator, or are refused."""

import dataclasses

import numpy as np
import pytest

import thalweg
from thalweg.driver import HomotopySchedule, Stop, assembly
from thalweg.errors import CapabilityError, InputError
from thalweg.interfaces import Objective, Preconditioner
from thalweg.parallel import MPI, Layout
from thalweg.plugins import ObjectiveSpec, plugins
from thalweg.workbench.config import read_configuration
from thalweg.workbench.run.single_run import build_objective
from thalweg_clustering import StiefelVariable
from thalweg_descent.descent import Identity
from thalweg_descent.lbfgs import LBFGS
from thalweg_embedding import TSNE
from thalweg_isometry import NearIsometricEmbedding


@pytest.fixture
def problem(bowl):
    return bowl(MPI.COMM_SELF)


@pytest.mark.parametrize("name", ["identity", "spectrl"])
def test_a_solver_object_brings_its_own_preconditioner(problem, name):
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
    assert (result.stages_left, problem.homotopy_parameter) == (2, 1.0)
    with pytest.raises(RuntimeError, match="enough"):
        thalweg.minimize(problem, homotopy=stages, callback=stop)
    assert thalweg.minimize(problem).gather() == pytest.approx(1.0)


#: What some objectives cannot be built without.
EXTRA = {"near-isometry": {"delta": 0.4}}

#: Objectives that a file cannot describe without a module beside it.
PYTHON = {"jax"}

OBJECTIVES = [s.name for s in plugins().specs(ObjectiveSpec) if s.name not in PYTHON]


def parts(solver):
    """Type and options of a solver and of its preconditioner."""
    found = {}
    for part in (solver, solver.preconditioner if solver.preconditioned else None):
        fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
        names = {field.name for field in fields} - {"preconditioner"}
        found[type(part)] = {name: getattr(part, name) for name in names}
    return found


@pytest.mark.parametrize(
    ("estimator", "name", "given", "words"),
    [
        (TSNE, "solver_options", ["memory", 5], r"must be a dictionary, .*, not \['memory', 5\]"),
        (
            NearIsometricEmbedding,
            "solver_options",
            {3: 1},
            r"must be a dictionary, .* as keys, not \{3: 1\}",
        ),
        (TSNE, "callback", "print", "must be a function of one argument, or None, not 'print'"),
    ],
)
def test_what_an_estimator_cannot_run_with_is_refused(estimator, name, given, words):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InputError, match=f"'{name}' of {estimator.__name__} {words}") as caught:
        estimator(**{name: given}).fit(rows)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_call_and_a_file_choose_the_same_method_by_default(name):
    spec, _ = plugins().find(ObjectiveSpec, name)
    raw = {"objective": {"name": name, **EXTRA.get(name, {})}}
    if spec.data != "none":
        raw["data"] = {"name": "digits", "rows": 40}
    configuration = read_configuration(raw)
    _, objective = build_objective(configuration, MPI.COMM_SELF)
    of_file = assembly.build_method(objective, configuration.solver, configuration.preconditioner)
    of_call, _ = assembly.method_of_call(objective, None, None, {})
    assert (parts(of_call), objective.default_solver) == (parts(of_file), spec.solver)
    assert objective.default_stop == spec.stop


def test_an_option_goes_to_the_part_that_has_it(problem):
    options = {"memory": 3, "iterations": 7, "seconds": 5.0}
    solver, rules = assembly.method_of_call(problem, "lbfgs", None, options)
    assert (solver.memory, rules) == (3, Stop(iterations=7, seconds=5.0))
    with pytest.raises(InputError, match=r"no option 'memori' in .*did you mean 'memory'"):
        assembly.method_of_call(problem, "lbfgs", None, {"memori": 3})
