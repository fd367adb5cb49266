"""Files for packagers and public runners can be read, and agree with ``pyproject.toml``."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]

#: Distributions that have another name in conda-forge.
RENAMED = {"matplotlib": "matplotlib-base"}

#: What pip brings where there is no MPI; elsewhere it is one of the system's.
WHEEL_OF_MPI = "mpich"


def base():
    """Least version of each distribution that the base needs, by name."""
    pairs = (re.fullmatch(r"([\w-]+)(?:>=([\d.]+))?", line) for line in PROJECT["dependencies"])
    return {pair[1]: pair[2] for pair in pairs if pair[1] != WHEEL_OF_MPI}


def read(path):
    return yaml.safe_load((TOP / path).read_text())


def environment():
    lines = read("hpc/environment.yml")["dependencies"]
    return dict(re.fullmatch(r"([\w-]+)(?:>=|=)?(.*)", line).groups() for line in lines)


def pixi():
    dependencies = tomllib.loads((TOP / "hpc/pixi.toml").read_text())["dependencies"]
    return {name: str(version).removeprefix(">=") for name, version in dependencies.items()}


def recipe():
    return dict(line.split(" >=") for line in read("hpc/conda/recipe.yaml")["requirements"]["run"])


@pytest.mark.parametrize("packages", [environment, pixi, recipe])
def test_packages_of_conda_are_those_of_the_project(packages):
    found = packages()
    assert found["python"] == PROJECT["requires-python"].removeprefix(">=")
    for name, version in base().items():
        assert found[RENAMED.get(name, name)] == version


def test_dependencies_in_spack_are_those_of_the_project():
    tree = ast.parse((TOP / "hpc/spack/packages/py-thalweg/package.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    specs = [call.args[0].value for call in calls if call.func.id == "depends_on"]
    for name, version in base().items():
        assert f"py-{name}@{version}:" in specs
    assert read("hpc/spack/repo.yaml") == {"repo": {"namespace": "thalweg"}}
    assert "spack" in read("hpc/spack.yaml")


def test_the_recipe_of_conda_builds_this_version_with_all_packages():
    content = read("hpc/conda/recipe.yaml")
    assert content["context"]["version"] == PROJECT["version"]
    assert read("CITATION.cff")["version"] == PROJECT["version"]
    plugins = sorted(path.parent.name for path in TOP.glob("plugins/*/__init__.py"))
    assert content["tests"][0]["python"]["imports"] == ["thalweg", *plugins]
    (script,) = content["build"]["python"]["entry_points"]
    assert script == f"thalweg = {PROJECT['scripts']['thalweg']}"


def test_the_container_copies_what_set_up_and_the_wheel_need():
    lines = (TOP / "hpc/Dockerfile").read_text().splitlines()
    sources = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert sources == {"LICENSE", "README.md", "framework", "plugins", "pyproject.toml", "scripts"}


WORKFLOWS = sorted(str(path.relative_to(TOP)) for path in TOP.glob(".github/**/*.yml"))


@pytest.mark.parametrize("path", [".pre-commit-config.yaml", *WORKFLOWS])
def test_files_for_public_runners_can_be_read(path):
    assert read(path)


def test_all_versions_of_python_that_are_named_are_tested():
    lines = (line for line in PROJECT["classifiers"] if ":: Python :: 3." in line)
    matrix = read(".github/workflows/ci.yml")["jobs"]["without-petsc"]["strategy"]["matrix"]
    tested = {job["python"] for job in matrix["include"]}
    assert {line.rpartition(" ")[2] for line in lines} == tested


def test_every_package_ships_its_types():
    packages = [TOP / "framework" / "thalweg", *TOP.glob("plugins/thalweg_*")]
    assert all((package / "py.typed").exists() for package in packages)
