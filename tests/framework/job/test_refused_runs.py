"""A run that is refused after it began leaves nothing that stands in the next one's way."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg
from thalweg.errors import InputError


def clustering(tmp_path, solver):
    points = np.random.default_rng(0).standard_normal((30, 4))
    np.save(tmp_path / "points.npy", points)
    np.savetxt(tmp_path / "given.csv", np.arange(30) % 2, fmt="%d")
    return {
        "data": {"path": str(tmp_path / "points.npy"), "labels": str(tmp_path / "given.csv")},
        "objective": {"name": "kdac", "clusters": 2, "components": 2},
        "solver": {"name": solver},
        "stop": {"iterations": 3},
    }


def test_the_folder_is_free_again(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="orthonormal"):
        thalweg.run(clustering(tmp_path, "lbfgs"), out)
    assert not out.exists()
    thalweg.run(clustering(tmp_path, "ism"), out)
    assert (out / "result.json").exists()


def test_a_folder_that_was_there_stays(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="orthonormal"):
        thalweg.run(clustering(tmp_path, "lbfgs"), out)
    assert [file.name for file in out.iterdir()] == ["notes.txt"]


def test_methods_are_for_a_comparison():
    configuration = {"objective": {"name": "rosenbrock"}, "method": [{"label": "one"}]}
    with pytest.raises(InputError, match="thalweg compare"):
        thalweg.run(configuration)
