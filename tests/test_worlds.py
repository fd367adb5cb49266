"""What the tests on several ranks do when a rank does not come to the end of one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CASES = """
import os
import pytest

@pytest.mark.ranks(1, 2)
def test_passes(comm):
    comm.Barrier()

@pytest.mark.ranks(2)
def test_one_rank_fails_while_the_other_waits(comm):
    assert comm.rank == 0, "only rank 1"
    comm.Barrier()

@pytest.mark.ranks(2)
def test_one_rank_is_gone(comm):
    if comm.rank == 1:
        os._exit(3)
    comm.Barrier()

@pytest.mark.ranks(2)
def test_all_fail(comm):
    assert comm.size == 1

@pytest.mark.ranks(2)
def test_is_skipped(comm):
    pytest.skip("for no reason")

@pytest.mark.ranks(2)
def test_runs_in_a_new_world(comm):
    comm.Barrier()
"""


def test_a_failing_rank_costs_its_test_and_no_other(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    shutil.copytree(Path(__file__).with_name("ranks"), tmp_path / "ranks")
    settings = "[pytest]\npythonpath = .\nmarkers =\n    ranks(*counts): ranks\n"
    (tmp_path / "pytest.ini").write_text(settings)
    (tmp_path / "test_cases.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no"]
    # os.environ, for MPI adds variables to the environment behind Python's back.
    environment = dict(os.environ)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    outcomes = dict(
        line.removeprefix("test_cases.py::").split()[:2]
        for line in done.stdout.splitlines()
        if line.startswith("test_cases.py::")
    )
    assert outcomes == {
        "test_passes[ranks=1]": "PASSED",
        "test_passes[ranks=2]": "PASSED",
        "test_one_rank_fails_while_the_other_waits[ranks=2]": "FAILED",
        "test_one_rank_is_gone[ranks=2]": "FAILED",
        "test_all_fail[ranks=2]": "FAILED",
        "test_is_skipped[ranks=2]": "SKIPPED",
        "test_runs_in_a_new_world[ranks=2]": "PASSED",
    }, done.stdout
    assert "rank 1 of 2" in done.stdout
    assert "only rank 1" in done.stdout
