"""``thalweg plugin new`` writes a distribution that works as it is."""

import os
import subprocess
import sys
import tomllib

import pytest

from thalweg.errors import InputError
from thalweg.workbench.scaffold import write_distribution


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
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Bad Name", "not a valid name for a plugin"),
        ("-x", "not a valid name for a plugin"),
        ("../x", "not a valid name for a plugin"),
        ("class", "word of Python's own"),
        ("numpy", "already installed"),
        ("thalweg", "already installed"),
        ("thalweg-lbfgs", "already called 'lbfgs'"),
        ("descent", "already called 'descent'"),
    ],
)
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
