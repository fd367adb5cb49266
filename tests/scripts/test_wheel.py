"""The wheel that 'pip install .' builds: what it holds, what it needs, and that it works alone."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ranks.launch import run_limited

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[2]

#: Modules that come with a distribution of another name.
DISTRIBUTIONS = {"llvmlite": "numba", "sklearn": "scikit-learn", "tomli_w": "tomli-w"}

#: What commands and methods ask for in a sentence where it is missing.
EXTRA = {
    "PIL",
    "h5py",
    "jax",
    "matplotlib",
    "optax",
    "petsc4py",
    "pyarrow",
    "pynndescent",
    "slepc4py",
    "tqdm",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, unpacked; its build needs the package index."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    fetched = [*pip, "download", "-q", "--retries=0", "--timeout=10", "-d", folder, "hatchling"]
    if subprocess.run(fetched, capture_output=True).returncode != 0:
        pytest.skip("no package index can be reached")
    offline = ["-q", "--no-index", "--find-links", folder, "--no-deps", "-w", folder / "built"]
    done = subprocess.run([*pip, "wheel", *offline, TOP], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "built").iterdir()
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def requirements(wheel):
    """Names of the distributions that the base needs."""
    (distribution,) = importlib.metadata.distributions(path=[str(wheel)])
    lines = [line for line in distribution.requires or () if "extra ==" not in line]
    return {re.match(r"[\w-]+", line)[0].lower() for line in lines}


def test_it_holds_all_files_of_the_packages_but_pictures(wheel):
    for package in (TOP / "framework/thalweg", *(TOP / "plugins").glob("thalweg_*")):
        files = {p for p in package.rglob("*") if p.is_file() and p.suffix not in (".png", ".pyc")}
        assert files
        for file in files:
            assert (wheel / file.relative_to(package.parent)).is_file(), file


def test_it_needs_an_mpi_library_and_neither_petsc_nor_a_compiler(wheel):
    assert {"mpi4py", "mpich", "numpy"} <= requirements(wheel)
    assert not requirements(wheel) & {"petsc", "petsc4py", "slepc4py"}


def test_all_that_it_imports_is_needed_or_an_extra(wheel):
    known = {path.name for path in wheel.iterdir()} | EXTRA | set(sys.stdlib_module_names)
    needed = requirements(wheel)
    for path in wheel.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [entry.name for entry in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            for name in {name.partition(".")[0] for name in names} - known:
                assert DISTRIBUTIONS.get(name, name) in needed, f"{path}: {name}"


def test_it_works_alone(wheel, tmp_path):
    script = (
        "import sys; sys.modules['petsc4py'] = None; import thalweg; print(thalweg.__file__)\n"
        "from sklearn.datasets import load_digits; from thalweg_embedding import TSNE\n"
        "print(TSNE(max_iter=2).fit_transform(load_digits().data[:300]).shape)\n"
        "from thalweg.workbench.command.main import main\n"
        "main(['list']); main(['plugin', 'new', 'thalweg-mine'])"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = run_limited(command, 300, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(wheel)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(wheel))
    assert "(300, 2)" in done.stdout
    assert "t-sne" in done.stdout
    assert (tmp_path / "thalweg-mine" / "pyproject.toml").exists()
