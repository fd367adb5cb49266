"""What a phase sends and takes is counted for the innermost phase, and for no other."""

import os
import time

import numpy as np
import pytest

from thalweg.parallel import Layout, phase, sum_over_ranks
from thalweg.parallel.traffic import phases
from thalweg.workbench.command.main import main
from thalweg.workbench.run.profile import profile, profile_table


@pytest.mark.ranks(1, 2, 3)
def test_messages_and_seconds_count_for_the_innermost_phase(comm):
    layout = Layout(comm, 30, 2)
    before = phases()
    with phase("outside"):
        layout.gather_rows(np.zeros((layout.local_rows, 2)))
        with phase("inside"):
            time.sleep(0.02)
            sum_over_ranks(comm, np.zeros(5))
    ranks = profile(comm, before)
    assert len(ranks) == comm.size
    for rank, entry in enumerate(ranks):
        outside, inside = entry["phases"]["outside"], entry["phases"]["inside"]
        several = comm.size > 1
        assert inside["bytes"] == 40 * several
        assert inside["messages"] == several
        assert outside["messages"] == comm.size - 1
        assert outside["bytes"] == 16 * layout.counts()[rank] * (comm.size - 1)
        assert inside["seconds"] >= 0.02
        assert entry["peak_memory"] > 1e6
    table = profile_table(ranks)
    assert "inside" in table
    assert table.count("\n") >= 4


@pytest.mark.petsc
def test_what_follows_two_dashes_is_for_petsc(capsys, monkeypatch):
    monkeypatch.setenv("PETSC_OPTIONS", "-before 1")
    assert main(["--version", "--", "-after", "-ksp_type", "cg"]) == 0
    assert os.environ["PETSC_OPTIONS"] == "-before 1 -after -ksp_type cg"
    assert "thalweg" in capsys.readouterr().out
