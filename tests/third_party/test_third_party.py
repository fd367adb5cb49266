"""A stranger's distribution, installed with pip, is used like what is built in."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ranks.launch import LIMIT, run_limited
from sklearn.datasets import load_iris

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
THALWEG = ["-m", "thalweg"]
CONFIG = """
[data]
path = "iris.npy"
scale = "standard"
[objective]
name = "sammon"
[preconditioner]
name = "absolute-diagonal"
[solver]
name = "barzilai-borwein"
memory = 4
[stop]
iterations = 60
decrease = 0.0
[run]
seed = 3
[output]
pictures = false
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Python of a throw-away environment in which pip has installed the distribution."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    inside = folder / "venv" / "bin" / "python"
    # What this Python sees, the new one sees too, editable installations included.
    seen = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    seen += [path for path in sys.path if "petsc" in path and path not in seen]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "venv" / "lib" / version / "site-packages"
    lines = [f"import site; site.addsitedir({path!r})" for path in seen]
    (packages / "outer.pth").write_text("\n".join(lines) + "\n")
    # pip builds within the source folder, which must stay as it is.
    shutil.copytree(HERE / "thalweg-valley", folder / "source")
    pip = [sys.executable, "-m", "pip", "--python", inside, "install", "--quiet", "--no-index"]
    flags = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}
    ran(run_limited([*pip, *flags, folder / "source"], LIMIT, env=environment))
    assert (packages / "thalweg_valley" / "plugin.py").exists()
    return str(inside)


@pytest.fixture
def config(tmp_path):
    """The configuration with a file for its data: scikit-learn takes long to load."""
    np.save(tmp_path / "iris.npy", load_iris().data)
    path = tmp_path / "sammon.toml"
    path.write_text(CONFIG.replace("iris.npy", str(tmp_path / "iris.npy")))
    return path


def ran(done, code=0):
    """The command's output; its exit code must be as expected."""
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def call(python, *arguments, **options):
    return run_limited([python, *THALWEG, *map(str, arguments)], 120, **options)


def result_of(folder):
    return json.loads((folder / "result.json").read_text())


def test_it_is_installed_for_the_new_environment_alone():
    done = subprocess.run([sys.executable, "-c", "import thalweg_valley"], capture_output=True)
    assert done.returncode != 0


def test_it_is_listed_with_its_distribution(python):
    listed = json.loads(ran(call(python, "list", "--json")))
    for kind, name in {
        "objectives": "sammon",
        "preconditioners": "absolute-diagonal",
        "solvers": "barzilai-borwein",
    }.items():
        (entry,) = [entry for entry in listed[kind] if entry["name"] == name]
        assert entry["provider"].startswith("thalweg-valley")


@pytest.mark.parametrize("number", [1, 2])
def test_it_passes_the_conformance_suite(python, rank_environment, number):
    check = ("plugin", "check", "thalweg_valley", "--ranks", number)
    out = ran(call(python, *check, env=rank_environment))
    assert " 0 failed on " + ("1 rank\n" if number == 1 else "2 ranks\n") in out
    assert "solver 'barzilai-borwein': steps and resumption" in out
    # On one rank it says what it has not looked at.
    assert ("--ranks 2" in out) == (number == 1)


def test_it_runs_and_a_run_is_the_same_at_any_number_of_ranks(python, mpirun, config, tmp_path):
    found = []
    # Later on, Barzilai-Borwein steps make much of little differences.
    changes = ["--set", "stop.iterations=6", "--set"]
    for number, pictures in ((1, "false"), (2, "true")):
        out = tmp_path / f"run{number}"
        run = ["run", config, "--out", out, *changes, f"output.pictures={pictures}"]
        ran(mpirun(number, [python, *THALWEG, *run]))
        found.append(result_of(out))
        assert (found[-1]["ranks"], np.load(out / "solution.npy").shape) == (number, (150, 2))
        assert (out / "embedding.png").exists() == (pictures == "true")
        assert (out / "trace.csv").read_text().splitlines()[0].endswith(",trial")
    values = [one["objective"] for one in found]
    assert np.allclose(values, values[0], rtol=1e-8)
    first = np.genfromtxt(tmp_path / "run1" / "trace.csv", delimiter=",", names=True)[0]
    assert values[0] < 0.5 * first["objective"]
    assert found[0]["metrics"]["stress"] == pytest.approx(values[0])


def test_a_killed_run_goes_on_to_the_same_bits(python, mpirun, config, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    ran(mpirun(2, [python, *THALWEG, "run", config, "--quiet", "--out", whole]))

    run = ["run", config, "--quiet", "--set", "run.checkpoint=0.0", "--out"]
    script = [python, HERE / "stop_when_saved.py", stopped / "checkpoint", "12"]
    ran(mpirun(2, [*script, *run, stopped]), code=75)
    cut = result_of(stopped)
    assert cut["status"].lower() == "interrupted"
    assert 12 <= cut["iterations"] < 60

    ran(mpirun(2, [python, *THALWEG, *run, stopped, "--resume"]))
    assert result_of(stopped)["iterations"] == 60
    assert (stopped / "solution.npy").read_bytes() == (whole / "solution.npy").read_bytes()
    assert result_of(stopped)["objective"] == result_of(whole)["objective"]
    columns = (0, 1, 3, 4, 5, 6)  # all but the seconds
    traces = [
        np.genfromtxt(folder / "trace.csv", delimiter=",", skip_header=1, usecols=columns)
        for folder in (stopped, whole)
    ]
    assert np.array_equal(traces[0], traces[1], equal_nan=True)
