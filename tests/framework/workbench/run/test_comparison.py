"""A comparison keeps its methods apart, whatever they are called."""

import json

import pytest

from thalweg.parallel import MPI
from thalweg.workbench.run import compare
from thalweg.workbench.run.comparison import method_folders

CONFIG = {
    "objective": {"name": "rosenbrock"},
    "stop": {"iterations": 2},
    "output": {"pictures": False},
}


@pytest.mark.parametrize(
    "labels",
    [
        ["SD", "SD-", "sd"],
        ["SD", "SD-", "SD-2", "SD 2"],
        ["λ", "μ"],
        ["-..", "+"],
        ["config.toml", "checkpoint"],
        ["m" * 300, "m" * 301],
    ],
)
def test_any_labels_get_folders_of_their_own(labels, tmp_path):
    folders = method_folders(labels)
    assert len({name.lower() for name in folders.values()}) == len(labels)
    for name in folders.values():
        assert name
        assert (tmp_path / name).parent == (tmp_path / name).resolve().parent
        assert name not in ("config.toml", "checkpoint", ".", "..")


def test_methods_whose_labels_look_alike_are_compared(tmp_path):
    methods = [{"label": "λ"}, {"label": "SD"}, {"label": "SD-"}]
    results = compare({**CONFIG, "method": methods}, tmp_path / "all", comm=MPI.COMM_SELF)
    assert list(results) == ["λ", "SD", "SD-"]
    found = json.loads((tmp_path / "all" / "comparison.json").read_text())["methods"]
    for row in found:
        assert (tmp_path / "all" / row["folder"] / "result.json").exists()
    assert not (tmp_path / "all" / "result.json").exists()
