"""Pictures come after the results, and are no condition of them."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg
from thalweg.job.pictures import Frames
from thalweg.parallel import MPI

CONFIG = {
    "data": {"name": "digits", "rows": 40},
    "objective": {"name": "elastic-embedding", "perplexity": 5},
    "stop": {"iterations": 3, "decrease": 0.0},
}


@pytest.mark.parametrize(
    "problem",
    [
        {"objective": {"name": "rosenbrock"}},
        {**CONFIG, "objective": {**CONFIG["objective"], "dimensions": 1}},
    ],
)
def test_a_variable_of_one_column_is_animated_along_a_line(tmp_path, problem):
    config = {**problem, "stop": {"iterations": 2}, "output": {"animation": True}}
    thalweg.run(config, tmp_path / "run", comm=MPI.COMM_SELF)
    assert (tmp_path / "run" / "animation.gif").read_bytes().startswith(b"GIF")


@pytest.mark.ranks(1, 2)
def test_frames_are_kept_on_the_rank_that_draws(comm, monkeypatch):
    monkeypatch.setattr("thalweg.job.pictures.MAX_FRAMES", 4)
    kept = {}

    class Watched(Frames):
        def __init__(self, objective):
            super().__init__(objective)
            kept["frames"] = self

    from thalweg.config import read_configuration
    from thalweg.job.building import build_objective, built_method
    from thalweg.job.running import run_method

    configuration = read_configuration({**CONFIG, "stop": {"iterations": 10, "decrease": 0.0}})
    dataset, objective = build_objective(configuration, comm)
    solver = built_method(configuration, objective)
    run_method(configuration, dataset, objective, solver, None, Watched(objective))
    objective.destroy()
    frames = kept["frames"]
    assert len(frames.captions) == 3
    assert frames.every == 4
    assert len(frames.frames) == (3 if comm.rank == 0 else 0)
    assert all(np.isfinite(frame).all() for frame in frames.frames)
