"""Set-up, with programs that stand for Python, pip and apt-get: what it decides and asks for."""

import os
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ranks.launch import run_limited

TOP = Path(__file__).parents[2]

#: What set-up may use of the system.
TOOLS = (
    *("bash", "cat", "cksum", "cp", "dirname", "env", "grep", "mkdir", "mv", "paste", "rm", "sed"),
    *("sort", "tr"),
)

#: Answers as a Python would that has petsc4py beside the NumPy of OFFER's first line.
PYTHON = """\
echo "$1 $2" >> "$HOME/calls.log"
case "$1 $2" in
  "-m venv")
    mkdir -p .venv/bin .venv/lib/python3.12/site-packages
    cp "$0" .venv/bin/python && cp "$0" .venv/bin/thalweg
    echo "$@" >> venv.log ;;
  "-m pip") echo "$@" >> pip.log; [ -z "$PIP_FAILS" ] ;;
  "- ") [ -n "$OFFER" ] && printf "$OFFER" ;;
  *) [ -z "$BROKEN" ] ;;
esac
"""


class Checkout:
    """A copy of the scripts on a machine that has only what a test puts there."""

    def __init__(self, folder):
        self.folder = folder / "check out"
        self.bin = folder / "bin"
        shutil.copytree(TOP / "scripts", self.folder / "scripts")
        shutil.copy(TOP / "pyproject.toml", self.folder)
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.program("id", "echo 1000")  # not root

    def program(self, name, script):
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def setup(self, *arguments, **variables):
        command = [shutil.which("bash"), self.folder / "scripts" / "setup", *arguments]
        environment = {"PATH": str(self.bin), "HOME": str(self.folder)} | variables
        return run_limited(command, 60, env=environment)

    def read(self, name):
        return (self.folder / name).read_text()


@pytest.fixture
def bare(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture
def equipped(bare):
    """A machine whose own python3 offers petsc4py, compiled for NumPy 1."""
    bare.program("python3", PYTHON)
    return bare


OFFER = {"OFFER": "1\\n/opt/petsc/lib\\n/opt/mpi4py\\n"}


def test_what_is_present_is_used_and_reached_without_environment_variables(equipped):
    done = equipped.setup(**OFFER)
    assert done.returncode == 0, done.stderr
    assert "PETSc: the present one, through python3" in done.stdout
    assert "--system-site-packages" in equipped.read("venv.log")
    pth = equipped.read(".venv/lib/python3.12/site-packages/petsc.pth")
    assert pth.split() == ["/opt/mpi4py", "/opt/petsc/lib"]


@pytest.mark.parametrize(("major", "held"), [("1", "numpy<2"), ("2", "numpy>=2")])
def test_numpy_is_held_to_the_abi_of_petsc4py_now_and_later(equipped, major, held):
    done = equipped.setup(OFFER=f"{major}\\n/opt/petsc/lib\\n")
    assert done.returncode == 0, done.stderr
    constraints = equipped.read(".venv/constraints.txt").split()
    assert (constraints[0], "pyarrow<24" in constraints) == (held, major == "1")
    assert "-c .venv/constraints.txt" in equipped.read("pip.log")
    assert equipped.read(".venv/pip.conf").endswith("check%20out/.venv/constraints.txt\n")


def test_a_second_run_does_nothing_until_the_project_file_changes(equipped):
    equipped.setup(**OFFER)
    before = equipped.read("calls.log")
    done = equipped.setup(**OFFER)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # One start of Python, which asks whether the environment works.
    assert equipped.read("calls.log").removeprefix(before) == "-c import petsc4py, thalweg\n"
    with (equipped.folder / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    equipped.setup(**OFFER)
    assert len(equipped.read("pip.log").splitlines()) == 2
    assert len(equipped.read("venv.log").splitlines()) == 1


def test_no_second_mpi_is_installed_beside_the_one_in_use_now_or_later(equipped):
    equipped.setup(**OFFER)
    made = equipped.read(".venv/constraints.txt")
    assert made.split().count("mpich==0.0.0") == 1
    # Environments of earlier releases hold NumPy alone.
    (equipped.folder / ".venv/constraints.txt").write_text("numpy<2\n")
    equipped.setup("--extra", "test", **OFFER)
    assert equipped.read(".venv/constraints.txt") == made


def test_an_interrupted_run_is_begun_again(equipped):
    assert equipped.setup(PIP_FAILS="1", **OFFER).returncode != 0
    assert not (equipped.folder / ".venv/setup-stamp").exists()
    assert equipped.setup(**OFFER).returncode == 0
    assert len(equipped.read("venv.log").splitlines()) == 2


def test_a_broken_environment_is_made_anew(equipped):
    equipped.setup(**OFFER)
    (equipped.folder / ".venv/bin/python").write_text("#!/nowhere/python\n")
    assert equipped.setup(**OFFER).returncode == 0
    assert len(equipped.read("venv.log").splitlines()) == 2


def test_without_root_it_says_exactly_which_packages_to_ask_for(bare):
    bare.program("python3", PYTHON)
    for name in ("apt-get", "dpkg-query", "sudo"):
        bare.program(name, "exit 1")
    done = bare.setup("--petsc=pypi")
    assert done.returncode == 1
    assert "apt-get install --no-install-recommends gcc g++ gfortran" in done.stderr
    assert "libmumps-dev" in done.stderr
    assert not (bare.folder / ".venv").exists()


def test_petsc4py_is_compiled_for_a_petsc_that_lacks_it(bare, tmp_path):
    bare.program("python3", PYTHON)
    bare.program("mpicc", "echo gcc")
    header = tmp_path / "petsc/include/petscversion.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define PETSC_VERSION_MAJOR      3\n#define PETSC_VERSION_MINOR      20\n")
    done = bare.setup(PETSC_DIR=str(tmp_path / "petsc"))
    assert done.returncode == 0, done.stderr
    assert "petsc4py==3.20.*" in bare.read("pip.log")
    assert "numpy<2" in bare.read(".venv/constraints.txt").split()


@pytest.mark.parametrize("wrong", [["--petsc=conda"], ["--extra", "no-such-extra"], ["--bogus"]])
def test_a_wrong_option_is_one_sentence_and_code_2(equipped, wrong):
    done = equipped.setup(*wrong, **OFFER)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert wrong[-1] in done.stderr


@pytest.mark.parametrize("script", ["setup", "demo", "test", "trials", "mpi-environment"])
def test_scripts_are_valid_shell(script):
    path = TOP / "scripts" / script
    subprocess.run(["bash", "-n", path], check=True)
    assert script == "mpi-environment" or os.access(path, os.X_OK)


def test_thalweg_is_found_from_the_folder_that_holds_a_checkout(tmp_path):
    (tmp_path / "thalweg" / "framework").mkdir(parents=True)
    script = "import thalweg, thalweg_embedding; print(thalweg.Stop.__name__)"
    done = run_limited([sys.executable, "-c", script], 60, cwd=tmp_path)
    assert done.stdout == "Stop\n", done.stderr


def test_a_wheel_holds_every_package():
    build = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    found = [str(folder.relative_to(TOP)) for folder in (TOP / "plugins").glob("thalweg_*")]
    assert build["targets"]["wheel"]["packages"] == ["framework/thalweg", *sorted(found)]
