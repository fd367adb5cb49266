"""A run goes on after its files have moved, and not with other files."""

import numpy as np

import thalweg
from thalweg.parallel import MPI

POINTS = np.random.default_rng(0).standard_normal((20, 3))
LABELS = np.arange(20) % 3


def config(folder, iterations):
    return {
        "data": {"path": str(folder / "points.npy"), "labels": str(folder / "labels.npy")},
        "objective": {"name": "elastic-embedding", "perplexity": 4},
        "stop": {"iterations": iterations, "decrease": 0.0},
        "output": {"pictures": False},
    }


def saved(folder, labels=LABELS):
    folder.mkdir()
    np.save(folder / "points.npy", POINTS)
    np.save(folder / "labels.npy", labels)
    return folder


def test_data_and_labels_may_move(tmp_path):
    here, there = saved(tmp_path / "here"), saved(tmp_path / "there")
    thalweg.run(config(here, 2), tmp_path / "run", comm=MPI.COMM_SELF)
    moved = config(there, 4)
    result = thalweg.run(moved, tmp_path / "run", resume=True, comm=MPI.COMM_SELF)
    assert result.iterations == 4
    assert len(result.trace) == 5
