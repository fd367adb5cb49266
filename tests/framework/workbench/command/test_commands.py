"""The command line as a user meets it: what it prints and how it exits."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from thalweg.result import Result, Status, Trace
from thalweg.workbench import run as job
from thalweg.workbench.command import jobs

CONFIG = """
[data]
name = "digits"
rows = 60
[objective]
name = "elastic-embedding"
perplexity = 5
[stop]
iterations = 5
"""


@pytest.fixture(scope="module")
def thalweg(thalweg_command):
    return thalweg_command


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, thalweg):
    folder = tmp_path_factory.mktemp("run")
    (folder / "c.toml").write_text(CONFIG)
    done = thalweg("run", folder / "c.toml", "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder, done


def test_a_run_leaves_what_the_contract_names(finished):
    folder, done = finished
    out = folder / "out"
    facts = json.loads((out / "result.json").read_text())
    assert (facts["status"], facts["iterations"], facts["ranks"]) == ("iteration_limit", 5, 1)
    assert set(facts) >= {"message", "objective", "evaluations", "seconds", "metrics", "versions"}
    assert np.load(out / "solution.npy").shape == (60, 2)
    trace = np.genfromtxt(out / "trace.csv", delimiter=",", names=True)
    assert trace["objective"][-1] == facts["objective"]
    assert (np.diff(trace["objective"]) <= 0).all()
    for name in ("config.toml", "embedding.png", "convergence.png", "checkpoint/latest"):
        assert (out / name).exists()
    assert "objective" in done.stdout


def test_resuming_with_a_larger_budget_goes_on(thalweg, config, tmp_path):
    short = thalweg("run", config, "--out", tmp_path / "a")
    longer = ("--set", "stop.iterations=9")
    resumed = thalweg("run", config, "--out", tmp_path / "a", "--resume", *longer)
    whole = thalweg("run", config, "--out", tmp_path / "b", *longer)
    assert [short.returncode, resumed.returncode, whole.returncode] == [0, 0, 0]
    first, second = (np.load(tmp_path / p / "solution.npy") for p in "ab")
    assert np.array_equal(first, second)


def test_compare_prints_a_table_and_leaves_a_picture(thalweg, config, tmp_path):
    config.write_text(
        CONFIG
        + '[[method]]\nsolver = "gradient-descent"\npreconditioner = "identity"\n'
        + '[[method]]\nsolver = "gradient-descent"\npreconditioner = "spectral"\n'
    )
    done = thalweg("compare", config, "--out", tmp_path / "cmp")
    assert done.returncode == 0, done.stderr
    assert "gradient-descent + spectral" in done.stdout
    methods = json.loads((tmp_path / "cmp" / "comparison.json").read_text())["methods"]
    starts = set()
    for row in methods:
        trace = tmp_path / "cmp" / row["folder"] / "trace.csv"
        starts.add(float(np.genfromtxt(trace, delimiter=",", names=True)["objective"][0]))
    assert len(starts) == 1
    assert (tmp_path / "cmp" / "convergence.png").exists()


def test_of_a_run_in_an_early_stage_the_wanted_objective_is_printed(monkeypatch, capsys):
    trace = Trace(("objective", "weight", "stage", "wanted_objective"))
    trace.append({"objective": -0.05, "weight": 0.9, "stage": 1, "wanted_objective": 0.86})
    facts = {"iterations": 9, "evaluations": 10, "seconds": {"total": 1.0}, "layout": None}
    result = Result(np.zeros((1, 1)), -0.05, Status.CALLBACK, trace, **facts, stages_left=2)
    result = replace(result, notes=("it ended early",))
    monkeypatch.setattr(job, "run", lambda *_, **__: result)
    jobs.run_command(["c.toml"])
    assert "objective 0.86 at the last weight after 9 iterations" in capsys.readouterr().out
    others = {"one": result, "two": result, "three": replace(result, notes=(), stages_left=0)}
    monkeypatch.setattr(job, "compare", lambda *_, **__: others)
    jobs.compare_command(["c.toml"])
    *_, one, two, three, note = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in (one, two, three)] == ["–", "–", "-0.05"]
    assert note == "note on one, two: it ended early"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rn", "c.toml"), "did you mean 'run'"),
        (("run",), "CONFIG.toml"),
        (("run", "none.toml"), "cannot read the configuration"),
        (("run", "c.toml", "--set", "objective.perplexity=100"), "perplexity"),
        (("run", "c.toml", "--set", "data.name=digit"), "did you mean 'digits'"),
        (("run", "c.toml", "--set", "data.path=none.csv"), "none.csv"),
        (("run", "c.toml", "--frobnicate"), "--frobnicate"),
        (("plot", "nowhere"), "holds no finished run"),
        (("plot", "damaged"), "no column 'objective'"),
        (("list", "lbfsg"), "did you mean 'lbfgs'"),
        (("compare", "c.toml"), r"[[method]]"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(thalweg, config, tmp_path, arguments, message):
    out = ("--out", "out") if arguments[0] in ("run", "compare") else ()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/trace.csv").write_text("iteration,value\n0,1\n")
    done = thalweg(*arguments, *out, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("thalweg: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_list_tells_programs_and_people(thalweg):
    listing = json.loads(thalweg("list", "--json").stdout)
    assert {"objectives", "preconditioners", "solvers"} <= set(listing)
    assert "spectral" in {row["name"] for row in listing["preconditioners"]}
    assert "tao:TYPE" in thalweg("list").stdout
    one = json.loads(thalweg("list", "TSNE", "--json").stdout)
    assert [row["name"] for rows in one.values() for row in rows] == ["t-sne"]
    assert thalweg("list", "tsnee", "--json").returncode == 2


def test_help_imports_nothing_heavy():
    code = (
        "import sys, thalweg.workbench.command.main as m; m.main(['--help']); "
        "print([n for n in ('numpy', 'mpi4py', 'petsc4py', 'numba') if sys.modules.get(n)])"
    )
    # os.environ, for MPI adds variables to the environment behind Python's back.
    command, environment = [sys.executable, "-c", code], dict(os.environ)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.endswith("[]\n")


def test_the_references_of_a_run_are_printed_once_each(finished, thalweg):
    folder, _ = finished
    done = thalweg("cite", folder / "out")
    assert done.returncode == 0, done.stderr
    keys = [line for line in done.stdout.splitlines() if line.startswith("@")]
    assert len(set(keys)) == len(keys)
    assert {"@inproceedings{carreira2010,", "@inproceedings{vladymyrov2012,"} <= set(keys)
    assert "keywords" not in done.stdout
    refused = thalweg("cite", folder)
    assert refused.returncode == 2
    assert "holds no run" in refused.stderr
