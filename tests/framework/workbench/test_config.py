"""Configurations: what is resolved, and what is refused."""

import os
import tomllib

import pytest

from thalweg.errors import InputError
from thalweg.plugins import ObjectiveSpec, SolverSpec, plugins
from thalweg.workbench.config import read_configuration

BASE = {"data": {"name": "digits"}, "objective": {"name": "t-sne"}}


@pytest.mark.petsc
def test_the_resolved_file_gives_the_same_configuration_again():
    text = {**BASE, "method": [{"solver": {"name": "lbfgs", "memory": 3}}, {"solver": "tao:lmvm"}]}
    first = read_configuration(text)
    again = read_configuration(tomllib.loads(first.to_toml()))
    assert (again, again.methods[0].solver["memory"]) == (first, 3)


def test_a_rule_is_switched_off_by_a_word_that_is_written_again(tmp_path):
    text = '[data]\nname = "digits"\n[objective]\nname = "t-sne"\n[stop]\ndecrease = "none"\n'
    (tmp_path / "c.toml").write_text(text, "utf-8-sig")  # with the mark of Windows' editors
    first = read_configuration(tmp_path / "c.toml", ["stop.iterations=none"])
    assert first.stop["decrease"] is None
    assert first.stop["iterations"] is None
    assert first.stopping().decrease is None
    stop = {"iterations": "none", "decrease": "none", "window": 20}
    assert tomllib.loads(first.to_toml())["stop"] == stop
    assert read_configuration(tomllib.loads(first.to_toml())) == first


@pytest.mark.petsc
def test_a_solver_without_a_place_for_a_preconditioner_is_given_none_by_default():
    text = {**BASE, "solver": {"name": "tao:cg"}, "method": [{"solver": "lbfgs"}]}
    assert read_configuration(text).preconditioner == {"name": "identity"}
    among_methods = read_configuration({**BASE, "method": [{"solver": "tao:bqnls"}]})
    assert among_methods.methods[0].preconditioner == {"name": "identity"}
    with_place = read_configuration({**BASE, "solver": {"name": "tao:lmvm"}})
    assert with_place.preconditioner["name"] == "spectral"


def test_a_method_inherits_options_of_the_same_name_only():
    resolved = read_configuration(
        {
            **BASE,
            "solver": {"name": "lbfgs", "memory": 7},
            "preconditioner": {"name": "spectral", "neighbors": 5},
            "method": [{}, {"solver": "gradient-descent"}, {"preconditioner": "identity"}],
        }
    )
    first, second, third = resolved.methods
    assert first.solver["memory"] == 7
    assert "memory" not in second.solver
    assert (second.preconditioner["neighbors"], third.preconditioner) == (5, {"name": "identity"})
    labels = [method.label for method in resolved.methods]
    assert labels == ["lbfgs + spectral", "gradient-descent + spectral", "lbfgs"]


@pytest.mark.parametrize(
    ("raw", "changes", "message"),
    [
        ({**BASE, "sovler": {}}, [], r"no section \[sovler\]; did you mean 'solver'"),
        ({**BASE, "solver": 3}, [], "must be a name or a table|must be written as a table"),
        ({"data": {"name": "digits"}}, [], r"\[objective\] needs a name"),
        ({"objective": {"name": "t-sne"}}, [], r"needs a section \[data\]"),
        ({**BASE, "objective": {"name": "tsne"}}, [], "did you mean 't-sne'"),
        ({**BASE, "objective": {"name": "t-sne", "perplexty": 3}}, [], "'perplexity'"),
        ({**BASE, "solver": {"name": "lbfsg"}}, [], "did you mean 'lbfgs'"),
        ({**BASE, "stop": {"iterations": -1}}, [], "at least 0"),
        ({**BASE, "solver": {"nam": "lbfgs"}}, [], "has no option 'nam'; did you mean 'name'"),
        ({**BASE, "stop": {"itertions": 1}}, [], "did you mean 'iterations'"),
        ({**BASE, "run": {"seed": "x"}}, [], "integer"),
        ({**BASE, "method": [{"solvr": "lbfgs"}]}, [], "did you mean 'solver'"),
        ({**BASE, "method": [{}, {}]}, [], "give them a label"),
        ({**BASE, "method": [{"label": "a/b"}]}, [], "plain name"),
        ({**BASE, "homotopy": {"values": ["a"]}}, [], "'values' .* must hold numbers, not 'a'"),
        ({**BASE, "homotopy": {"values": [True]}}, [], "must hold numbers"),
        ({**BASE, "homotopy": {"values": 3}}, [], "must be a list"),
        ({**BASE, "homotopy": {"values": [-1.0, 1.0]}}, [], "at least 0"),
        ({**BASE, "homotopy": {"first": -1.0}}, [], "must be above 0|greater than 0"),
        ({**BASE, "homotopy": {"error": 0.0}}, [], "must be above 0|greater than 0"),
        ({**BASE, "objective": {"name": "mlp", "layers": ["a"]}}, [], "must hold integers"),
        (BASE, ["solver"], "section.option=value"),
        (BASE, ["=3"], "section.option=value"),
        (BASE, ["stop.iterations=many"], "integer"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(raw, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        read_configuration(raw, changes)
    assert "\n" not in str(caught.value)


def test_an_error_of_steps_makes_a_homotopy_adaptive():
    section = {"first": 0.1, "stages": 3, "error": 0.2}
    schedule = read_configuration({**BASE, "homotopy": section}).schedule(10.0)
    assert (schedule.values, schedule.error) == (pytest.approx((0.1, 1.0, 10.0)), 0.2)
    assert read_configuration({**BASE, "homotopy": {}}).schedule(10.0).error is None


@pytest.mark.petsc
@pytest.mark.parametrize("kind", [SolverSpec, ObjectiveSpec])
def test_every_method_is_the_same_run_when_read_again(tmp_path, kind):
    # A resumed run is compared with the options in its folder.
    written = tmp_path / "c.toml"
    for spec in plugins().specs(kind):
        if kind is SolverSpec:
            raw = {**BASE, "solver": {"name": spec.name}}
        else:
            data = {} if spec.data == "none" else {"data": {"name": "digits"}}
            raw = {**data, "objective": {"name": spec.name}}
        configuration = read_configuration(raw)
        written.write_text(configuration.to_toml())
        assert read_configuration(written).identity() == configuration.identity()


@pytest.mark.timeout(60)
def test_a_named_pipe_is_refused_and_that_of_the_shell_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InputError, match="is a pipe or a device; give a file"):
        read_configuration(tmp_path / "pipe.toml")
    reading, writing = os.pipe()
    os.write(writing, b'[data]\nname = "digits"\n[objective]\nname = "t-sne"\n')
    os.close(writing)
    assert read_configuration(f"/dev/fd/{reading}") == read_configuration(BASE)
    os.close(reading)


def test_files_that_an_objective_names_may_lie_beside_the_configuration(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    for folder in ("here", "there"):
        (tmp_path / folder / "links.csv").write_text("0,1,1\n")
    (tmp_path / "there" / "c.toml").write_text(
        '[data]\nname = "iris"\n[objective]\nname = "kdac"\nclusters = 3\n'
        'links = "links.csv"\nother_labels = ["links.csv", "none.csv"]\n'
    )
    monkeypatch.chdir(tmp_path / "here")
    objective = read_configuration(tmp_path / "there" / "c.toml").objective
    file = str(tmp_path / "there" / "links.csv")
    assert (objective["links"], objective["other_labels"]) == (file, [file, "none.csv"])
