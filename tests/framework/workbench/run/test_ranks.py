"""A configured run gives the same answer at any number of ranks, and fails as one."""

import sys

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
