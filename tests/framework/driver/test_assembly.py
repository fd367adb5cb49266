"""Names and options become the same method in a call, in a file and in an estimator."""

import dataclasses

import numpy as np
import pytest

from thalweg.driver import Stop, assembly
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout
from thalweg.plugins import ObjectiveSpec, plugins
from thalweg.workbench.config import read_configuration
from thalweg.workbench.run.single_run import build_objective
from thalweg_embedding import TSNE
from thalweg_isometry import NearIsometricEmbedding

#: What some objectives cannot be built without.
EXTRA = {"near-isometry": {"delta": 0.4}}

#: Objectives that a file cannot describe without a module beside it.
PYTHON = {"jax"}

OBJECTIVES = [s.name for s in plugins().specs(ObjectiveSpec) if s.name not in PYTHON]


class Sphere(Objective, HessianProduct):
    """Half the squared length."""

    def __init__(self):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, 6, 2))

    def value_and_gradient(self, x):
        return 0.5 * float((x**2).sum()), x

    def hessian_product(self, x, direction):
        return direction


def parts(solver):
    """Type and options of a solver and of its preconditioner."""
    found = {}
    for part in (solver, solver.preconditioner if solver.preconditioned else None):
        options = (
            {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
            if (dataclasses.is_dataclass(part))
            else {}
        )
        options.pop("preconditioner", None)
        found[type(part)] = options
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
    assert parts(of_call) == parts(of_file)
    assert objective.default_solver == spec.solver
    assert objective.default_stop == spec.stop


def test_an_option_goes_to_the_part_that_has_it():
    solver, rules = assembly.method_of_call(
        Sphere(), "lbfgs", None, {"memory": 3, "iterations": 7, "seconds": 5.0}
    )
    assert solver.memory == 3
    assert rules == Stop(iterations=7, seconds=5.0)
    with pytest.raises(InputError, match=r"no option 'memori' in .*did you mean 'memory'"):
        assembly.method_of_call(Sphere(), "lbfgs", None, {"memori": 3})
