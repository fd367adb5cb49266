"""A configured run gives the same answer at any number of ranks, and fails as one."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import MPI

CONFIG = {
    "data": {"name": "digits", "rows": 80},
    "objective": {"name": "elastic-embedding", "perplexity": 10},
    "stop": {"iterations": 20, "decrease": 0.0},
}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("objective", ["elastic-embedding", "s-sne", "t-sne"])
def test_twenty_iterations_agree_with_one_rank(comm, objective):
    config = {**CONFIG, "objective": {"name": objective, "perplexity": 10}}
    alone = thalweg.run(config, comm=MPI.COMM_SELF)
    together = thalweg.run(config, comm=comm)
    assert together.iterations == alone.iterations == 20
    assert together.objective == pytest.approx(alone.objective, rel=1e-8)
    assert np.allclose(together.gather(), alone.x, rtol=0, atol=1e-6 * np.abs(alone.x).max())


@pytest.mark.ranks(4)
def test_more_ranks_than_rows_work(comm):
    config = {
        "data": {"name": "blobs", "rows": 3},
        "objective": {"name": "elastic-embedding", "perplexity": 1.5},
        "stop": {"iterations": 5},
    }
    alone = thalweg.run(config, comm=MPI.COMM_SELF)
    together = thalweg.run(config, comm=comm)
    assert together.objective == pytest.approx(alone.objective, rel=1e-8)


@pytest.mark.ranks(2, 3)
def test_bad_input_is_raised_on_every_rank(comm):
    with pytest.raises(InputError, match="perplexity"):
        thalweg.run({**CONFIG, "objective": {"name": "t-sne", "perplexity": 500}}, comm=comm)


FAILING = """
import sys
from thalweg.workbench.command.main import main
from thalweg.driver import loop
from thalweg.parallel import MPI

record = loop._Run._record

def fail_on_rank_one(self, state):
    record(self, state)
    if MPI.COMM_WORLD.rank == 1 and self.at.iteration == 2:
        raise RuntimeError("a cosmic ray")

loop._Run._record = fail_on_rank_one
sys.exit(main(sys.argv[1:]))
"""


def test_a_rank_that_raises_ends_the_run_with_its_number_and_traceback(tmp_path, mpirun):
    (tmp_path / "fail.py").write_text(FAILING)
    (tmp_path / "c.toml").write_text('[objective]\nname = "rosenbrock"\n')
    done = mpirun(3, [sys.executable, "fail.py", "run", "c.toml", "--out", "out"], cwd=tmp_path)
    assert done.returncode not in (0, -9)
    assert "rank 1 of 3 failed" in done.stderr
    assert "RuntimeError: a cosmic ray" in done.stderr
    assert not (tmp_path / "out" / "result.json").exists()
