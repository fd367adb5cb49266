"""The README's figures are those that were recorded."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def with_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from hpc.bench.readme import with_results

    yield with_results
    for name in [name for name in sys.modules if name.split(".")[0] == "hpc"]:
        del sys.modules[name]


def test_writing_the_results_again_changes_nothing(with_results):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_results(readme) == readme, "run scripts/bench --readme"


def test_a_readme_without_results_is_refused(with_results):
    with pytest.raises(ValueError, match="README"):
        with_results("no results")
