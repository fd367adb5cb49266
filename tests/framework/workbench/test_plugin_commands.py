"""``thalweg plugin new`` writes a distribution that works; ``check`` finds what is bad in one."""

import os
import sys
import textwrap
import tomllib

import pytest
from ranks.launch import run_limited

from thalweg.errors import InputError
from thalweg.workbench.check_plugin import check_plugin
from thalweg.workbench.command.installation import write_distribution


@pytest.fixture
def module(folder, monkeypatch, comm):
    """A way to make a module of some text importable on all ranks."""
    names = []

    def make(text, name="thalweg_made_up"):
        if comm.rank == 0:
            (folder / f"{name}.py").write_text(textwrap.dedent(text))
        comm.barrier()
        monkeypatch.syspath_prepend(str(folder))
        names.append(name)
        return name

    yield make
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.petsc
@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    ("plugin", "part"),
    [("descent", "lbfgs"), ("clustering", "kdac"), ("saddlefree", "mlp"),
     *(pytest.param(*pair, marks=pytest.mark.slow)
       for pair in (("isometry", "numax"), ("embedding", "t-sne")))],
)  # fmt: skip
def test_the_own_plugins_pass(comm, plugin, part):
    findings = check_plugin(f"thalweg_{plugin}", comm)
    assert [finding for finding in findings if not finding[1]] == []
    assert any(part in name for name, _, _ in findings)


@pytest.mark.ranks(1, 2)
def test_bad_parts_fail_with_a_sentence_and_the_rest_is_checked(comm, module):
    name = module(
        """
        from dataclasses import dataclass

        import numpy as np
        from thalweg.data import Dataset
        from thalweg.interfaces import Solver, SolverState
        from thalweg.parallel import Layout
        from thalweg.plugins import (
            DataSpec, MetricSpec, ObjectiveSpec, Option, SolverSpec, hookimpl
        )
        from thalweg.testing import SpringProblem

        class Off(SpringProblem):
            def value_and_gradient(self, x):
                value, gradient = super().value_and_gradient(x)
                return value, 1.01 * gradient

        def build(dataset, comm, strength=1.0):
            return Off(comm, dataset.layout.rows)

        def measure(solution, dataset, comm):
            return {"rows": dataset.layout.rows}

        def add(solution, dataset, comm):
            return {"sum": comm.allreduce(float(dataset.values.mean()))}

        def draw(comm):
            layout = Layout(comm, 23, 2)
            return Dataset(np.random.default_rng(0).random(layout.shape), layout)

        @dataclass(frozen=True)
        class Slow(Solver):
            def init(self, objective, x):
                return SolverState.evaluated(objective, x)

            def step(self, state):
                x = state.x - 0.01 / state.objective.comm.size * state.gradient
                found = state.objective.value_and_gradient(x)
                return state.at(x, *found, evaluations=state.evaluations + 1)

        @hookimpl
        def thalweg_objectives():
            strength = Option("strength", float, 1.0, "how strong")
            return [
                ObjectiveSpec(name="off", summary="wrong", load=f"{__name__}:build",
                              options=(strength,)),
                ObjectiveSpec(name="No Good", summary="", load=f"{__name__}:build"),
                ObjectiveSpec(name="named", summary="its name", load=f"{__name__}:build",
                              options=(Option("name", str, "a", "whose"),)),
                ObjectiveSpec(name="missing", summary="gone", load=f"{__name__}:nothing"),
            ]

        @hookimpl
        def thalweg_metrics():
            return [
                MetricSpec(name="rows", summary="counts rows", load=f"{__name__}:measure"),
                MetricSpec(name="sum", summary="adds means", load=f"{__name__}:add"),
            ]

        @hookimpl
        def thalweg_data():
            return [DataSpec(name="drawn", summary="the same", load=f"{__name__}:draw")]

        @hookimpl
        def thalweg_solvers():
            return [SolverSpec(name="slow", summary="by ranks", load=f"{__name__}:Slow")]
        """
    )
    findings = {name: (passed, text) for name, passed, text in check_plugin(name, comm)}
    assert findings["objective 'off': build"][0]
    assert findings["metric 'rows': measure"] == (True, "rows")
    wrong = {name: text for name, (passed, text) in findings.items() if not passed}
    for start in ("start 0", "start 1"):
        assert "9.9e-03 relative" in wrong.pop(f"objective 'off': gradient at {start}")
        assert "differences" in wrong.pop(f"objective 'off': capabilities at {start}")
    assert "lower-case words" in wrong.pop("objective 'No Good': description")
    assert "rename the option" in wrong.pop("objective 'named': description")
    assert "has no attribute 'nothing'" in wrong.pop("objective 'missing': description")
    if comm.size > 1:
        assert "2 ranks, and" in wrong.pop("metric 'sum': measure")
        assert "rows on 2 ranks are not" in wrong.pop("data set 'drawn': data")
        assert "on one rank" in wrong.pop("solver 'slow': steps and resumption")
    assert wrong == {}


@pytest.mark.parametrize("name", ["thalweg-mine", "my_own-2d", "thalweg-2d"])
def test_the_distribution_has_its_names(tmp_path, name):
    folder = write_distribution(name, tmp_path / "made")
    package = name.replace("-", "_")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == name
    assert list(project["entry-points"]["thalweg"].values()) == [f"{package}.plugin"]
    assert not list(folder.rglob("*.txt"))
    assert "${" not in "".join(file.read_text() for file in folder.rglob("*.*"))


def test_the_distribution_conforms(tmp_path):
    folder = write_distribution("my_own-2d", tmp_path / "made")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."]
    done = run_limited(command, 120, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Bad Name", "not a valid name for a plugin"), ("-x", "not a valid name for a plugin"),
        ("../x", "not a valid name for a plugin"), ("class", "word of Python's own"),
        ("numpy", "already installed"), ("thalweg", "already installed"),
        ("thalweg-lbfgs", "already called 'lbfgs'"), ("descent", "already called 'descent'"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_are_refused(tmp_path, name, words):
    with pytest.raises(InputError, match=words):
        write_distribution(name, tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_stays_as_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        write_distribution("thalweg-mine", tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        write_distribution("thalweg-mine", tmp_path / "nowhere" / "made")
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]
