"""The gallery's examples and the notebooks run, and what they assert holds."""

import json
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[1] / "framework" / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    with mpl.rc_context():
        mpl.use("agg")
        yield
    plt.close("all")


def test_there_are_enough():
    assert len(EXAMPLES) >= 12
    assert len(NOTEBOOKS) >= 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem.removeprefix("plot_"))
def test_an_example_runs_and_draws(path):
    assert runpy.run_path(str(path))["figure"].axes


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert not any(cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    names: dict[str, object] = {}
    for number, cell in enumerate(cells, start=1):
        exec(compile(cell, f"{path.name}, code cell {number}", "exec"), names)
